"""Who divides the bit budget among the units: one file and one YAML each."""
