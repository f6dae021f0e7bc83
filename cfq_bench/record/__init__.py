"""One record per run: what was asked, what came out, and where it was computed."""
