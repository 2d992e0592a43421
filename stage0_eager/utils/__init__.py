"""What torch keeps in torch.utils: data sets, nested containers; and the region in which breaks are errors."""
