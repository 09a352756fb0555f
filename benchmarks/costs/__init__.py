"""What an update costs on a device, counted without one: launches, bytes, memory, waits
and copies.
"""
