"""Run trackers: a copy of each record for those who look at runs in a browser."""
