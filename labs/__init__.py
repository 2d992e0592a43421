"""The labs: you write one part of the compiler yourself, and checks tell you whether it is right.

Start with `cutaway lab list`. README.md says what is in each file, and how to add a lab.
"""
