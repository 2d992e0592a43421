"""Do several threads, tasks and frames compile and call at once without seeing one another?"""
