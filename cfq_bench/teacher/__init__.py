"""The full-precision model f: its training objectives, one file each."""
