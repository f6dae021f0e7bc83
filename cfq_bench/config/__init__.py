"""Settings: YAML files and overrides, filled into frozen, typed models. Imports no torch."""
