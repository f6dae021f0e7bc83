"""A backbone as a list of steps, found by tracing it: what quantization and deployment walk.

A step is a module that reads the answers of earlier steps. The modules are the backbone's own.
Sums of two values, as in residual blocks, are steps too.
"""

import operator
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, fx, nn
from torch.nn import functional as F

from cfq_bench.backbones.base import Backbone
from cfq_bench.errors import UserError

LAYERS = (nn.Linear, nn.Conv2d)
"""What has weights to quantize."""

Reads = Sequence[tuple[int, ...]]
"""Which values each step reads: 0 is the network's input, k the answer of step k (from 1)."""

Call = Callable[..., Tensor]
"""How a step's module is called: (module, *values) to its answer."""


class Add(nn.Module):
    """The sum of what it reads."""

    def forward(self, first: Tensor, second: Tensor) -> Tensor:
        """(...) and (...) -> (...)."""
        return first + second


@dataclass(frozen=True)
class Step:
    """One module and the values that it reads (`Reads`)."""

    module: nn.Module
    reads: tuple[int, ...]

    @property
    def is_layer(self) -> bool:
        """Whether there are weights to quantize."""
        return isinstance(self.module, LAYERS)


class _Tracer(fx.Tracer):
    """Goes into every module that holds a layer, and into no other."""

    def is_leaf_module(self, m: nn.Module, module_qualified_name: str) -> bool:
        return isinstance(m, LAYERS) or not any(isinstance(part, LAYERS) for part in m.modules())


def trace(network: nn.Module) -> fx.Graph:
    """The network's calls in the order in which they happen.

    Raises:
        UserError: its forward pass depends on values, or calls a layer twice.
    """
    try:
        graph = _Tracer().trace(network)
    except Exception as error:  # tracing runs the network's own code, which may raise anything
        raise UserError(
            f"backbone {type(network).__name__} cannot be traced ({error}): its forward pass must "
            "be the same calls of modules for every input"
        ) from None
    for node in reversed(graph.nodes):  # what nothing reads does not happen
        if node.op not in ("placeholder", "output") and not node.users:
            graph.erase_node(node)
    called = [str(node.target) for node in graph.nodes if node.op == "call_module"]
    for name in called:
        if called.count(name) > 1 and isinstance(network.get_submodule(name), LAYERS):
            raise UserError(
                f"the backbone calls its layer {name} {called.count(name)} times: each layer has "
                "quantizers for one place, so give every place a layer of its own"
            )
    return graph


def steps_of(network: nn.Module) -> list[Step]:
    """The steps of a network in forward order; the last one answers the logits.

    Identities are left out.

    Raises:
        UserError: the network does something between its modules that no step can stand for.
    """
    steps: list[Step] = []
    value: dict[fx.Node, int] = {}
    for node in trace(network).nodes:
        if node.op == "placeholder":
            value[node] = 0
        elif node.op == "output":
            _check_answer(node, value, len(steps))
        else:
            module, sources = _module(network, node)
            reads = tuple(value[source] for source in sources)
            if isinstance(module, nn.Identity):
                value[node] = reads[0]
                continue
            steps.append(Step(module, reads))
            value[node] = len(steps)
    return steps


def _check_answer(node: fx.Node, value: Mapping[fx.Node, int], last: int) -> None:
    answer = node.args[0]
    if not isinstance(answer, fx.Node) or value[answer] != last:
        raise UserError("a backbone returns one tensor: the logits that its last module answers")


def _module(network: nn.Module, node: fx.Node) -> tuple[nn.Module, list[fx.Node]]:
    """The module that a node stands for, and the nodes that it reads."""
    sources = [arg for arg in node.args if isinstance(arg, fx.Node)]
    others = [arg for arg in node.args if not isinstance(arg, fx.Node)]
    if node.op == "call_module" and not others and not node.kwargs:
        return network.get_submodule(str(node.target)), sources
    sums = node.target in (operator.add, operator.iadd, torch.add) and len(sources) == 2
    if sums and not others and not node.kwargs:  # alpha scales the second
        return Add(), sources
    if node.target in (F.relu, torch.relu, "relu"):
        return nn.ReLU(), sources
    if node.target in (torch.flatten, "flatten") and (others, node.kwargs) == ([1], {}):
        return nn.Flatten(), sources
    name = getattr(node.target, "__name__", str(node.target))
    raise UserError(
        f"the backbone calls {name} outside of its modules: only sums, relu and flatten(x, 1) can "
        "stand there, so make it an nn.Module"
    )


