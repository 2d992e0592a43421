"""NumPy's functions, methods and helpers on abstract arrays."""
