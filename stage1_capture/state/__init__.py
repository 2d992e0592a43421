"""What one capture keeps while it runs, and knows of no kind of value."""
