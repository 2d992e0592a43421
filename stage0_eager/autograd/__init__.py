"""Gradients: the tape that calls are recorded on, what a write does to histories, hooks, Function, checkpoints."""
