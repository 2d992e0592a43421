"""Stage 2, ahead-of-time autograd: a captured graph becomes functional forward and backward graphs."""
