"""Latent spaces and semantic edits: projection, cost, and the solver, against closed forms."""

from typing import Any

import pandas as pd
import pytest
import torch
from torch import Tensor, nn

from cfq_bench.actions.latent import Coded, LatentSpace
from cfq_bench.actions.outcome import Status
from cfq_bench.actions.semantic import SemanticSpace, directions, in_l1_ball
from cfq_bench.actions.solver import Solver, make_solver
from cfq_bench.actions.teacher_actions import teacher_actions
from cfq_bench.autoencoder.network import Autoencoder
from cfq_bench.config.images import AutoencoderSettings, LatentSettings, SemanticSettings
from cfq_bench.config.loader import load_settings
from cfq_bench.errors import UserError

D = 5
CODER = AutoencoderSettings(latent=D, channels=[3], epochs=1, batch_size=8, lr=1e-3, noise=0.0)
SPACES = ("box", "radius", "semantic")


class Plain(nn.Module):
    """Images (B, 1, 1, D) whose latents are their pixels: optima are then known."""

    def encode(self, x: Tensor) -> Tensor:
        return x.flatten(1)

    def decode(self, z: Tensor) -> Tensor:
        return z[:, None, None]


def latents(count: int = 400, seed: int = 0) -> Tensor:
    return torch.randn(count, D, generator=torch.Generator().manual_seed(seed))


def latent_space(network: nn.Module | None = None, **changes: Any) -> LatentSpace:
    made = {"name": "made", "kind": "latent", "autoencoder": CODER, "radius": None}
    made |= {"bounds": {"low": 0.05, "high": 0.95}, "pixel_weight": 0.0, **changes}
    return LatentSpace(LatentSettings.model_validate(made), Coded(network or Plain()), latents())


def semantic_space(**changes: Any) -> SemanticSpace:
    made = {"name": "made", "kind": "semantic", "autoencoder": CODER, "fixed": ["old"]}
    made |= {"attributes": {"smile": 1.0, "hat": 2.0}, "radius": 1.5, "ridge": 1e-3, **changes}
    train = latents()
    signs = train @ torch.tensor([[1.0, 0, 0, 0, 0], [0, 1, 0, 0, 0], [1, 0, 1, 0, 0]]).T
    labels = pd.DataFrame((signs > 0).numpy() * 2 - 1, columns=["smile", "hat", "old"])
    return SemanticSpace(SemanticSettings.model_validate(made), Coded(Plain()), train, labels)


def space_named(name: str) -> LatentSpace | SemanticSpace:
    if name == "semantic":
        return semantic_space()
    return latent_space(radius=1.5 if name == "radius" else None, pixel_weight=0.01)


def images(count: int = 300, seed: int = 1) -> Tensor:
    """Some of them far outside the box."""
    return 2.0 * latents(count, seed)[:, None, None]


@pytest.mark.parametrize("name", SPACES)
def test_projected_points_are_feasible_and_stay_where_they_are(name: str) -> None:
    space, x = space_named(name), images()
    origin = space.origin(x)
    point = origin + 3.0 * torch.randn(origin.shape, generator=torch.Generator().manual_seed(2))
    once = space.project(origin, point)
    assert torch.equal(space.project(origin, once), once)
    assert not space.violations(origin, once).any()
    assert torch.equal(space.project(origin, origin), origin)
    assert space.violations(origin, point).float().mean() > 0.9


@pytest.mark.parametrize("name", SPACES)
def test_no_action_costs_nothing_and_every_other_something(name: str) -> None:
    space, x = space_named(name), images()
    origin = space.origin(x)
    assert torch.equal(space.cost(origin, origin), torch.zeros(len(x)))
    assert not space.changed(origin, origin).any()
    point = space.project(origin, origin + 0.1)
    moved = (point != origin).any(1)
    assert moved.any()
    assert (space.cost(origin, point)[moved] > 0).all()
    assert torch.equal(space.changed(origin, point).any(1), moved)
    assert space.changed(origin, point).shape[1] == len(space.names)


@pytest.mark.parametrize("breach", ["box", "radius", "latents", "fixed", "rho", "nan"])
def test_every_breach_is_seen(breach: str) -> None:
    semantic = breach in ("latents", "fixed", "rho")
    space = semantic_space() if semantic else latent_space(radius=1.0)
    origin = space.origin(torch.zeros(1, 1, 1, D))
    point = origin.clone()
    place, value = {
        "box": (0, 0.999 if breach != "box" else 2.5),
        "radius": (0, 1.01),
        "latents": (0, 1e-6),
        "fixed": (D + 2, 1e-6),
        "rho": (D + 1, 0.76),  # hats cost 2
        "nan": (0, torch.nan),
    }[breach]
    assert not space.violations(origin, point).any()
    point[0, place] = value
    assert space.violations(origin, point).all()


