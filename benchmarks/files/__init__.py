"""The command line on files, beside other programs that give the same numbers."""
