"""What runs at each call: compiled forward and backward as one step on the user's tape.

Input: callables on arrays for the two graphs, and the graphs they were made from.
"""
