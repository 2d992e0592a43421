"""Does published model code run, captured whole, with torch's numbers?"""
