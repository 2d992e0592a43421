"""The version of Cutaway, which the command line, the files of the debug folder and the doctor's report print.

Input: none; a release changes the line below.
"""

__version__ = "0.1.0"
