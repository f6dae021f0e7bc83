"""Sweeps: many settings, compared on validation rows, and the chosen one measured on test rows."""
