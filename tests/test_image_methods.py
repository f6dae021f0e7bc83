"""Methods on images: the teacher that is cached, and what each of them trains and deploys.

Methods that ask for actions need an action space for images; these do not.
"""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from cfq_bench.cache import Cache
from cfq_bench.config.loader import load_settings
from cfq_bench.data.dataset import Split
from cfq_bench.errors import UserError
from cfq_bench.evaluation.evaluate import deployment_cost
from cfq_bench.methods.base import Context, Method, NotApplicableError, fit_method, make_method
from cfq_bench.quantization.deployed import DeployedNetwork
from cfq_bench.quantization.storage import network_from_bytes, network_to_bytes
from cfq_bench.quantization.variants import deployment_variants
from cfq_bench.teacher.fit import obtain_teacher
from cfq_bench.training.trainer import Runtime
from tests.support.networks import SMALL

pytestmark = pytest.mark.slow

SHAPE = (1, 8, 8)


def split(count: int, seed: int) -> Split:
    """Class 1 is brighter above than below."""
    x = torch.randn(count, *SHAPE, generator=torch.Generator().manual_seed(seed))
    y = (x[:, :, :4].sum((1, 2, 3)) > x[:, :, 4:].sum((1, 2, 3))).long()
    return Split(x, y, np.arange(count))


DATA: Any = SimpleNamespace(
    train=split(256, 0),
    validation=split(64, 1),
    test=split(64, 2),
    schema=SimpleNamespace(n_single=0),
    input_shape=SHAPE,
    n_single=0,
    fingerprint="tiny images",
)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A cache for the teachers of all tests."""
    return tmp_path_factory.mktemp("teachers")


def context_of(method: str, folder: Path, *overrides: str, backbone: str = "small_cnn") -> Context:
    lengths = ["data.fit.epochs=2", "data.fit.teacher_epochs=12", "data.fit.batch_size=64"]
    settings = load_settings(
        method, "german", backbone=backbone, overrides=[*SMALL[backbone], *lengths, *overrides]
    )
    cache, space = Cache(folder), SimpleNamespace()
    runtime = Runtime()
    teacher = obtain_teacher(settings, DATA, space, cache, runtime)  # type: ignore[arg-type]
    return Context(settings, DATA, teacher, space, cache, runtime)  # type: ignore[arg-type]


def fitted(context: Context) -> Method:
    method = make_method(context)
    fit_method(method)
    return method


def test_the_cached_teacher_is_folded(tmp_path: Path) -> None:
    first = context_of("fp32", tmp_path).teacher
    (entry,) = tmp_path.glob("teacher/*.pt")
    assert not any("running" in key or ".1." in key for key in first.state_dict())
    assert not any(isinstance(part, nn.BatchNorm2d) for part in first.modules())
    assert not first.training
    again = context_of("fp32", tmp_path).teacher
    assert list(tmp_path.glob("teacher/*.pt")) == [entry]
    assert torch.equal(again(DATA.test.x), first(DATA.test.x))
    accuracy = (first(DATA.test.x).argmax(1) == DATA.test.y).float().mean()
    assert float(accuracy) > 0.7


METHODS = [
    ("fp32",),
    ("ft32",),
    ("ptq",),
    ("mixed_ptq", "method.rule=output"),
    ("lsq", "budget.allocator=sensitivity"),
    ("pact", "budget.allocator=sensitivity", "quantization.activation_bits=tied"),
    (
        "lsq",
        "budget.allocator=sensitivity",
        "quantization.per_channel=true",
        "quantization.layers=first_last_8",
    ),
    ("kd_qat", "budget.allocator=gumbel"),
    ("mixed_hawq", "allocator.probes=4"),
    ("mixed_haq", "allocator.episodes=25"),
    ("prune_quant", "budget.allocator=sensitivity"),
    ("prune_quant", "budget.allocator=sensitivity", "method.criterion=sensitivity"),
    ("prune_quant", "budget.allocator=sensitivity", "method.prune=weights"),
    ("kd_quant", "budget.allocator=sensitivity"),
]


CASES = [("small_cnn", case) for case in METHODS] + [
    ("resnet18", case)
    for case in METHODS
    if case[0] in ("ptq", "mixed_hawq", "kd_quant") or "quantization.layers=first_last_8" in case
]


@pytest.mark.parametrize(
    ("backbone", "case"), CASES, ids=lambda v: v if isinstance(v, str) else " ".join(v)
)
def test_methods_deploy_what_they_claim(case: tuple[str, ...], backbone: str, folder: Path) -> None:
    budget = "budget.avg_bits=6" if "first_last_8" in case[-1] else "budget.avg_bits=3.5"
    context = context_of(case[0], folder, budget, *case[1:], backbone=backbone)
    before = {key: value.clone() for key, value in context.teacher.state_dict().items()}
    method = fitted(context)
    network, claim, x = method.deployed(), method.deployment(), DATA.test.x
    with torch.no_grad():
        answer = network(x)
        assert torch.equal(network_from_bytes(network_to_bytes(network), "test")(x), answer)
    assert bool(answer.isfinite().all())
    assert answer.shape == (len(x), 2)
    assert not any(isinstance(part, nn.BatchNorm2d) for part in network.modules())
    cost = deployment_cost(claim)
    after = context.teacher.state_dict()
    assert all(torch.equal(after[key], value) for key, value in before.items())
    if not isinstance(network, DeployedNetwork):
        assert cost["deploy/avg_bits"] == 32
        return
    assert [unit.name for unit in network.units] == list(claim["sizes"])
    assert [unit.codes.numel() for unit in network.units] == list(claim["sizes"].values())
    assert 0.85 * context.settings.budget.avg_bits < cost["deploy/avg_bits"]
    assert cost["deploy/avg_bits"] <= context.settings.budget.avg_bits + 1e-6
    with torch.no_grad():
        assert torch.equal(method.eval()(x), answer)


def test_whole_channels_save_operations_and_a_student_more(folder: Path) -> None:
    bops = {}
    for name in ("lsq", "prune_quant", "kd_quant"):
        context = context_of(name, folder, "budget.avg_bits=4")
        bops[name] = deployment_cost(fitted(context).deployment())["deploy/bops"]
    assert bops["prune_quant"] < 0.6 * bops["lsq"]
    assert bops["kd_quant"] < 0.6 * bops["lsq"]


def test_a_student_of_images_has_no_list_of_hidden_units(folder: Path) -> None:
    with pytest.raises(UserError, match=r"method.student_hidden .* is for MLPs"):
        make_method(context_of("kd_quant", folder, "method.student_hidden=[4]"))
    with pytest.raises(NotApplicableError, match="no student is smaller"):
        make_method(context_of("kd_quant", folder, "backbone.channels=[1]"))


def test_deployments_of_a_cnn_vary_and_stay_near_it(folder: Path) -> None:
    context = context_of("lsq", folder, "budget.avg_bits=8")
    network, x = fitted(context).deployed(), DATA.test.x
    settings = context.settings.evaluation.uncertainty
    variants = deployment_variants(network, 3, settings, DATA.train.x, 0)
    again = deployment_variants(network, 3, settings, DATA.train.x, 0)
    with torch.no_grad():
        answers = [variant(x) for variant in variants]
        for variant, answer in zip(again, answers, strict=True):
            assert torch.equal(variant(x), answer)
        spread = [float((answer - network(x)).abs().max()) for answer in answers]
    assert all(0 < one < 0.5 * float(network(x).detach().abs().max()) for one in spread)
