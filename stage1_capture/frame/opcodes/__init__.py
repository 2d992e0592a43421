"""What each instruction does: tables from opcode name to handler, one file for what a version of Python has alone."""
