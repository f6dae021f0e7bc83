"""Read the weights of linear models and small ReLU networks, for solvers that reason about them."""

from dataclasses import dataclass

import numpy as np
from torch import Tensor, nn

from cfq_bench.actions.outcome import Model
from cfq_bench.errors import UserError
from cfq_bench.quantization.deployed import DeployedLinear, DeployedNetwork, DeployedSplit


@dataclass(frozen=True)
class Affine:
    """One layer a = W v + b, followed by a ReLU unless it is the last.

    Attributes:
        weight: (out, in) float64.
        bias: (out,) float64.
    """

    weight: np.ndarray
    bias: np.ndarray


def read_layers(model: Model, most_units: int) -> list[Affine]:
    """The affine layers of a network; the last one is the margin of class 1, one unit.

    Args:
        model: a Sequential or deployed network of linear layers and ReLUs; weights may be
            quantized, activations may not: their quantizers are step functions.
        most_units: hidden units up to which exact solutions are worth a try.

    Raises:
        UserError: a network of another kind, or a larger one.
    """
    if isinstance(model, DeployedNetwork):
        modules = list(model.layers)
    elif isinstance(model, nn.Sequential):
        modules = list(model)
    else:
        raise UserError(
            "exact solutions need a network of linear layers and ReLUs whose weights can be read, "
            f"got a {type(model).__name__}: use solver=search"
        )
    layers: list[Affine] = []
    rectified = True  # a linear layer may follow: the input, or a ReLU's output
    for module in modules:
        if isinstance(module, nn.ReLU) and layers and not rectified:
            rectified = True
        elif isinstance(module, nn.Linear | DeployedLinear | DeployedSplit) and rectified:
            layers.append(_affine(module))
            rectified = False
        else:
            raise UserError(
                "exact solutions need linear layers with one ReLU between them, got a "
                f"{type(module).__name__} at place {modules.index(module)}: use solver=search"
            )
    if rectified or len(layers[-1].bias) != 2:
        raise UserError("exact solutions need two logits from a linear layer: use solver=search")
    hidden = sum(len(layer.bias) for layer in layers[:-1])
    if hidden > most_units:
        raise UserError(
            f"exact solutions are out of reach for {hidden} hidden units, at most {most_units}: "
            "use solver=search, or a smaller backbone"
        )
    last = layers[-1]
    margin = Affine(last.weight[1:] - last.weight[:1], last.bias[1:] - last.bias[:1])
    return [*layers[:-1], margin]


def _affine(module: nn.Module) -> Affine:
    if isinstance(module, DeployedSplit):
        blocks = [_affine(block) for block in module.blocks]
        return Affine(
            np.concatenate([block.weight for block in blocks], axis=1),
            np.sum([block.bias for block in blocks], axis=0),
        )
    if isinstance(module, DeployedLinear) and module.scale is not None:
        raise UserError(
            f"exact solutions cannot be had of {module.name!r}: its input is quantized to "
            f"{module.activation_bits} bits, a step function: use solver=search"
        )
    weight = _array(getattr(module, "weight", None))
    bias = _array(getattr(module, "bias", None))
    if weight is None:
        raise TypeError(f"{type(module).__name__} has no weight")
    return Affine(weight, np.zeros(len(weight)) if bias is None else bias)


def _array(parameter: Tensor | None) -> np.ndarray | None:
    return None if parameter is None else parameter.detach().double().cpu().numpy()
