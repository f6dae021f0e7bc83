"""One room for all views: tables, rows, seeds, means, marks, labels, order, verdicts."""
