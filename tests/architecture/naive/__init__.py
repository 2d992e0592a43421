"""First versions of seams, written from the contracts alone: what the tier `first` lets pass."""
