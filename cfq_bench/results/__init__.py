"""What suites came to: the input of figures, reports and dashboards."""
