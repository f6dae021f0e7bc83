"""Metrics as pure functions and torchmetrics classes, and the evaluation that fills a record."""
