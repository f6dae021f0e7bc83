"""Every metric against an independent implementation, and a whole evaluation written down."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from torch import Tensor, nn
from torchmetrics import Metric

from cfq_bench.actions.action_set import ActionSet
from cfq_bench.actions.outcome import Solution, Status
from cfq_bench.actions.solver import make_solver
from cfq_bench.config.actions import ActionSettings
from cfq_bench.config.loader import load_settings
from cfq_bench.config.settings import EvaluationSettings, FeatureSettings
from cfq_bench.data.dataset import Split, TabularData
from cfq_bench.data.schema import FeatureSchema
from cfq_bench.evaluation import functional as F
from cfq_bench.evaluation import metrics as classes
from cfq_bench.evaluation.certificates import ON_DEPLOYED, ON_TEACHER
from cfq_bench.evaluation.evaluate import Evaluation, deployment_cost, evaluate, solver_gap
from cfq_bench.evaluation.keys import METRICS, metric_info
from cfq_bench.evaluation.teacher_recourse import Direction, all_kappas
from cfq_bench.experiment import Options, run
from cfq_bench.record.record import Record
from cfq_bench.training.trainer import Runtime

NAN = float("nan")
pytestmark = pytest.mark.filterwarnings("ignore:The ``compute`` method of metric")


def tensor(values: Any) -> Tensor:
    return torch.as_tensor(values)


# --- pure functions against numpy ---


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("count", [1, 7, 200])
def test_functions_agree_with_numpy(seed: int, count: int) -> None:
    rng = np.random.default_rng(seed)
    q, f, target = rng.integers(0, 2, (3, count))
    assert float(F.share(tensor(q == 1))) == pytest.approx(sum(q) / count)
    drift = F.favourable_drift(tensor(q), tensor(f))
    assert float(drift) == pytest.approx((sum(q) - sum(f)) / count, abs=1e-6)
    against = F.favourable_drift(tensor(q), tensor(f), favourable=0)
    assert float(against) == pytest.approx(-float(drift), abs=1e-6)
    failed = sum(int(a != b) for a, b in zip(q, target, strict=True)) / count
    assert float(F.validity_drop(tensor(q), tensor(target))) == pytest.approx(failed)

    cost_f, cost_q = rng.uniform(0.1, 3, (2, count))
    gap = F.cost_gap(tensor(cost_f), tensor(cost_q), 1e-6)
    expected = [(b - a) / (a + 1e-6) for a, b in zip(cost_f, cost_q, strict=True)]
    np.testing.assert_allclose(gap, expected, rtol=1e-6)
    np.testing.assert_allclose(
        F.optimality_gap(tensor(cost_q), tensor(cost_f)), cost_q / cost_f - 1, rtol=1e-6
    )

    a, b = rng.normal(size=(2, count, 5)).astype(np.float32)
    cosine = [u @ v / (np.linalg.norm(u) * np.linalg.norm(v)) for u, v in zip(a, b, strict=True)]
    np.testing.assert_allclose(F.direction_similarity(tensor(a), tensor(b)), cosine, atol=1e-5)

    changed = rng.random((2, count, 4)) < 0.4
    jaccard = []
    for left, right in zip(*changed, strict=True):
        one, two = set(np.flatnonzero(left)), set(np.flatnonzero(right))
        jaccard.append(len(one & two) / len(one | two) if one | two else 1.0)
    overlap = F.action_overlap(tensor(changed[0]), tensor(changed[1]))
    np.testing.assert_allclose(overlap, jaccard, rtol=1e-6)


def test_functions_on_hand_made_rows() -> None:
    gap = F.cost_gap(tensor([2.0, 1.0, 4.0, 1.0]), tensor([1.0, 2.0, 4.0, 0.0]), 0.0)
    assert gap.tolist() == [-0.5, 1.0, 0.0, -1.0]
    assert float(F.cost_gap(tensor([0.0]), tensor([1e-6]), 1e-6)) == pytest.approx(1.0)
    up, down = tensor([[1.0, 0.0]]), tensor([[-2.0, 0.0]])
    across, nothing = tensor([[0.0, 3.0]]), tensor([[0.0, 0.0]])
    assert F.direction_similarity(up, up).tolist() == [1.0]
    assert F.direction_similarity(up, down).tolist() == [-1.0]
    assert F.direction_similarity(up, across).tolist() == [0.0]
    assert F.direction_similarity(up, nothing).tolist() == [0.0]
    tiny = torch.full((1, 2), 1e-4)
    assert float(F.direction_similarity(tiny, tiny)) == pytest.approx(1.0, abs=1e-4)
    yes, no = tensor([[True, False, True]]), tensor([[False, False, False]])
    assert F.action_overlap(yes, yes).tolist() == [1.0]
    assert F.action_overlap(yes, no).tolist() == [0.0]
    assert F.action_overlap(no, no).tolist() == [1.0]
    assert float(F.boundary_error(tensor(0.5), tensor(0.25))) == 0.375
    assert np.isnan(float(F.boundary_error(tensor(NAN), tensor(0.25))))
    assert F.optimality_gap(tensor([1.5]), tensor([1.0])).tolist() == [0.5]


def test_no_rows_are_nan_or_empty() -> None:
    empty, flags = torch.zeros(0), torch.zeros(0, dtype=torch.bool)
    none = torch.zeros(0, dtype=torch.int64)
    assert F.share(flags).isnan()
    assert F.favourable_drift(none, none).isnan()
    assert F.validity_drop(none, none).isnan()
    assert F.cost_gap(empty, empty).shape == (0,)
    assert F.optimality_gap(empty, empty).shape == (0,)
    assert F.direction_similarity(torch.zeros(0, 3), torch.zeros(0, 3)).shape == (0,)
    assert F.action_overlap(flags.view(0, 1), flags.view(0, 1)).shape == (0,)


# --- classes: any division into batches gives the function's value ---


def predictions(rng: np.random.Generator, count: int) -> tuple[Tensor, Tensor]:
    first, second = rng.integers(0, 2, (2, count))
    return tensor(first), tensor(second)


def costs(rng: np.random.Generator, count: int) -> tuple[Tensor, Tensor]:
    first, second = rng.uniform(0.1, 3.0, (2, count)).astype(np.float32)
    return tensor(first), tensor(second)


def vectors(rng: np.random.Generator, count: int) -> tuple[Tensor, Tensor]:
    first, second = rng.normal(size=(2, count, 4)).astype(np.float32)
    return tensor(first), tensor(second)


def flags(rng: np.random.Generator, count: int) -> tuple[Tensor, Tensor]:
    first, second = rng.random((2, count, 4)) < 0.5
    return tensor(first), tensor(second)


def one_sided(target: int) -> Callable[[Tensor, Tensor], float]:
    def failed(q: Tensor, wanted: Tensor) -> float:
        rows = [(a, b) for a, b in zip(q.tolist(), wanted.tolist(), strict=True) if b == target]
        return sum(a != b for a, b in rows) / len(rows)

    return failed


Make = Callable[[np.random.Generator, int], tuple[Tensor, Tensor]]
SHELLS: dict[str, tuple[type[Metric], Make, Callable[[Tensor, Tensor], Any]]] = {
    "recourse/vd": (classes.ValidityDrop, predictions, lambda q, t: (q != t).numpy().mean()),
    "task/agreement": (classes.Agreement, predictions, lambda q, f: (q == f).numpy().mean()),
    "task/favourable_drift": (
        classes.FavourableDrift,
        predictions,
        lambda q, f: q.numpy().mean() - f.numpy().mean(),
    ),
    "recourse/crg": (
        classes.CostGap,
        costs,
        lambda f, q: np.mean((q.numpy() - f.numpy()) / (f.numpy() + 1e-6)),
    ),
    "recourse/crg_abs": (
        classes.AbsoluteCostGap,
        costs,
        lambda f, q: np.mean(np.abs((q.numpy() - f.numpy()) / (f.numpy() + 1e-6))),
    ),
    "recourse/dirsim": (
        classes.DirectionSimilarity,
        vectors,
        lambda f, q: torch.cosine_similarity(f, q).mean(),
    ),
    "recourse/act_overlap": (
        classes.ActionOverlap,
        flags,
        lambda f, q: np.mean(
            [
                1.0 if not (a | b).any() else (a & b).sum() / (a | b).sum()
                for a, b in zip(f.numpy(), q.numpy(), strict=True)
            ]
        ),
    ),
    "recourse/boundary_error": (
        classes.BoundaryError,
        predictions,
        lambda q, t: (one_sided(0)(q, t) + one_sided(1)(q, t)) / 2,
    ),
}


@pytest.mark.parametrize("key", SHELLS)
@pytest.mark.parametrize("seed", range(3))
def test_classes_agree_with_numpy_in_any_batches(key: str, seed: int) -> None:
    kind, make, expected = SHELLS[key]
    left, right = make(np.random.default_rng(seed), 101)
    metric = kind()
    for start, stop in ((0, 40), (40, 40), (40, 41), (41, 101)):
        metric.update(left[start:stop], right[start:stop])
    value = metric.compute()
    assert value.dtype == torch.float32
    assert value.shape == ()
    assert float(value) == pytest.approx(float(expected(left, right)), abs=1e-5)
    metric.reset()
    assert bool(metric.compute().isnan())
    metric.update(left, right)
    assert float(metric.compute()) == pytest.approx(float(value), abs=1e-6)


@pytest.mark.parametrize("key", SHELLS)
def test_a_metric_without_rows_is_nan(key: str) -> None:
    assert bool(SHELLS[key][0]().compute().isnan())


def test_sum_states_add_up_over_processes() -> None:
    for kind, _, _ in SHELLS.values():
        metric = kind()
        assert metric.metric_state
        assert {reduce.__name__ for reduce in metric._reductions.values()} == {"dim_zero_sum"}


def test_directions_of_classes_and_keys_agree() -> None:
    made = {
        value
        for value in vars(classes).values()
        if isinstance(value, type) and value.__module__ == classes.__name__
    }
    public = {value for value in made if not value.__name__.startswith("_")}
    assert public == {kind for kind, _, _ in SHELLS.values()}
    for key, (kind, _, _) in SHELLS.items():
        assert kind().higher_is_better is METRICS[key].higher_is_better, key


def test_boundary_error_needs_both_directions() -> None:
    metric = classes.BoundaryError()
    metric.update(tensor([1, 0]), tensor([1, 1]))
    assert bool(metric.compute().isnan())


def test_keys_are_read_without_their_margin() -> None:
    assert metric_info("recourse/vd@0.25") is METRICS["recourse/vd"]
    with pytest.raises(KeyError):
        metric_info("recourse/nothing")
    for key, info in METRICS.items():
        assert info.label
        assert info.about
        heads = "task recourse certificate margin group robust action deploy time solver".split()
        assert key.split("/")[0] in heads


# --- a whole evaluation that can be written down ---
#
# One numeric column z with mean 0 and scale 1, in [-10, 10], and one colour that nobody looks at.
# f accepts z > 0, f_q accepts z > 0.3 (a stricter boundary). Margins are 1 per unit of z, so the
# teacher's minimal action leads to z = kappa, and f_q's to z = 0.3 + kappa.

LIMIT = 10.0
PACKAGED = load_settings("fp32", "compas").evaluation.model_dump()
TEST_Z = [-2.0, -1.0, -0.5, -9.0, 0.1, 0.2, 1.0, 3.0]
LABELS = [0, 1, 0, 0, 1, 1, 1, 0]


def threshold(at: float, slope: float = 1.0) -> nn.Module:
    """Margin of class 1: slope (z - at)."""
    layer = nn.Linear(3, 2)
    with torch.no_grad():
        layer.weight.copy_(tensor([[0.0, 0.0, 0.0], [slope, 0.0, 0.0]]))
        layer.bias.copy_(tensor([0.0, -slope * at]))
    return nn.Sequential(layer.requires_grad_(False))


class World:
    """A data set, its action set, and the teacher's directions."""

    def __init__(self, test_z: list[float], low: float = -LIMIT, high: float = LIMIT) -> None:
        train = pd.DataFrame({"z": [-1.0, 1.0], "hue": ["a", "b"]})
        kinds = {
            "z": FeatureSettings(kind="numeric"),
            "hue": FeatureSettings(kind="categorical"),
        }
        schema = FeatureSchema.fit(train, kinds)
        assert (schema.units.mean.tolist(), schema.units.scale.tolist()) == ([0.0], [1.0])
        hues = ["a", "b"] * len(test_z)
        frame = pd.DataFrame({"z": test_z, "hue": hues[: len(test_z)]})
        labels = (LABELS * len(test_z))[: len(test_z)]
        test = Split(schema.encode(frame), tensor(labels), np.arange(len(test_z)) + 100)
        fit = Split(schema.encode(train), tensor([0, 1]), np.arange(2))
        hue = frame[["hue"]]
        self.data = TabularData(fit, fit, test, hue, hue, hue, "made", "0", schema)
        actions = ActionSettings.model_validate(
            {
                "name": "made",
                "about": "made",
                "max_features": None,
                "bounds": {"low": 0.0, "high": 1.0},
                "gamma": 1.0,
                "grid": True,
                "cost": "weighted_l1",
                "features": {"z": {"kind": "any", "low": low, "high": high}, "hue": "any"},
            }
        )
        self.space = ActionSet(schema, actions, fit.x)
        self.teacher = threshold(0.0)
        self.solver = make_solver(load_settings("fp32", "compas", solver="search").solver)

    def directions(self, settings: EvaluationSettings) -> list[Direction]:
        predicted = self.teacher(self.data.test.x).argmax(1)
        out = []
        for name, target in (("favourable", 1), ("adverse", 0)):
            rows = (predicted != target).nonzero()[:, 0]
            x, targets = self.data.test.x[rows], torch.full((len(rows),), target)
            solutions = {
                kappa: self.solver.solve(self.teacher, self.space, x, targets, kappa)
                for kappa in all_kappas(settings)
            }
            out.append(Direction(name, rows, x, targets, solutions))
        return out

    def evaluate(self, f_q: nn.Module, **changes: Any) -> Evaluation:
        made: dict[str, Any] = {
            "kappa": 0.1,
            "extra_kappas": [0.0, 0.25, 0.5],
            "max_rows": None,
            "exact_rows": 0,
            "cost_epsilon": 1e-6,
            "certificates": False,
            "certificate_lsb": 0.01,
            "certificate_radius": 0.05,
            "variants": 0,
            "uncertainty": {"band": 0.0, "stochastic_rounding": False, "calibration_rows": 0},
        }
        settings = EvaluationSettings.model_validate({**PACKAGED, **made, **changes})
        directions = self.directions(settings)
        runtime = Runtime()
        return evaluate(
            f_q, self.teacher, self.data, self.space, self.solver, directions, settings, runtime
        )


