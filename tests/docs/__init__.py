"""Is what the pages show true: does every example and every command on them run?"""
