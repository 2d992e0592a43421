"""Graph breaks: where a frame is cut, and the functions that run the instruction and the rest."""