def test_a_stricter_model_written_down() -> None:
    got = World(TEST_Z).evaluate(threshold(0.3))
    # f rejects the first four rows; f_q rejects 0.1 and 0.2 as well.
    assert got.metrics["task/acc"] == pytest.approx(np.mean([1, 0, 1, 1, 0, 0, 1, 0]))
    assert got.metrics["task/agreement"] == pytest.approx(6 / 8)
    assert got.metrics["task/favourable_drift"] == pytest.approx(-2 / 8)
    assert got.metrics["recourse/frr"] == 1.0
    # To z = 0.1, 0 or 0.25 is not enough for f_q; to z = 0.5 is.
    for key, vd in (("", 1.0), ("@0", 1.0), ("@0.25", 1.0), ("@0.5", 0.0)):
        assert got.metrics[f"recourse/vd{key}"] == vd
        # The opposite way, f_q rejects whatever f rejects.
        assert got.metrics[f"recourse/vd_adverse{key}"] == 0.0
        assert got.metrics[f"recourse/boundary_error{key}"] == vd / 2
        assert got.counts[f"recourse/vd{key}"] == 4
        assert got.counts[f"recourse/vd_adverse{key}"] == 4
        assert got.counts[f"recourse/boundary_error{key}"] == 4
    gaps = [0.3 / (0.1 - z) for z in TEST_Z[:4]]
    assert got.metrics["recourse/crg"] == pytest.approx(np.mean(gaps), rel=2e-3)
    assert got.metrics["recourse/crg_all"] == pytest.approx(np.mean(gaps), rel=2e-3)
    assert got.metrics["recourse/crg_median"] == pytest.approx(np.median(gaps), rel=2e-3)
    assert got.metrics["recourse/crg_abs"] == pytest.approx(np.mean(gaps), rel=2e-3)
    assert (got.metrics["recourse/lost"], got.metrics["recourse/free"]) == (0.0, 0.0)
    assert got.metrics["recourse/dirsim"] == pytest.approx(1.0)
    assert got.metrics["recourse/act_overlap"] == 1.0
    rows = {
        "task/acc": 8,
        "task/agreement": 8,
        "task/favourable_drift": 8,
        "recourse/frr": 4,
        "recourse/lost": 4,
        "recourse/free": 4,
        "recourse/crg": 4,
        "recourse/crg_all": 4,
        "recourse/crg_median": 4,
        "recourse/crg_abs": 4,
        "recourse/dirsim": 4,
        "recourse/act_overlap": 4,
    }
    assert {key: got.counts[key] for key in rows} == rows
    assert set(got.counts) == set(got.metrics)


