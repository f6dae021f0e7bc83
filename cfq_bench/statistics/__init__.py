"""How sure a comparison is: summaries over seeds, bootstrap intervals, paired tests."""
