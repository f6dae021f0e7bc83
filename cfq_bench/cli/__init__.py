"""The command line: a thin shell on the Python API. Heavy imports wait until a command runs."""
