"""Triton kernels of the user as operators: what they write to, how they are launched, the driver for NumPy arrays."""
