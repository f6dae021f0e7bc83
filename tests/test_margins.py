"""Margins and logit perturbations against models where both are known exactly."""

import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor, nn

from cfq_bench.actions.outcome import Solution, Status
from cfq_bench.evaluation import functional as F
from cfq_bench.evaluation import margins as module
from cfq_bench.evaluation.margins import (
    Margins,
    linear_perturbation,
    margin_metrics,
    margin_quantiles,
    margins_at_actions,
    sampled_perturbation,
)
from cfq_bench.evaluation.teacher_recourse import Direction
from cfq_bench.quantization.functional import lsq

NAN = float("nan")


def affine(weight: list[list[float]], bias: list[float]) -> nn.Linear:
    layer = nn.Linear(len(weight[0]), len(weight))
    with torch.no_grad():
        layer.weight.copy_(torch.tensor(weight))
        layer.bias.copy_(torch.tensor(bias))
    return layer.requires_grad_(False)


def moved(layer: nn.Linear, weight: list[list[float]], bias: list[float]) -> nn.Linear:
    """The same layer with something added to weights and biases."""
    other = affine(layer.weight.tolist(), layer.bias.tolist())
    with torch.no_grad():
        other.weight += torch.tensor(weight)
        other.bias += torch.tensor(bias)
    return other


class Recorder:
    """A model that keeps the inputs of its last call."""

    def __init__(self, model: nn.Module) -> None:
        self.model, self.seen = model, torch.zeros(0)

    def __call__(self, inputs: Tensor) -> Tensor:
        self.seen = inputs
        out: Tensor = self.model(inputs)
        return out


FLAT = affine([[0.0, 0.0], [1.0, 2.0]], [0.0, -1.0])


def test_a_constant_shift_is_seen_everywhere() -> None:
    shifted = moved(FLAT, [[0.0, 0.0], [0.0, 0.0]], [0.05, -0.2])
    inputs = torch.tensor([[0.0, 0.0], [5.0, -3.0]])
    for samples, radius in ((0, 0.1), (8, 0.0), (8, 2.0)):
        got = sampled_perturbation(FLAT, shifted, inputs, samples=samples, radius=radius, seed=0)
        assert got.tolist() == pytest.approx([0.2, 0.2], abs=1e-6)
    got = linear_perturbation(FLAT, shifted, inputs, 3.0)
    assert got.tolist() == pytest.approx([0.2, 0.2], abs=1e-6)


def test_linear_models_have_the_supremum_that_geometry_gives() -> None:
    """D_0 = 0.1 + 0.3 u, D_1 = -0.2 - 0.4 v: sup |D_c| = |D_c(u*)| + rho ||w_c||."""
    f_q = moved(FLAT, [[0.3, 0.0], [0.0, -0.4]], [0.1, -0.2])
    inputs = torch.tensor([[0.0, 0.0], [2.0, 0.0], [0.0, 3.0], [0.0, -0.5]])
    centre = [0.2, 0.7, 1.4, 0.1]
    exact = [0.2 + 0.2, 0.7 + 0.15, 1.4 + 0.2, max(0.1 + 0.15, 0.0 + 0.2)]
    linear = linear_perturbation(FLAT, f_q, inputs, 0.5)
    assert linear.tolist() == pytest.approx(exact, abs=1e-6)
    few, many = (
        sampled_perturbation(FLAT, f_q, inputs, samples=samples, radius=0.5, seed=1)
        for samples in (4, 4000)
    )
    for row in range(4):
        assert centre[row] - 1e-6 <= few[row] <= many[row] <= exact[row] + 1e-6
        assert many[row] > exact[row] - 0.02


def test_gradients_go_straight_through_a_staircase() -> None:
    """Rounding has no slope of its own: the estimate is that of the line behind the stairs."""
    line = affine([[0.0], [1.0]], [0.0, 0.0])

    def stairs(u: Tensor) -> Tensor:
        return line(lsq(u, torch.tensor(0.5), -8, 7)) * 1.5

    got = linear_perturbation(line, stairs, torch.tensor([[1.1]]), 0.2)
    assert got.tolist() == pytest.approx([abs(1.5 * 1.0 - 1.1) + 0.2 * 0.5], abs=1e-6)


