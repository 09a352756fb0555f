"""What an update costs on a device, counted without one.

Launches, bytes, memory, waits and copies are counted.
"""
