"""Modules that only gather names, as torch groups them: cutaway.autograd, .amp, .linalg, .special."""
