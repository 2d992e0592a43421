"""Functions of Python and its library on abstract values: they fill the tables that calls look them up in."""
