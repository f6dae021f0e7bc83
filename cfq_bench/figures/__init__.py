"""Figures drawn from a suite's results: the kinds that the paper has."""
