"""A deployed network as bytes, kept beside its record: what was measured can be asked again."""

import io
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from cfq_bench.errors import UserError
from cfq_bench.quantization.deployed import DeployedLinear, DeployedNetwork, DeployedSplit

FORMAT = 1
"""Raised when the layout changes."""


class FloatLinear(nn.Module):
    """A linear layer of a network that is not quantized, with constant weights."""

    weight: Tensor
    bias: Tensor | None

    def __init__(self, weight: Tensor, bias: Tensor | None) -> None:
        super().__init__()
        self.register_buffer("weight", weight.detach().clone())
        self.register_buffer("bias", None if bias is None else bias.detach().clone())

    def forward(self, inputs: Tensor) -> Tensor:
        """(..., in) -> (..., out)."""
        return F.linear(inputs, self.weight, self.bias)


def network_to_bytes(network: nn.Module) -> bytes:
    """Serialize a deployed network: a `DeployedNetwork`, or a float backbone of layers in order.

    Raises:
        TypeError: a layer that the format does not have.
    """
    layers = network.layers if isinstance(network, DeployedNetwork) else network.children()
    payload = {"format": FORMAT, "layers": [_pack(layer) for layer in layers]}
    buffer = io.BytesIO()
    torch.save(payload, buffer)
    return buffer.getvalue()


def network_from_bytes(data: bytes, where: str) -> DeployedNetwork:
    """Read a network back; its logits equal the original's bitwise.

    Args:
        data: from `network_to_bytes`.
        where: the file, for error messages.

    Raises:
        UserError: the file is damaged or of another format.
    """
    try:
        payload = torch.load(io.BytesIO(data), weights_only=True, map_location="cpu")
    except Exception as error:  # torch.load raises almost anything on damaged files
        raise UserError(f"{where} is damaged ({type(error).__name__}): run it again") from None
    if not isinstance(payload, dict) or payload.get("format") != FORMAT:
        raise UserError(f"{where} is not a network of format {FORMAT}: run it again with --force")
    return DeployedNetwork([_unpack(layer) for layer in payload["layers"]])


def _pack(layer: nn.Module) -> dict[str, Any]:
    if isinstance(layer, DeployedSplit):
        return {
            "kind": "split",
            "sizes": layer.sizes,
            "blocks": [_pack(block) for block in layer.blocks],
        }
    if isinstance(layer, DeployedLinear):
        return {
            "kind": "quantized",
            "name": layer.name,
            "codes": layer.codes.cpu(),
            "step": layer.step.cpu(),
            "bias": None if layer.bias is None else layer.bias.cpu(),
            "bits": layer.bits,
            "activation": layer.activation,
            "scale": None if layer.scale is None else layer.scale.cpu(),
            "activation_bits": layer.activation_bits,
        }
    if isinstance(layer, nn.Linear | FloatLinear):
        bias = None if layer.bias is None else layer.bias.detach().cpu()
        return {"kind": "float", "weight": layer.weight.detach().cpu(), "bias": bias}
    if isinstance(layer, nn.ReLU):
        return {"kind": "relu"}
    raise TypeError(f"a {type(layer).__name__} cannot be stored")


def _unpack(layer: dict[str, Any]) -> nn.Module:
    kind = layer["kind"]
    if kind == "split":
        return DeployedSplit([_quantized(block) for block in layer["blocks"]], layer["sizes"])
    if kind == "quantized":
        return _quantized(layer)
    if kind == "float":
        return FloatLinear(layer["weight"], layer["bias"])
    return nn.ReLU()


def _quantized(layer: dict[str, Any]) -> DeployedLinear:
    codes, step = layer["codes"], layer["step"]
    made = DeployedLinear(
        layer["name"],
        codes.float() * step,
        layer["bias"],
        step,
        layer["bits"],
        layer["activation"],
        layer["scale"],
        layer["activation_bits"],
    )
    made.codes.copy_(codes)  # the codes themselves, not codes * step / step
    return made