class Flow:
    """Runs modules along `Reads`, and forgets values that nothing reads any more.

    Args:
        reads: of each module.
    """

    def __init__(self, reads: Reads) -> None:
        self.reads = [tuple(read) for read in reads]
        last = {value: step for step, read in enumerate(self.reads) for value in read}
        self._spent = [[v for v in set(read) if last[v] == i] for i, read in enumerate(self.reads)]

    @property
    def is_chain(self) -> bool:
        """Whether each module reads the answer of the one before, and nothing else."""
        return all(read == (number,) for number, read in enumerate(self.reads))

    def run(self, modules: Iterable[nn.Module], x: Tensor, call: Call | None = None) -> Tensor:
        """The last module's answer.

        Args:
            modules: one for each of `reads`.
            x: the network's input.
            call: stands in for calling a module.
        """
        values = {0: x}
        answer = x
        places = zip(modules, self.reads, self._spent, strict=True)
        for number, (module, read, spent) in enumerate(places, 1):
            inputs = [values[value] for value in read]
            answer = module(*inputs) if call is None else call(module, *inputs)
            values[number] = answer
            for value in spent:
                del values[value]
        return answer


_KEEPS_SIGN = (
    nn.MaxPool2d,
    nn.AvgPool2d,
    nn.AdaptiveAvgPool2d,
    nn.AdaptiveMaxPool2d,
    nn.Flatten,
    nn.Dropout,
    nn.Dropout2d,
)


def non_negative(steps: Sequence[Step]) -> list[bool]:
    """Which values, by number, are never negative whatever the weights and the input.

    The input is not; a ReLU's answer is, and stays so through pooling and flattening, and in sums.
    """
    known = [False]
    for step in steps:
        inputs = [known[value] for value in step.reads]
        keeps = isinstance(step.module, (*_KEEPS_SIGN, Add))
        known.append(isinstance(step.module, nn.ReLU) or (keeps and all(inputs)))
    return known


def reads_input(steps: Sequence[Step]) -> list[bool]:
    """Which values, by number, are the network's input, at most pooled or flattened."""
    known = [True]
    for step in steps:
        keeps = isinstance(step.module, _KEEPS_SIGN)
        known.append(keeps and all(known[value] for value in step.reads))
    return known


def weighted_layers(network: nn.Module) -> list[nn.Linear | nn.Conv2d]:
    """The linear layers and convolutions in forward order."""
    return [step.module for step in steps_of(network) if isinstance(step.module, LAYERS)]


def one_input(network: Backbone) -> Tensor:
    """A batch (1, ...) of one input of zeros, on the network's device."""
    device = next((parameter.device for parameter in network.parameters()), None)
    return torch.zeros(1, *network.shape, device=device)


@torch.no_grad()
def input_shapes(steps: Sequence[Step], x: Tensor) -> list[tuple[int, ...]]:
    """Shape, without the batch, of what each layer reads, from a pass of one input (1, ...).

    Raises:
        UserError: a linear layer reads an image.
    """
    shapes: list[tuple[int, ...]] = []

    def note(module: nn.Module, *values: Tensor) -> Tensor:
        if isinstance(module, LAYERS):
            shapes.append(tuple(values[0].shape[1:]))
            if isinstance(module, nn.Linear) and values[0].dim() != 2:
                raise UserError(
                    f"layer{len(shapes)} is linear and reads values of shape {shapes[-1]}: put "
                    "nn.Flatten before it"
                )
        answer: Tensor = module(*values)
        return answer

    Flow([step.reads for step in steps]).run([step.module for step in steps], x, note)
    return shapes


def channel_readers(steps: Sequence[Step]) -> list[list[int] | None]:
    """Which layers read the output channels of each layer; layers are counted from 0.

    None where a channel cannot go alone: it is summed with another layer's, or a module that may
    mix channels reads it.
    """
    source: list[int | None] = [None]
    readers: list[list[int] | None] = []
    for step in steps:
        origins = [source[value] for value in step.reads]
        if step.is_layer:
            if origins[0] is not None and (known := readers[origins[0]]) is not None:
                known.append(len(readers))
            source.append(len(readers))
            readers.append([])
        elif isinstance(step.module, (nn.ReLU, *_KEEPS_SIGN)):
            source.append(origins[0])
        else:
            for origin in origins:
                if origin is not None:
                    readers[origin] = None
            source.append(None)
    return readers
