"""The tour: one real job through the whole machine, and the page that shows it.

Input: the digits in `data/`, and the artifacts that the compiler keeps of each compile.
"""
