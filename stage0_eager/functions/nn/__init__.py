"""The functions of torch.nn.functional, one file per group: activations, pooling, convolution, losses, ..."""