def test_samples_fill_the_ball_uniformly_and_depend_on_the_seed_alone() -> None:
    inputs = torch.tensor([[1.0, 2.0], [-3.0, 0.0], [0.0, 0.0]])
    other = moved(FLAT, [[1.0, 0.0], [0.0, 0.0]], [0.0, 0.0])
    seen = []
    for model, seed in ((FLAT, 3), (other, 3), (FLAT, 4)):
        spy = Recorder(model)
        sampled_perturbation(FLAT, spy, inputs, samples=2000, radius=0.3, seed=seed)
        seen.append(spy.seen.view(2000, 3, 2) - inputs)
    assert torch.equal(seen[0], seen[1])
    assert not torch.equal(seen[0], seen[2])
    length = seen[0].norm(dim=2)
    assert float(length.max()) <= 0.3 + 1e-6
    # In two dimensions (r / rho)^2 is uniform in [0, 1], and no direction is preferred.
    assert float((length / 0.3).square().mean()) == pytest.approx(0.5, abs=0.02)
    assert float((length / 0.3).square().std()) == pytest.approx(1 / math.sqrt(12), abs=0.02)
    assert seen[0].mean(dim=(0, 1)).tolist() == pytest.approx([0.0, 0.0], abs=0.01)


def test_every_row_keeps_its_own_samples_over_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "CHUNK", 3)
    f_q = moved(FLAT, [[1.0, 0.0], [0.0, 0.0]], [0.0, 0.0])
    inputs = torch.stack([torch.arange(1.0, 9.0), torch.zeros(8)], dim=1)
    got = sampled_perturbation(FLAT, f_q, inputs, samples=5, radius=0.01, seed=0)
    assert got.tolist() == pytest.approx(list(range(1, 9)), abs=0.011)


numbers = st.floats(-3, 3, width=32)


@settings(deadline=None, max_examples=60)
@given(st.lists(numbers, min_size=12, max_size=12), st.integers(0, 1), st.integers(0, 999))
def test_the_proposition_holds_with_the_true_eps(values: list[float], want: int, seed: int) -> None:
    """Linear pairs: wherever m_f > 2 eps at a centre, every point of the ball stays valid."""
    table = torch.tensor(values).view(6, 2)
    f = affine(table[:2].tolist(), table[2].tolist())
    f_q = affine(table[3:5].tolist(), table[5].tolist())
    centres = torch.randn(20, 2, generator=torch.Generator().manual_seed(seed)) * 2
    rho = 0.2
    exact = linear_perturbation(f, f_q, centres, rho)
    logits, logits_q = f(centres).double(), f_q(centres).double()
    margin = logits[:, want] - logits[:, 1 - want]
    margin_q = logits_q[:, want] - logits_q[:, 1 - want]
    safe = F.safe_margin(margin, exact * (1 + 1e-5) + 1e-5)
    assert bool((margin_q[safe] > 0).all())
    seen = sampled_perturbation(f, f_q, centres, samples=30, radius=rho, seed=seed)
    assert bool((seen <= exact * (1 + 1e-5) + 1e-5).all())
    metrics, _ = margin_metrics(Margins(margin, margin_q, seen, exact))
    assert not metrics["margin/failure_inside"] > 0.0  # NaN where no row is safe


def test_twice_eps_is_needed_and_enough() -> None:
    """Both logits may move by eps against each other: at m_f = 2 eps the action fails."""
    eps = 0.25
    f = affine([[0.0], [1.0]], [0.0, 0.0])
    f_q = affine([[0.0], [1.0]], [eps, -eps])
    at = torch.tensor([[1.5 * eps], [2.0 * eps], [2.5 * eps]])
    found = F.logit_perturbation(f(at), f_q(at))
    assert found.tolist() == [eps] * 3
    assert F.safe_margin(at[:, 0], found).tolist() == [False, False, True]
    assert (f_q(at)[:, 1] > f_q(at)[:, 0]).tolist() == [False, False, True]


