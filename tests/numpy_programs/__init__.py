"""Programs on NumPy arrays, compiled and run against NumPy itself."""
