"""Does code written for torch run as it is, under torch's module paths?"""