def test_a_lenient_model_written_down() -> None:
    """f_q accepts z > -0.7: one rejected row is free, and VD falls while its twin rises."""
    got = World(TEST_Z).evaluate(threshold(-0.7))
    assert got.metrics["task/favourable_drift"] == pytest.approx(1 / 8)
    assert got.metrics["recourse/free"] == pytest.approx(1 / 4)  # z = -0.5
    assert got.metrics["recourse/lost"] == 0.0
    # CRG is over the rows that both reject; crg_all counts the free one as -1.
    gaps = [-0.7 / (0.1 - z) for z in (-2.0, -1.0, -9.0)]
    assert got.counts["recourse/crg"] == 3
    assert got.metrics["recourse/crg"] == pytest.approx(np.mean(gaps), rel=2e-3)
    assert got.metrics["recourse/crg_abs"] == pytest.approx(-np.mean(gaps), rel=2e-3)
    assert got.counts["recourse/crg_all"] == 4
    assert got.metrics["recourse/crg_all"] == pytest.approx(np.mean([*gaps, -1.0]), rel=2e-3)
    for key in ("", "@0", "@0.25", "@0.5"):
        assert got.metrics[f"recourse/vd{key}"] == 0.0
        # Rows that f accepts go to z = -kappa >= -0.5, where f_q still accepts.
        assert got.metrics[f"recourse/vd_adverse{key}"] == 1.0
        assert got.metrics[f"recourse/boundary_error{key}"] == 0.5


