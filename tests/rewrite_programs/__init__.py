"""Do the rewrites keep a program's meaning, over every attribute of an operator? Random programs say so."""
