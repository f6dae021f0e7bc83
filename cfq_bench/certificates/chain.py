"""Networks that can be certified: linear layers, ReLUs, and quantizers of what the ReLUs give."""

from dataclasses import dataclass

import torch
from torch import Tensor, nn

from cfq_bench.actions.outcome import Model
from cfq_bench.actions.solver import Blocked
from cfq_bench.errors import UserError
from cfq_bench.quantization.deployed import DeployedLinear, DeployedNetwork, DeployedSplit
from cfq_bench.quantization.functional import unsigned_levels
from cfq_bench.quantization.storage import FloatLinear


@dataclass(frozen=True)
class Layer:
    """z = W Q(v) + b, where v is the network's input or the ReLU of the layer before.

    Attributes:
        weight: (out, in) float64, the float32 weights that run.
        bias: (out,) float64.
        step: of the quantizer Q of v; None where v is not quantized.
        levels: greatest code of Q; 0 where v is not quantized.
    """

    weight: Tensor
    bias: Tensor
    step: float | None = None
    levels: int = 0


def read_chain(model: Model) -> list[Layer]:
    """The layers of a network of any depth, on the CPU; the last one gives two logits.

    Raises:
        UserError: the network is of another kind.
    """
    network = model.network if isinstance(model, Blocked) else model
    if isinstance(network, DeployedNetwork):
        modules = list(network.layers)
    elif isinstance(network, nn.Sequential):
        modules = list(network)
    else:
        raise _refusal(f"a {type(network).__name__}")
    layers: list[Layer] = []
    rectified = True  # a linear layer may follow: the input, or a ReLU's output
    for module in modules:
        linear = isinstance(module, nn.Linear | FloatLinear | DeployedLinear | DeployedSplit)
        if linear and rectified:
            layers.append(_layer(module, first=not layers))
            rectified = False
        elif isinstance(module, nn.ReLU) and layers and not rectified:
            rectified = True
        else:
            raise _refusal(f"a {type(module).__name__} at place {modules.index(module)}")
    if rectified or len(layers[-1].bias) != 2:
        raise _refusal("a network that does not end in two logits of a linear layer")
    return layers


def _refusal(what: str) -> UserError:
    return UserError(
        f"certificates are for linear layers with one ReLU between them, not for {what}: "
        "use such a backbone, or evaluation.certificates=false"
    )


def _layer(module: nn.Module, *, first: bool) -> Layer:
    if isinstance(module, DeployedSplit):
        blocks = [_layer(block, first=first) for block in module.blocks]
        bias = torch.stack([block.bias for block in blocks]).sum(0)
        return Layer(torch.cat([block.weight for block in blocks], dim=1), bias)
    step, levels = None, 0
    if isinstance(module, DeployedLinear) and module.scale is not None:
        if first:
            raise _refusal("a network whose inputs are quantized")
        levels = unsigned_levels(module.activation_bits)
        scale = module.scale.detach()
        step = float(scale / levels if module.activation == "pact" else scale)
    if not isinstance(module.weight, Tensor):
        raise TypeError(f"{type(module).__name__} has no weight")
    weight = module.weight.detach().double().cpu()
    bias = weight.new_zeros(len(weight))
    if isinstance(module.bias, Tensor):
        bias = module.bias.detach().double().cpu()
    return Layer(weight, bias, step, levels)
