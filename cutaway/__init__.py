"""Cutaway: a compiler for array programs, cut open so that every part is seen moving.

Input: a Python function over tensors. A placeholder until the stages are wired together here.
"""
