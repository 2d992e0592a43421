"""Is everything that the tape promises true of compiled code: aliases, hooks, modes, your own derivatives?"""
