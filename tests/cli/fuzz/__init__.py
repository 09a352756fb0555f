"""A differential fuzz of the command line: random files, options, damage and interruptions.

Whatever is asked for, the command line gives the numbers of the Python API and of plain loops, or one clear error; its
inputs are as before, and no file is half written. Run it from the folder ``tests``:

    python -m cli.fuzz --cases 2000 --seed 0

The suite runs a few cases of it (``test_fuzz.py``).
"""
