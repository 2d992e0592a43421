"""The differential oracle: every operator, dtype, layout and edge value, against everything that knows the answer.

Input: the operator table, and a declaration per operator in samples/. `make oracle` runs all of it.
"""
