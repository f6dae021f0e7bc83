"""Which weights are removed from a network, and that they stay removed."""

from collections.abc import Callable, Iterator, Sequence
from typing import Literal

import torch
from torch import Tensor, nn

from cfq_bench.backbones.base import Backbone
from cfq_bench.backbones.graph import (
    LAYERS,
    channel_readers,
    steps_of,
    weighted_layers,
)
from cfq_bench.quantization.gradients import summed_sizes
from cfq_bench.quantization.layers import QuantLayer, SplitLinear
from cfq_bench.quantization.network import QuantizedNetwork
from cfq_bench.quantization.window import Window

Unit = Literal["neurons", "weights"]


def prunable(network: Backbone) -> list[int]:
    """Layers, counted from 0, whose neurons or channels can be removed one by one.

    Not the last one, nor layers whose channels are summed with others, as behind a residual block.
    """
    return [i for i, readers in enumerate(channel_readers(steps_of(network))) if readers]


def magnitude(network: Backbone, unit: Unit) -> list[Tensor]:
    """How large each weight is, or the incoming weights of each neuron or channel (l2 norm).

    Returns:
        weights: in the shape of each layer's weights; neurons: (out,) per prunable layer.
    """
    weights = [layer.weight.detach() for layer in weighted_layers(network)]
    if unit == "weights":
        return [weight.abs() for weight in weights]
    return [weights[i].flatten(1).norm(dim=1) for i in prunable(network)]


def sensitivity(
    network: Backbone, unit: Unit, inputs: Tensor, loss: Callable[[Tensor], Tensor]
) -> list[Tensor]:
    """First-order change of each row's loss if a weight or neuron is set to 0, mean of |w g|.

    The absolute value is taken row by row: at the end of a training the mean gradient is about 0.

    Args:
        network: whose parameters may or may not require gradients; nothing is changed.
        unit: what is scored.
        inputs: (B, d), or images.
        loss: logits (B, C) to the loss of each row (B,).

    Returns:
        As `magnitude`.
    """
    layers = weighted_layers(network)
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
        windows = [_window(layer, given) for layer, given in zip(layers, seen, strict=True)]
        return [
            layer.weight.detach().abs() * summed_sizes(given, slope, window) / rows
            for layer, slope, given, window in zip(layers, slopes, seen, windows, strict=True)
        ]
    # Of a unit behind a ReLU, output times slope is the sum of w g over its row and its bias; a
    # channel is such a unit at every pixel.
    changes = [(sums[i].detach() * slopes[i]) for i in prunable(network)]
    return [
        (change.flatten(2).sum(2) if change.dim() > 2 else change).abs().mean(0)
        for change in changes
    ]


def _window(layer: nn.Module, given: Tensor) -> Window | None:
    return Window.of(layer, tuple(given.shape[1:])) if isinstance(layer, nn.Conv2d) else None


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
        Bool in the shape of each layer's weights. A removed neuron or channel takes its row with
        it, and what reads it in the layers that it feeds.
    """
    kept = [_highest(score, fraction) for score in scores]
    if unit == "weights":
        return kept
    weights = [layer.weight for layer in weighted_layers(network)]
    masks = [torch.ones_like(weight, dtype=torch.bool) for weight in weights]
    readers = channel_readers(steps_of(network))
    for i, keep in zip(prunable(network), kept, strict=True):
        masks[i] &= _along(keep, 0, masks[i])
        for reader in readers[i] or []:
            # A linear layer reads a flattened image channel by channel.
            columns = keep.repeat_interleave(masks[reader].shape[1] // len(keep))
            masks[reader] &= _along(columns, 1, masks[reader])
    return masks


def _along(keep: Tensor, dim: int, mask: Tensor) -> Tensor:
    """A vector that broadcasts along one dimension of a mask."""
    shape = [1] * mask.dim()
    shape[dim] = len(keep)
    return keep.view(shape)


def _highest(score: Tensor, fraction: float) -> Tensor:
    """Bool like `score`, False at its lowest `fraction`; ties are removed in order."""
    count = min(round(fraction * score.numel()), score.numel() - 1)
    lowest = score.flatten().sort(stable=True).indices[:count]
    keep = torch.ones(score.numel(), dtype=torch.bool, device=score.device)
    keep[lowest] = False
    return keep.view_as(score)


class Masks(nn.Module):
    """The weights of a backbone that stay, one mask for each layer; at first all do.

    Args:
        network: the backbone that is pruned.

    Attributes:
        names: of its layers in forward order.
    """

    def __init__(self, network: Backbone) -> None:
        super().__init__()
        names = {module: name for name, module in network.named_modules()}
        layers = weighted_layers(network)
        self.names = [names[layer] for layer in layers]
        for i, layer in enumerate(layers):
            self.register_buffer(f"keep{i}", torch.ones_like(layer.weight, dtype=torch.bool))

    def set(self, masks: Sequence[Tensor]) -> None:
        """Take over masks from `masks_of`."""
        for kept, mask in zip(self.buffers(), masks, strict=True):
            kept.copy_(mask)

    @torch.no_grad()
    def prune(self, network: Backbone) -> None:
        """Zero what is removed, and the bias of a neuron without any incoming weight."""
        for name, keep in zip(self.names, self.buffers(), strict=True):
            layer = network.get_submodule(name)
            assert isinstance(layer, LAYERS)
            layer.weight.mul_(keep)
            if layer.bias is not None:
                layer.bias.mul_(keep.flatten(1).any(1))

    @torch.no_grad()
    def hold(self, network: QuantizedNetwork) -> None:
        """Zero the removed weights of a quantized copy."""
        for unit, keep in self.of_units(network):
            unit.weight.mul_(keep)

    def of_units(self, network: QuantizedNetwork) -> Iterator[tuple[QuantLayer, Tensor]]:
        """Each quantized unit with its mask; a split first layer shares one."""
        masks = self.buffers()
        for layer in network.layers:
            if isinstance(layer, SplitLinear):
                parts = torch.split(next(masks), layer.sizes, 1)
                for block, part in zip(layer.blocks, parts, strict=True):
                    assert isinstance(block, QuantLayer)
                    yield block, part
            elif isinstance(layer, QuantLayer):
                yield layer, next(masks)