def test_the_latent_cost_is_length_and_pixels() -> None:
    space = latent_space(pixel_weight=0.5)
    origin, point = torch.zeros(1, D), torch.tensor([[3.0, -4.0, 0.0, 0.0, 0.0]])
    assert space.cost(origin, point).item() == pytest.approx(5.0 + 0.5 * 7.0)


def test_a_factual_outside_the_box_is_its_own_bound() -> None:
    space = latent_space()
    origin = torch.full((1, D), 9.0)
    assert torch.equal(space.project(origin, origin + 1.0), origin)
    assert not space.violations(origin, origin).any()
    assert (space.project(origin, torch.zeros(1, D)) == 0).all()


def test_directions_are_of_length_1_and_leave_fixed_predictors_alone() -> None:
    space = semantic_space()
    smile, hat, old = space.directions
    assert torch.allclose(space.directions.norm(dim=1), torch.ones(3))
    assert abs(float(smile @ old)) < 1e-6
    assert abs(float(hat @ old)) < 1e-6
    assert hat[1] > 0.95
    nothing_fixed = directions(latents(), latents()[:, :2] > 0, torch.ones(2).bool(), 1e-3)
    assert (nothing_fixed.diagonal() > 0.95).all()


def test_l1_projection_is_the_nearest_point_of_the_ball() -> None:
    generator = torch.Generator().manual_seed(0)
    values = 2.0 * torch.randn(50, 4, generator=generator)
    near = in_l1_ball(values, 1.0)
    inside = torch.randn(2000, 4, generator=generator)
    inside = inside / inside.abs().sum(1, keepdim=True).clamp_min(1.0)
    assert (near.abs().sum(1) <= 1.0 + 1e-5).all()
    distance = torch.cdist(values, inside).amin(1)
    assert ((values - near).norm(dim=1) <= distance + 1e-5).all()


def test_attributes_that_do_not_exist_are_named() -> None:
    with pytest.raises(UserError, match="unknown attribute 'cap'"):
        semantic_space(attributes={"cap": 1.0})


def test_attributes_that_all_images_share_have_no_direction() -> None:
    made = SemanticSettings(
        name="made",
        kind="semantic",
        autoencoder=CODER,
        attributes={"hat": 1.0},
        fixed=[],
        radius=1.0,
        ridge=1e-3,
    )
    labels = pd.DataFrame({"hat": [1] * 400})
    with pytest.raises(UserError, match="'hat' is the same in all train images"):
        SemanticSpace(made, Coded(Plain()), latents(), labels)


class Lossy(Plain):
    """Forgets the first pixel."""

    def decode(self, z: Tensor) -> Tensor:
        return super().decode(torch.cat([torch.zeros_like(z[:, :1]), z[:, 1:]], 1))


def test_a_reconstruction_that_the_teacher_rejects_is_no_valid_point() -> None:
    space = latent_space(Lossy())
    model = Half([1.0, 0.0, 0.0, 0.0, 0.0])
    x = torch.tensor([[3.0, 0, 0, 0, 0], [0.0, 0, 0, 0, 0]])[:, None, None]
    assert model(x).argmax(1).tolist() == [1, 0]
    points = teacher_actions(model, space, x, "favourable", steps=1, step_size=0.1, keep="last")
    assert points.target.tolist() == [1, 1]
    assert points.valid.tolist() == [False, False]
    assert torch.equal(points.point[0], space.origin(x)[0])


def solver(*overrides: str) -> Solver:
    changes = [f"solver.{text}" for text in overrides]
    data = load_settings("lsq", "mnist", backbone="mlp2", overrides=changes)
    return make_solver(data.solver)


class Half(nn.Module):
    """Accepts where w . x > 1, in logits of that slope."""

    def __init__(self, weight: list[float]) -> None:
        super().__init__()
        self.weight = torch.tensor(weight)

    def forward(self, x: Tensor) -> Tensor:
        score = x.flatten(1) @ self.weight - 1.0
        return torch.stack([-score / 2, score / 2], 1)


def test_the_search_finds_the_nearest_point_of_a_half_space() -> None:
    space = latent_space(bounds={"low": 0.0, "high": 1.0})
    model = Half([1.0, -0.5, 0.25, 0.0, 0.5])
    x = 0.5 * latents(64, 3)[:, None, None]
    target = torch.ones(64, dtype=torch.int64)
    solution = solver("bisections=14").solve(model, space, x, target, 0.1)
    needs = model(x).argmax(1) == 0
    assert torch.equal(solution.status == Status.NOT_NEEDED, ~needs)
    assert solution.found[needs].all()
    short = 1.1 - x.flatten(1) @ model.weight
    best = (short / model.weight.norm())[needs]
    ratio = solution.cost[needs] / best
    assert ratio.min() > 0.999
    assert ratio.mean() < 1.01


