"""The table of operators: its rows, how a row is called and evaluated, and the core rows that others are made of."""
