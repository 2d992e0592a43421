"""Abstract values: what each kind of Python value is, and what operations do to it."""
