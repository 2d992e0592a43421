"""Does compile do what a program tells it: disable, breaks, stances, under our names and torch's?"""