def test_rows_that_only_the_teacher_can_help_are_lost() -> None:
    """With z <= 0.35, f_q's margin of 0.1 beyond 0.3 is out of reach."""
    world = World(TEST_Z, high=0.35)
    got = world.evaluate(threshold(0.3))
    assert got.metrics["recourse/frr"] == 1.0
    assert got.metrics["recourse/lost"] == 1.0
    assert got.metrics["recourse/free"] == 0.0
    for name in ("crg", "crg_all", "crg_median", "crg_abs", "dirsim", "act_overlap"):
        assert np.isnan(got.metrics[f"recourse/{name}"])
        assert got.counts[f"recourse/{name}"] == 0
    # The teacher itself cannot reach a margin of 0.5 there: an empty population, not a perfect one.
    assert np.isnan(got.metrics["recourse/vd@0.5"])
    assert got.counts["recourse/vd@0.5"] == 0
    assert got.counts["recourse/vd_adverse@0.5"] == 4
    assert np.isnan(got.metrics["recourse/boundary_error@0.5"])
    assert got.counts["recourse/boundary_error@0.5"] == 0


def test_rows_that_the_teacher_cannot_help_are_in_no_population() -> None:
    """Recourse on f ends at z = 0.05: no row reaches 0.1, and FRR says so."""
    got = World(TEST_Z, high=0.05).evaluate(threshold(-0.7))
    assert got.metrics["recourse/frr"] == 0.0
    assert got.counts["recourse/frr"] == 4
    for name in ("vd", "lost", "free", "crg", "crg_all", "boundary_error"):
        assert np.isnan(got.metrics[f"recourse/{name}"])
        assert got.counts[f"recourse/{name}"] == 0
    assert got.metrics["recourse/vd@0"] == 0.0
    assert got.counts["recourse/vd@0"] == 4


