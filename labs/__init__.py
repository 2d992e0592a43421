"""The labs: a learner writes one seam, and that stage's own conformance tests judge it.

Input: a learner's file; the checks run `pytest <stage> --swap seam=file.py:object`.
"""
