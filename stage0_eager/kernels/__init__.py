"""What computes a core operator on arrays: formulas on NumPy or CuPy, and each made fit to run (eager.py)."""
