"""Networks from encoded rows to logits, one file each."""
