"""Does every message and every break code appear when it should, and does eager refuse what torch refuses?"""