@pytest.mark.parametrize("prices", [(1.0, 2.0), (2.0, 1.0), (1.0, 1.0)])
def test_the_search_edits_the_attribute_that_gives_most_for_its_price(
    prices: tuple[float, float],
) -> None:
    space = semantic_space(attributes=dict(zip(("smile", "hat"), prices, strict=True)), radius=50.0)
    model = Half([1.0, 0.8, 0.25, 0.0, 0.5])
    x = 0.5 * latents(64, 3)[:, None, None]
    solution = solver("bisections=14").solve(model, space, x, torch.ones(64).long(), 0.1)
    needs = model(x).argmax(1) == 0
    assert solution.found[needs].all()
    # The least ||W s||_1 with g . s = h is h / max |g_j| / w_j.
    gains = (space.directions[:2] @ model.weight).abs() / torch.tensor(prices)
    best = (1.1 - x.flatten(1) @ model.weight)[needs] / gains.max()
    ratio = solution.cost[needs] / best
    assert ratio.min() > 0.999
    assert ratio.mean() < 1.01
    edited = space.changed(space.origin(x), solution.point)[needs]
    assert edited.sum(1).float().mean() < 1.1


def test_the_search_keeps_to_the_box_and_says_when_it_found_nothing() -> None:
    space = latent_space(radius=0.5)
    x = torch.zeros(3, 1, 1, D)
    target = torch.ones(3, dtype=torch.int64)
    near = solver().solve(Half([3.0, 0, 0, 0, 0]), space, x, target, 0.1)
    assert near.found.all()
    assert not space.violations(space.origin(x), near.point).any()
    far = solver().solve(Half([1.0, 0, 0, 0, 0]), space, x, target, 0.1)
    assert (far.status == Status.NOT_FOUND).all()
    assert torch.equal(far.point, space.origin(x))


@pytest.mark.parametrize("name", ["latent_search", "pgd"])
@pytest.mark.parametrize("space_name", SPACES)
def test_solvers_edit_what_may_be_edited(name: str, space_name: str) -> None:
    space, x = space_named(space_name), 0.3 * images(40)
    model = Half([2.0, 0.5, -0.5, 0.0, 0.0])
    chosen = make_solver(load_settings("lsq", "mnist", backbone="mlp2", solver=name).solver)
    solution = chosen.solve(model, space, x, torch.ones(40, dtype=torch.int64), 0.1)
    assert solution.found.float().mean() > 0.3
    assert not space.violations(space.origin(x), solution.point).any()
    if isinstance(space, SemanticSpace):
        assert (solution.point[:, D + 2] == 0).all()


def test_an_answer_does_not_depend_on_its_neighbours() -> None:
    torch.manual_seed(0)
    network = Autoencoder(CODER, (1, 8, 8)).eval()
    space = latent_space(network, pixel_weight=0.1)
    model = nn.Sequential(nn.Flatten(), nn.Linear(64, 2)).requires_grad_(False)
    x = torch.rand(40, 1, 8, 8)
    target = 1 - model(space.to_input(space.origin(x))).argmax(1)
    together = solver().solve(model, space, x, target, 0.01)
    alone = solver().solve(model, space, x[7:9], target[7:9], 0.01)
    assert torch.equal(together.point[7:9], alone.point)
    assert torch.equal(together.status[7:9], alone.status)


@pytest.mark.parametrize("name", ["search", "exact"])
def test_solvers_for_tables_name_the_one_for_images(name: str) -> None:
    chosen = make_solver(load_settings("lsq", "german", solver=name).solver)
    x, target = torch.zeros(1, 1, 1, D), torch.ones(1, dtype=torch.int64)
    with pytest.raises(UserError, match="use solver=latent_search"):
        chosen.solve(Half([1.0, 0, 0, 0, 0]), latent_space(), x, target, 0.1)


def test_the_solver_for_images_names_the_one_for_tables(make_context: Any) -> None:
    context = make_context("lsq", "solver=latent_search")
    x = context.data.test.x[:2]
    target = 1 - context.teacher(x).argmax(1)
    with pytest.raises(UserError, match="solver latent_search is for images: use solver=search"):
        context.solver.solve(context.teacher, context.actions, x, target, 0.1)


def test_an_autoencoder_needs_images_that_can_be_halved() -> None:
    with pytest.raises(UserError, match="cannot be halved 3 times"):
        Autoencoder(CODER.model_copy(update={"channels": [2, 2, 2]}), (1, 28, 28))
    odd = Autoencoder(CODER.model_copy(update={"channels": [2, 2]}), (3, 28, 12)).eval()
    x = torch.rand(2, 3, 28, 12)
    assert odd.decode(odd.encode(x)).shape == x.shape
