"""Does capture see what Python sees: callbacks, guards, constants, programs that people write?"""
