"""The operator table: its rows, how a row is called and evaluated, and the core rows, which the others call."""
