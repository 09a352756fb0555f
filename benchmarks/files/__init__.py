"""The command line on files, beside what others take for the same numbers from the same
files.
"""
