"""Does the repository keep its own rules: files, imports, seams, stubs?"""
