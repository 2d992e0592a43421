"""The tests of the labs."""
