"""Does AOT autograd keep a program's meaning? Random tensor programs say so."""
