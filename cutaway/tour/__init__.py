"""The tour: trains a classifier with a compiled step, and writes a page that shows how it was compiled.

Input: the digits in `data/`, and the artifacts that the compiler keeps of each compile.
"""
