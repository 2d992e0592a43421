"""When sizes and numbers change, are results eager's, and how many compiles does it take?"""
