"""Batch norm as deployment has it: folded into the layer before it."""

import copy
from collections.abc import Iterator
from contextlib import contextmanager

from torch import fx, nn
from torch.nn.utils.fusion import fuse_conv_bn_eval, fuse_linear_bn_eval

from cfq_bench.backbones.base import Backbone
from cfq_bench.backbones.graph import trace
from cfq_bench.errors import UserError

NORMS = (nn.BatchNorm1d, nn.BatchNorm2d)


def fold_batch_norm(backbone: Backbone) -> Backbone:
    """A copy whose layers hold the statistics of their batch norms; itself where there are none.

    In evaluation mode the copy answers what the backbone does, up to float32's rounding. An
    identity is left in a norm's place.

    Raises:
        UserError: a batch norm does not read a layer that nothing else reads.
    """
    if not any(isinstance(module, NORMS) for module in backbone.modules()):
        return backbone
    folded = copy.deepcopy(backbone).eval()
    for node in trace(folded).nodes:
        module = folded.get_submodule(str(node.target)) if node.op == "call_module" else None
        if isinstance(module, NORMS):
            _fold(folded, node, module)
    return folded.train(backbone.training)


def _fold(network: nn.Module, node: fx.Node, norm: nn.BatchNorm1d | nn.BatchNorm2d) -> None:
    (feeder,) = node.all_input_nodes
    alone = feeder.op == "call_module" and len(feeder.users) == 1
    layer = network.get_submodule(str(feeder.target)) if alone else None
    if isinstance(layer, nn.Conv2d):
        fused: nn.Module = fuse_conv_bn_eval(layer, norm)
    elif isinstance(layer, nn.Linear):
        fused = fuse_linear_bn_eval(layer, norm)
    else:
        raise UserError(
            f"batch norm {node.target} cannot be folded: put it right behind a convolution or a "
            "linear layer that nothing else reads"
        )
    _replace(network, str(feeder.target), fused)
    _replace(network, str(node.target), nn.Identity())


def _replace(network: nn.Module, name: str, module: nn.Module) -> None:
    parent, _, own = name.rpartition(".")
    setattr(network.get_submodule(parent), own, module)


@contextmanager
def running_statistics(module: nn.Module) -> Iterator[None]:
    """Batch norms use and keep their running statistics: the batch is no sample of the data."""
    norms = [part for part in module.modules() if isinstance(part, NORMS) and part.training]
    for norm in norms:
        norm.eval()
    try:
        yield
    finally:
        for norm in norms:
            norm.train()
