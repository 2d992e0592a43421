"""The tensor library's own functions that are not operators."""
