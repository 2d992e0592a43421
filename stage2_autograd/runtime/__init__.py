"""What runs at each call: compiled forward and backward as one step on the eager tape.

Input: functions of arrays for the two graphs, and the graphs that they were made from.
"""
