"""The version of Cutaway, for whoever says it: the command line, the debug folder's files, a report of the doctor.

Input: nothing; a release changes the line below.
"""

__version__ = "0.1.0"
