"""The audit of images sees every breach, and agrees with the spaces where there is none."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pandas as pd
import pytest
import torch
from torch import Tensor

from cfq_bench.actions.latent import LatentSpace
from cfq_bench.actions.outcome import Solution, Status
from cfq_bench.actions.semantic import SemanticSpace
from cfq_bench.evaluation.audit_images import ImageQuestion, image_violations
from tests.test_auditing import script
from tests.test_latent_actions import (
    SPACES,
    D,
    images,
    latents,
    semantic_space,
    solver,
    space_named,
)

KAPPA = 0.1


def model(x: Tensor) -> Tensor:
    """Two logits; the favourable side is where the pixels' sum is high."""
    total = 2.0 * x.flatten(1).sum(1) - 1.0
    return torch.stack([-total, total], dim=1)


def asked_and_answered(
    space: LatentSpace | SemanticSpace,
) -> tuple[ImageQuestion, Solution]:
    x = images(120)
    x = x[model(x).argmax(1) == 0]
    target = torch.ones(len(x), dtype=torch.int64)
    solution = solver().solve(model, space, x, target, KAPPA)
    train = latents()
    signs = train @ torch.tensor([[1.0, 0, 0, 0, 0], [0, 1, 0, 0, 0], [1, 0, 1, 0, 0]]).T
    asked = ImageQuestion(
        model=model,
        actions=space.settings,
        coded=space.coded,
        to_image=space.to_input,
        train_latents=train,
        attributes=pd.DataFrame((signs > 0).numpy() * 2 - 1, columns=["smile", "hat", "old"]),
        x=x,
        target=target,
        kappa=KAPPA,
    )
    return asked, solution


@pytest.mark.parametrize("name", SPACES)
def test_a_solver_s_answers_are_clean(name: str) -> None:
    asked, solution = asked_and_answered(space_named(name))
    assert int(solution.found.sum()) > 3
    assert image_violations(asked, solution).empty


def moved(column: int, value: float) -> Callable[[Solution], None]:
    def change(solution: Solution) -> None:
        first = int(solution.found.nonzero()[0])
        solution.point[first, column] = value

    return change


def far(solution: Solution) -> None:
    """All latents: further than the radius, wherever the point was within it."""
    solution.point[int(solution.found.nonzero()[0])] -= 1.6


def unfound(solution: Solution) -> None:
    """An action that is said not to have been found, but is there."""
    solution.status[solution.found.nonzero()[0]] = int(Status.NOT_FOUND)


def cheaper(solution: Solution) -> None:
    solution.cost.mul_(0.99)


BREACHES: list[tuple[str, Callable[[Solution], None], set[str]]] = [
    ("box", moved(0, 9.0), {"box", "cost"}),
    ("box", moved(0, torch.nan), {"box", "cost", "margin", "image"}),
    ("radius", far, {"radius", "cost"}),
    ("box", cheaper, {"cost"}),
    ("box", unfound, {"unchanged", "cost"}),
    ("semantic", moved(0, 0.5), {"latents"}),
    ("semantic", moved(D + 2, 0.25), {"fixed", "cost", "predictor"}),
    ("semantic", moved(D, 9.0), {"radius", "cost"}),
]


@pytest.mark.parametrize(("name", "change", "rules"), BREACHES)
def test_every_breach_is_told(
    name: str, change: Callable[[Solution], None], rules: set[str]
) -> None:
    asked, solution = asked_and_answered(space_named(name))
    first = int(solution.found.nonzero()[0])
    change(solution)
    table = image_violations(asked, solution)
    assert rules <= {*table["rule"]}
    if change is not cheaper:
        assert {*table["row"]} == {first}


def test_an_edit_that_moves_a_fixed_attribute_s_predictor_is_told() -> None:
    space = semantic_space()
    asked, solution = asked_and_answered(space)
    space.directions = torch.nn.functional.normalize(space.directions + 0.05, dim=1)
    table = image_violations(asked, solution)
    assert "image" in {*table["rule"]}, "the space's directions are not those of the settings"


def test_what_falls_short_of_the_margin_is_told() -> None:
    asked, solution = asked_and_answered(space_named("box"))
    more = ImageQuestion(**{**vars(asked), "kappa": KAPPA + 0.5})
    table = image_violations(more, solution)
    assert {*table["rule"]} == {"margin"}


def test_the_command_checks_images_and_fails_on_a_breach(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    command = script()
    space = space_named("semantic")
    asked, _ = asked_and_answered(space)

    def context(settings: Any, *rest: Any) -> Any:
        data = object.__new__(command.ImageData)
        split = SimpleNamespace(blocks=lambda: [asked.x], inputs=lambda rows: asked.x[rows])
        train = SimpleNamespace(blocks=lambda: [latents()[:, None, None]])
        for name, value in {"test": split, "train": train}.items():
            object.__setattr__(data, name, value)
        object.__setattr__(data, "train_attributes", asked.attributes)
        return SimpleNamespace(data=data, actions=space, teacher=model, solver=solver())

    settings = SimpleNamespace(
        actions=space.settings,
        evaluation=SimpleNamespace(kappa=KAPPA),
        backbone=SimpleNamespace(name="made"),
    )
    monkeypatch.setattr(command, "load_settings", lambda *args, **kinds: settings)
    monkeypatch.setattr(command, "make_context", context)
    arguments = ["--data", "celeba", "--image-rows", "30", "--out", str(tmp_path)]
    assert command.main(arguments) == 0
    (line,) = json.loads((tmp_path / "violations.json").read_text())["lines"]
    assert line["data"] == "celeba"
    assert line["rows"] == 30, "no row is accepted, so that none is asked for the other class"
    assert line["found"] > 0

    free = space.free.clone()
    space.free = torch.ones_like(free)  # the fixed attribute may now be edited
    found = space.projector

    def edits_all(origin: Tensor) -> Callable[[Tensor], Tensor]:
        project = found(origin)
        return lambda point: project(point).index_fill(1, torch.tensor(D + 2), 0.1)

    monkeypatch.setattr(space, "projector", edits_all)
    monkeypatch.setattr(space, "violations", lambda o, p: torch.zeros(len(p), dtype=torch.bool))
    assert command.main(arguments) == 1
    report = json.loads((tmp_path / "violations.json").read_text())
    assert "fixed" in {line["rule"] for line in report["lines"][0]["first_violations"]}
