"""Passes over fx graphs that published code imports: shapes, splitting, replacing a pattern."""
