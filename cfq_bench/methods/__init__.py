"""Quantization methods: one LightningModule, one file and one YAML each."""