@pytest.mark.parametrize(("boundary", "noise"), [(0.05, (4.0 - 1.2) / 1.2), (0.15, 0.0)])
def test_a_mixed_population_written_down(boundary: float, noise: float) -> None:
    """Lost, free and common rows at once, from solutions made by hand.

    The one common row's action on f, at z = 0.2, exceeds 0.05 by kappa and 0.15 by less: only in
    the first case could the solver have found it on f_q.
    """
    world = World([-1.0, -2.0, -3.0, -4.0, 1.0])
    x = world.data.test.x
    accepted = torch.full((4,), int(Status.FOUND), dtype=torch.int8)
    point = x[:4].clone()
    point[:3, 0] = 0.2
    status_f = accepted.clone()
    status_f[3] = int(Status.NOT_FOUND)
    cost = torch.tensor([1.2, 2.2, 3.2, torch.inf])
    on_f = Solution(point, status_f, cost, point[:, 0].clone())
    adverse_point = x[4:].clone()
    adverse_point[:, 0] = -0.2
    on_f_adverse = Solution(adverse_point, accepted[:1], torch.tensor([1.2]), torch.tensor([0.2]))
    directions = [
        Direction("favourable", torch.arange(4), x[:4], tensor([1] * 4), {0.1: on_f}),
        Direction("adverse", tensor([4]), x[4:], tensor([0]), {0.1: on_f_adverse}),
    ]

    class Fixed:
        def solve(self, *_: Any) -> Solution:
            moved = x[:4].clone()
            moved[0, 0] = 2.0
            moved[0, 1:] = 1.0 - moved[0, 1:]  # another colour as well
            moved[3, 0] = 5.0
            status = tensor([0, 1, 3, 0]).to(torch.int8)  # found, not found, not needed, found
            return Solution(
                moved,
                status,
                torch.tensor([4.0, torch.inf, 0.0, 9.0]),
                torch.tensor([1.0, -1.0, 1.0, 1.0]),
            )

    made = {"kappa": 0.1, "extra_kappas": [], "max_rows": None, "exact_rows": 0}
    settings = EvaluationSettings.model_validate({**PACKAGED, **made})
    got = evaluate(
        threshold(boundary),
        world.teacher,
        world.data,
        world.space,
        Fixed(),  # type: ignore[arg-type]
        directions,
        settings,
        Runtime(),
    )
    m, n = got.metrics, got.counts
    assert (m["recourse/frr"], n["recourse/frr"]) == (0.75, 4)
    assert (m["recourse/lost"], n["recourse/lost"]) == (pytest.approx(1 / 3), 3)
    assert (m["recourse/free"], n["recourse/free"]) == (pytest.approx(1 / 3), 3)
    gap = (4.0 - 1.2) / 1.2
    assert (m["recourse/crg"], n["recourse/crg"]) == (pytest.approx(gap, rel=1e-5), 1)
    assert n["recourse/crg_all"] == 2
    assert m["recourse/crg_all"] == pytest.approx((gap - 1.0) / 2, rel=1e-5)
    # W delta: (1.2, 0, 0) against (3, -/+ 0.5, +/- 0.5); features: {z} against {z, hue}.
    assert (m["solver/crg_noise"], n["solver/crg_noise"]) == (pytest.approx(noise, rel=1e-5), 1)
    assert m["recourse/dirsim"] == pytest.approx(3.0 / np.sqrt(9.5), rel=1e-5)
    assert m["recourse/act_overlap"] == 0.5
    assert (m["recourse/vd"], n["recourse/vd"]) == (0.0, 3)
    assert (m["recourse/vd_adverse"], n["recourse/vd_adverse"]) == (0.0, 1)
    table = got.rows
    assert table["status_f"].tolist() == ["found", "found", "found", "not_found", "found"]
    assert table["status_q"].tolist()[:4] == ["found", "not_found", "not_needed", "found"]
    assert table["changed_f"].tolist() == ["z", "z", "z", "", "z"]
    assert table["changed_q"].tolist() == ["z,hue", "", "", "z", ""]


