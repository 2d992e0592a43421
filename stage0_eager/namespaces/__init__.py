"""Modules that only collect names, grouped as in torch: cutaway.autograd, .amp, .linalg, .special."""
