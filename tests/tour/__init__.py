"""Does the tour train, draw its page, and refuse data that is not its own?"""
