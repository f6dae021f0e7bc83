"""A deployed network as bytes, kept beside its record: what was measured can be asked again."""

import io
from dataclasses import asdict
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from cfq_bench.backbones.base import Backbone
from cfq_bench.backbones.batch_norm import fold_batch_norm
from cfq_bench.backbones.graph import Add, Flow, input_shapes, one_input, steps_of
from cfq_bench.errors import UserError
from cfq_bench.quantization.deployed import (
    DeployedConv2d,
    DeployedLayer,
    DeployedLinear,
    DeployedNetwork,
    DeployedSplit,
    Shipped,
)
from cfq_bench.quantization.window import Window

FORMAT = 2
"""Raised when the layout changes. Format 1 had chains of linear layers only, and is still read."""


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


class FloatConv2d(FloatLinear):
    """A convolution of a network that is not quantized; `window` is where it looks."""

    def __init__(self, weight: Tensor, bias: Tensor | None, window: Window) -> None:
        super().__init__(weight, bias)
        self.window = window

    def forward(self, inputs: Tensor) -> Tensor:
        """(..., in, H, W) -> (..., out, H_out, W_out)."""
        return self.window.convolve(inputs, self.weight, self.bias)


def network_to_bytes(network: nn.Module) -> bytes:
    """Serialize a deployed network: a `DeployedNetwork`, or a float backbone.

    Raises:
        TypeError: a layer that the format does not have.
    """
    deployed = network if isinstance(network, DeployedNetwork) else _as_deployed(network)
    payload = {
        "format": FORMAT,
        "layers": [_pack(layer) for layer in deployed.layers],
        "reads": None if deployed.flow is None else deployed.flow.reads,
    }
    buffer = io.BytesIO()
    torch.save(payload, buffer)
    return buffer.getvalue()


def _as_deployed(network: nn.Module) -> DeployedNetwork:
    """A float network as its steps."""
    if not isinstance(network, Backbone):
        return DeployedNetwork(list(network.children()))
    folded = fold_batch_norm(network)
    steps = steps_of(folded)
    shapes = iter(input_shapes(steps, one_input(folded)))
    layers: list[nn.Module] = []
    for step in steps:
        module = step.module
        if isinstance(module, nn.Conv2d):
            layers.append(FloatConv2d(module.weight, module.bias, Window.of(module, next(shapes))))
        elif isinstance(module, nn.Linear):
            next(shapes)
            layers.append(FloatLinear(module.weight, module.bias))
        else:
            layers.append(module)
    flow = Flow([step.reads for step in steps])
    return DeployedNetwork(layers, None if flow.is_chain else flow.reads)


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
    if not isinstance(payload, dict) or payload.get("format") not in (1, FORMAT):
        raise UserError(f"{where} is not a network of format {FORMAT}: run it again with --force")
    layers = [_unpack(layer) for layer in payload["layers"]]
    return DeployedNetwork(layers, payload.get("reads"))


def _pack(layer: nn.Module) -> dict[str, Any]:
    if isinstance(layer, DeployedSplit):
        return {
            "kind": "split",
            "sizes": layer.sizes,
            "blocks": [_pack(block) for block in layer.blocks],
        }
    if isinstance(layer, DeployedLayer):
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
            "window": asdict(layer.window) if isinstance(layer, DeployedConv2d) else None,
        }
    if isinstance(layer, nn.Linear | FloatLinear):
        bias = None if layer.bias is None else layer.bias.detach().cpu()
        window = asdict(layer.window) if isinstance(layer, FloatConv2d) else None
        weight = layer.weight.detach().cpu()
        return {"kind": "float", "weight": weight, "bias": bias, "window": window}
    if isinstance(layer, nn.Dropout | nn.Dropout2d):
        return {"kind": "identity"}  # what is deployed is in evaluation mode
    for kind, (made, fields) in PLAIN.items():
        if type(layer) is made:
            return {"kind": kind, **{field: getattr(layer, field) for field in fields}}
    raise TypeError(f"a {type(layer).__name__} cannot be stored")


PLAIN: dict[str, tuple[type[nn.Module], tuple[str, ...]]] = {
    "relu": (nn.ReLU, ()),
    "add": (Add, ()),
    "identity": (nn.Identity, ()),
    "flatten": (nn.Flatten, ("start_dim", "end_dim")),
    "max_pool": (nn.MaxPool2d, ("kernel_size", "stride", "padding", "dilation", "ceil_mode")),
    "avg_pool": (
        nn.AvgPool2d,
        (
            *("kernel_size", "stride", "padding", "ceil_mode"),
            *("count_include_pad", "divisor_override"),
        ),
    ),
    "mean_pool": (nn.AdaptiveAvgPool2d, ("output_size",)),
    "most_pool": (nn.AdaptiveMaxPool2d, ("output_size",)),
}
"""Modules without weights, by their kind in the file, and what they are made from."""


def _unpack(layer: dict[str, Any]) -> nn.Module:
    kind = layer["kind"]
    if kind == "split":
        blocks = [_quantized(block) for block in layer["blocks"]]
        return DeployedSplit(blocks, layer["sizes"])
    if kind == "quantized":
        return _quantized(layer)
    if kind == "float":
        window = layer.get("window")
        if window is None:
            return FloatLinear(layer["weight"], layer["bias"])
        return FloatConv2d(layer["weight"], layer["bias"], Window(**window))
    made, fields = PLAIN[kind]
    # Fields that a file of an older version lacks had their defaults.
    return made(**{field: layer[field] for field in fields if field in layer})


def _quantized(layer: dict[str, Any]) -> DeployedLayer:
    codes, step, window = layer["codes"], layer["step"], layer.get("window")
    shipped = Shipped(
        layer["name"],
        codes.float() * step,
        layer["bias"],
        step,
        layer["bits"],
        layer["activation"],
        layer["scale"],
        layer["activation_bits"],
    )
    made = DeployedLinear(shipped) if window is None else DeployedConv2d(shipped, Window(**window))
    made.codes.copy_(codes)  # the codes themselves, not codes * step / step
    return made