def test_equal_models_have_nothing_to_report() -> None:
    world = World(TEST_Z)
    got = world.evaluate(world.teacher, extra_kappas=[0.1, 0.5])
    ones = {"task/agreement", "recourse/frr", "recourse/dirsim", "recourse/act_overlap"}
    for key in ones:
        assert got.metrics[key] == pytest.approx(1.0), key
    zeros = set(got.metrics) - ones - {"task/acc"}
    assert {key for key in zeros if got.metrics[key] != 0.0} == set()
    assert "recourse/vd@0.1" in got.metrics


def test_one_sided_predictions_are_undefined_not_zero() -> None:
    """A teacher that accepts everybody: no row needs recourse."""
    got = World([1.0, 2.0, 3.0]).evaluate(threshold(0.3))
    for name in ("frr", "vd", "lost", "free", "crg", "crg_median", "boundary_error"):
        assert np.isnan(got.metrics[f"recourse/{name}"]), name
        assert got.counts[f"recourse/{name}"] == 0
    assert got.metrics["recourse/vd_adverse"] == 0.0
    assert set(got.rows["direction"]) == {"adverse"}


COLUMNS = [
    "row_id",
    "direction",
    "label",
    "predicted_q",
    "status_f",
    "cost_f",
    "margin_f",
    "margin_q",
    "valid_q",
    "changed_f",
    "status_q",
    "cost_q",
    "changed_q",
    "group_hue",
]


