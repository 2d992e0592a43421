"""Are compiled modules and layers the modules they were: class, state, hooks, values?"""
