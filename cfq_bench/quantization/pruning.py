"""Which weights are removed from a network, and that they stay removed."""

from collections.abc import Callable, Iterator, Sequence
from typing import Literal

import torch
from torch import Tensor, nn

from cfq_bench.backbones.base import Backbone
from cfq_bench.quantization.layers import QuantLinear, SplitLinear
from cfq_bench.quantization.network import QuantizedNetwork

Unit = Literal["neurons", "weights"]


def linear_layers(network: Backbone) -> list[nn.Linear]:
    """The linear layers in forward order."""
    return [layer for layer in network if isinstance(layer, nn.Linear)]


def magnitude(network: Backbone, unit: Unit) -> list[Tensor]:
    """How large each weight is, or each hidden neuron's row of incoming weights (l2 norm).

    Returns:
        weights: (out, in) per layer; neurons: (out,) per hidden layer.
    """
    weights = [layer.weight.detach() for layer in linear_layers(network)]
    if unit == "weights":
        return [weight.abs() for weight in weights]
    return [weight.norm(dim=1) for weight in weights[:-1]]


def sensitivity(
    network: Backbone, unit: Unit, inputs: Tensor, loss: Callable[[Tensor], Tensor]
) -> list[Tensor]:
    """First-order change of each row's loss if a weight or neuron is set to 0, mean of |w g|.

    The absolute value is taken row by row: at the end of a training the mean gradient is about 0.

    Args:
        network: whose parameters may or may not require gradients; nothing is changed.
        unit: what is scored.
        inputs: (B, d).
        loss: logits (B, C) to the loss of each row (B,).

    Returns:
        As `magnitude`.
    """
    layers = linear_layers(network)
    seen: list[Tensor] = []
    sums: list[Tensor] = []

    def note(layer: nn.Module, args: tuple[Tensor], output: Tensor) -> Tensor:
        seen.append(args[0].detach())
        # A leaf of its own: what follows is asked for its derivative, whatever is frozen.
        sums.append(output if output.requires_grad else output.detach().requires_grad_())
        return sums[-1]

    handles = [layer.register_forward_hook(note) for layer in layers]
    try:
        with torch.enable_grad():
            total = loss(network(inputs)).sum()
            slopes = torch.autograd.grad(total, sums)
    finally:
        for handle in handles:
            handle.remove()
    rows = len(inputs)
    if unit == "weights":
        parts = zip(layers, slopes, seen, strict=True)
        return [
            layer.weight.detach().abs() * (slope.abs().T @ given.abs()) / rows
            for layer, slope, given in parts
        ]
    # Of a unit behind a ReLU, output times slope is the sum of w g over its row and its bias.
    pairs = zip(sums[:-1], slopes[:-1], strict=True)
    return [(value.detach() * slope).abs().mean(0) for value, slope in pairs]


def masks_of(
    network: Backbone, unit: Unit, scores: Sequence[Tensor], fraction: float
) -> list[Tensor]:
    """What stays: the highest scores of each layer.

    Args:
        network: gives the shapes.
        unit: what the scores are of.
        scores: as `magnitude` returns them.
        fraction: share of each layer to remove; at least one unit stays.

    Returns:
        (out, in) bool for each linear layer. A removed neuron takes its row with it and its column
        in the layer that it feeds.
    """
    kept = [_highest(score, fraction) for score in scores]
    if unit == "weights":
        return kept
    weights = [layer.weight for layer in linear_layers(network)]
    first = torch.ones(weights[0].shape[1], dtype=torch.bool, device=weights[0].device)
    last = torch.ones(weights[-1].shape[0], dtype=torch.bool, device=weights[0].device)
    feeding, fed = [first, *kept], [*kept, last]
    return [out[:, None] & into[None, :] for into, out in zip(feeding, fed, strict=True)]


def _highest(score: Tensor, fraction: float) -> Tensor:
    """Bool like `score`, False at its lowest `fraction`; ties are removed in order."""
    count = min(round(fraction * score.numel()), score.numel() - 1)
    lowest = score.flatten().sort(stable=True).indices[:count]
    keep = torch.ones(score.numel(), dtype=torch.bool, device=score.device)
    keep[lowest] = False
    return keep.view_as(score)


class Masks(nn.Module):
    """The weights of a backbone that stay, one mask for each linear layer; at first all do.

    Args:
        network: the backbone that is pruned.
    """

    def __init__(self, network: Backbone) -> None:
        super().__init__()
        for i, layer in enumerate(linear_layers(network)):
            self.register_buffer(f"keep{i}", torch.ones_like(layer.weight, dtype=torch.bool))

    def set(self, masks: Sequence[Tensor]) -> None:
        """Take over masks from `masks_of`."""
        for kept, mask in zip(self.buffers(), masks, strict=True):
            kept.copy_(mask)

    @torch.no_grad()
    def prune(self, network: Backbone) -> None:
        """Zero what is removed, and the bias of a neuron without any incoming weight."""
        for layer, keep in zip(linear_layers(network), self.buffers(), strict=True):
            layer.weight.mul_(keep)
            if layer.bias is not None:
                layer.bias.mul_(keep.any(1))

    @torch.no_grad()
    def hold(self, network: QuantizedNetwork) -> None:
        """Zero the removed weights of a quantized copy."""
        for unit, keep in self.of_units(network):
            unit.weight.mul_(keep)

    def of_units(self, network: QuantizedNetwork) -> Iterator[tuple[QuantLinear, Tensor]]:
        """Each quantized unit with its mask; a split first layer shares one."""
        masks = self.buffers()
        for layer in network.layers:
            if isinstance(layer, SplitLinear):
                parts = torch.split(next(masks), layer.sizes, 1)
                for block, part in zip(layer.blocks, parts, strict=True):
                    assert isinstance(block, QuantLinear)
                    yield block, part
            elif isinstance(layer, QuantLinear):
                yield layer, next(masks)
