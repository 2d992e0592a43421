"""Automatic mixed precision: the lists and casts of autocast, and the gradient scaler."""