def test_rows_tell_the_same_story() -> None:
    world = World([*TEST_Z[:3], 9.0, *TEST_Z[4:], -99.0], low=-LIMIT, high=0.2)
    got = world.evaluate(threshold(0.05))
    table = got.rows
    assert table.columns.tolist() == COLUMNS
    assert len(table) == 9
    z = dict(zip(np.arange(9) + 100, world.data.test.x[:, 0].tolist(), strict=True))
    for _, row in table.iterrows():
        own = z[row["row_id"]]
        favourable = row["direction"] == "favourable"
        assert favourable == (own <= 0)
        assert row["label"] == (LABELS * 9)[row["row_id"] - 100]
        assert row["predicted_q"] == int(own > 0.05)
        assert row["group_hue"] == "ab"[(row["row_id"] - 100) % 2]
        assert row["status_f"] == "found"
        assert row["cost_f"] == pytest.approx(abs(own) + 0.1, abs=0.01)
        assert row["margin_f"] == pytest.approx(0.1, abs=0.01)
        assert row["margin_q"] == pytest.approx(0.05 if favourable else 0.15, abs=0.01)
        assert bool(row["valid_q"])
        assert row["changed_f"] == "z"
        if favourable:
            assert row["status_q"] == "found"
            assert row["cost_q"] == pytest.approx(abs(own) + 0.15, abs=0.01)
            assert row["changed_q"] == "z"
        else:  # costs on f_q are measured in the favourable direction alone
            assert pd.isna(row["status_q"])
            assert np.isnan(row["cost_q"])
            assert row["changed_q"] == ""
    favourable = table[table["direction"] == "favourable"]
    gap = (favourable["cost_q"] - favourable["cost_f"]) / (favourable["cost_f"] + 1e-6)
    assert got.metrics["recourse/crg"] == pytest.approx(gap.mean(), rel=1e-5)
    vd = 1.0 - favourable["valid_q"].astype(float).mean()
    assert got.metrics["recourse/vd"] == pytest.approx(vd)


def test_rows_without_an_action_have_no_validity() -> None:
    table = World(TEST_Z, high=0.05).evaluate(threshold(0.3)).rows
    hopeless = table[table["direction"] == "favourable"]
    assert set(hopeless["status_f"]) == {"not_found"}
    assert hopeless["valid_q"].isna().all()
    assert hopeless["margin_q"].isna().all()
    assert np.isinf(hopeless["cost_f"]).all()
    assert set(hopeless["changed_f"]) == {""}
    assert table[table["direction"] == "adverse"]["valid_q"].notna().all()


# --- deployment, solver gap, records ---


def test_deployment_cost_written_down() -> None:
    got = deployment_cost(
        {
            "sizes": {"a": 100, "b": 50},
            "bits_per_layer": {"a": 4, "b": 8},
            "activation_bits": {"a": 32, "b": 8},
            "macs": {"a": 100, "b": 450},  # a convolution uses each weight once per pixel
        }
    )
    assert got["deploy/avg_bits"] == pytest.approx((400 + 400) / 150)
    assert got["deploy/normalized_budget"] == pytest.approx(800 / 150 / 32)
    assert got["deploy/bops"] == 100 * 4 * 32 + 450 * 8 * 8