def test_metrics_written_down() -> None:
    """Four actions; the third has failed. With one eps for all, 0.2 * 0.85 + 0.6 * 0.15."""
    margins = Margins(
        teacher=torch.tensor([1.0, 0.3, 0.3, NAN, 0.5], dtype=torch.float64),
        quantized=torch.tensor([0.9, 0.2, -0.1, NAN, 0.4], dtype=torch.float64),
        eps_hat=torch.tensor([0.1, 0.1, 0.2, NAN, 0.6], dtype=torch.float64),
        eps_linear=torch.tensor([0.2, 0.2, 0.2, NAN, 0.2], dtype=torch.float64),
    )
    metrics, counts = margin_metrics(margins)
    q95 = 0.2 + 0.85 * 0.4  # position 2.85 of 0.1, 0.1, 0.2, 0.6
    expected = {
        "margin/eps_hat_q95": (q95, 4),
        "margin/eps_hat_max": (0.6, 4),
        "margin/eps_linear_q95": (0.2, 4),
        "margin/safe_fraction": (0.5, 4),  # 1.0 > 0.2 and 0.3 > 0.2
        "margin/failure_inside": (0.0, 2),
        "margin/failure_outside": (0.5, 2),
        "margin/safe_fraction_q95": (0.0, 4),  # 1.0 < 2 * 0.54
        "margin/failure_inside_q95": (NAN, 0),
        "margin/failure_outside_q95": (0.25, 4),
    }
    assert metrics.keys() == counts.keys() == expected.keys()
    for key, (value, count) in expected.items():
        assert metrics[key] == pytest.approx(value, nan_ok=True), key
        assert counts[key] == count, key
    median = margin_quantiles(margins)[2]
    assert median == pytest.approx(
        {"quantile": 0.5, "teacher": 0.4, "quantized": 0.3, "eps_hat": 0.15, "eps_linear": 0.2}
    )


@pytest.mark.parametrize("seed", range(4))
def test_metrics_agree_with_numpy(seed: int) -> None:
    rng = np.random.default_rng(seed)
    f, q, linear = rng.normal(0.5, 0.5, (3, 200))
    eps = np.abs(rng.normal(0, 0.3, 200))
    missing = rng.random(200) < 0.2
    for values in (f, q, eps, linear):
        values[missing] = np.nan
    metrics, _ = margin_metrics(Margins(*map(torch.from_numpy, (f, q, eps, linear))))
    f, q, eps = f[~missing], q[~missing], eps[~missing]
    for suffix, bound in (("", eps), ("_q95", np.full_like(eps, np.percentile(eps, 95)))):
        safe = f > 2 * bound
        assert metrics[f"margin/safe_fraction{suffix}"] == pytest.approx(safe.mean())
        assert metrics[f"margin/failure_inside{suffix}"] == pytest.approx((q[safe] <= 0).mean())
        assert metrics[f"margin/failure_outside{suffix}"] == pytest.approx((q[~safe] <= 0).mean())
    assert metrics["margin/eps_hat_max"] == eps.max()


class Plain:
    """An action space whose points are the inputs."""

    def to_input(self, point: Tensor) -> Tensor:
        return point


def direction(z: list[float], status: list[Status]) -> Direction:
    point = torch.tensor([[value, 0.0] for value in z]).view(-1, 2)
    solution = Solution(
        point, torch.tensor(status, dtype=torch.int8), torch.ones(len(z)), point[:, 0]
    )
    target = torch.ones(len(z), dtype=torch.int64)
    return Direction("favourable", torch.arange(len(z)), point, target, {0.1: solution})


def test_rows_without_an_action_have_no_margin() -> None:
    f = affine([[0.0, 0.0], [1.0, 0.0]], [0.0, 0.0])
    f_q = moved(f, [[0.0, 0.0], [0.0, 0.0]], [0.0, -0.5])
    rows = direction([0.4, 9.0, 2.0], [Status.FOUND, Status.NOT_FOUND, Status.FOUND])
    got = margins_at_actions(f, f_q, Plain(), rows, 0.1, samples=2, radius=0.1, seed=0)  # type: ignore[arg-type]
    assert got.teacher.tolist() == pytest.approx([0.4, NAN, 2.0], nan_ok=True)
    assert got.quantized.tolist() == pytest.approx([-0.1, NAN, 1.5], nan_ok=True)
    assert got.eps_hat.tolist() == pytest.approx([0.5, NAN, 0.5], nan_ok=True)
    assert got.eps_linear.tolist() == pytest.approx([0.5, NAN, 0.5], nan_ok=True)
    assert margin_metrics(got)[0]["margin/safe_fraction"] == 0.5


@pytest.mark.parametrize("count", [0, 2])
def test_no_actions_are_undefined_not_safe(count: int) -> None:
    rows = direction([1.0] * count, [Status.NOT_FOUND] * count)
    got = margins_at_actions(FLAT, FLAT, Plain(), rows, 0.1, samples=3, radius=0.1, seed=0)  # type: ignore[arg-type]
    metrics, counts = margin_metrics(got)
    assert all(math.isnan(value) for value in metrics.values())
    assert set(counts.values()) == {0}
    assert all(math.isnan(line["teacher"]) for line in margin_quantiles(got))
