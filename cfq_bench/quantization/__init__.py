"""Quantizers, the quantized network, its bit policy, and the network that is deployed."""