def test_the_solver_s_gap_is_measured_against_the_optimum() -> None:
    settings = load_settings("fp32", "compas")
    world = World(TEST_Z)
    (direction, _) = world.directions(settings.evaluation)
    got = solver_gap(settings, world.teacher, world.space, direction)
    assert 0.0 <= got["solver/gap_mean"] <= got["solver/gap_p90"] < 1e-3
    kappa = settings.evaluation.kappa
    true = direction.solutions[kappa]
    dear = Solution(true.point, true.status, true.cost * 1.5, true.margin)
    worse = Direction("favourable", direction.rows, direction.x, direction.target, {kappa: dear})
    got = solver_gap(settings, world.teacher, world.space, worse)
    assert got["solver/gap_mean"] == pytest.approx(0.5, abs=2e-3)
    assert got["solver/gap_p90"] == pytest.approx(0.5, abs=2e-3)
    smooth = nn.Sequential(nn.Linear(3, 4), nn.GELU(), nn.Linear(4, 2))
    for unknown in (
        solver_gap(settings, smooth, world.space, direction),
        solver_gap(
            load_settings("fp32", "compas", overrides=["evaluation.exact_rows=0"]),
            world.teacher,
            world.space,
            direction,
        ),
    ):
        assert all(np.isnan(value) for value in unknown.values())


KAPPAS = ("@0", "@0.25", "@0.5")
PROTOCOL = {
    "task/acc",
    "task/agreement",
    "task/favourable_drift",
    "recourse/frr",
    "recourse/vd",
    "recourse/crg",
    "recourse/crg_median",
    "recourse/crg_abs",
    "recourse/crg_all",
    "recourse/lost",
    "recourse/free",
    "recourse/dirsim",
    "recourse/act_overlap",
    "recourse/vd_adverse",
    "recourse/boundary_error",
    *(f"recourse/vd{kappa}" for kappa in KAPPAS),
    *(f"recourse/vd_adverse{kappa}" for kappa in KAPPAS),
    *(f"recourse/boundary_error{kappa}" for kappa in KAPPAS),
    "deploy/avg_bits",
    "deploy/normalized_budget",
    "deploy/bops",
    "deploy/sparsity",
    "time/fit_s",
    "time/teacher_actions_s",
    "time/eval_s",
    "time/solve_s",
    "time/certificates_s",
    *(f"robust/{name}_success" for name in ("nominal", "worst")),
    *(f"robust/{name}" for name in ("success", "cost_ratio", "time_ratio")),
    *(f"certificate/{name}" for name in (*ON_DEPLOYED, *ON_TEACHER)),
    "solver/gap_mean",
    "solver/gap_p90",
    "solver/crg_noise",
}


@pytest.fixture(scope="module")
def record(tmp_path_factory: pytest.TempPathFactory) -> Record:
    folder: Path = tmp_path_factory.mktemp("run")
    settings = load_settings(
        "fp32",
        "german",
        backbone="logreg",
        solver="robust",
        overrides=[
            "data.fit.teacher_epochs=30",
            "evaluation.exact_rows=32",
            "evaluation.certificates=true",
            "evaluation.variants=2",
        ],
    )
    return run(settings, Options(folder / "results", folder / "cache", wandb="disabled"))


def test_a_record_has_the_protocol_s_metrics(record: Record) -> None:
    assert record.status == "ok", record.reason
    other = {key for key in record.metrics if key.startswith(("group/", "margin/"))}
    assert set(record.metrics) - other == PROTOCOL
    assert {key.split("@")[0] for key in PROTOCOL} == {
        key for key in METRICS if not key.startswith(("group/", "margin/", "action/"))
    }
    assert "deploy/bits_per_layer" in record.details
    rates = {key for key in PROTOCOL if key.startswith(("task/", "recourse/", "certificate/"))}
    assert rates <= set(record.counts)


def test_the_teacher_deployed_unchanged_loses_nothing(record: Record) -> None:
    metrics = record.metrics
    assert metrics["task/agreement"] == 1.0
    for name in ("vd", "vd_adverse", "boundary_error", "crg", "crg_abs", "lost", "free"):
        assert metrics[f"recourse/{name}"] == 0.0, name
    gap = metrics["solver/gap_mean"]
    assert gap is not None
    assert -1e-4 <= gap < 0.2
