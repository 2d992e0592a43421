"""`cutaway playground`: a page where you change a program, run it, and see what the compiler made of it.

Input: a program's text, typed into the page. `server.py` speaks with the browser, `runs.py` runs the program,
`page.html` is the page.
"""
