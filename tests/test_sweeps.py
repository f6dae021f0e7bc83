"""Sweeps: what a point is worth, which is chosen, and that kills and repeats change nothing."""

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from optuna.trial import FrozenTrial, TrialState, create_trial

from cfq_bench.cli.main import main
from cfq_bench.config.loader import load_settings
from cfq_bench.config.yaml import read_yaml
from cfq_bench.errors import UserError
from cfq_bench.processes import is_over
from cfq_bench.sweeps.execution import Place, RunJob, execute
from cfq_bench.sweeps.points import Run, Space
from cfq_bench.sweeps.scores import feasible, score
from cfq_bench.sweeps.search import SearchJob, tried
from cfq_bench.sweeps.settings import WATCHED, SweepSettings, load_sweep
from cfq_bench.sweeps.study import JOURNAL, choose, complete, front, open_study, values_of
from cfq_bench.sweeps.sweep import run_sweep
from cfq_bench.sweeps.wandb import _checked
from cfq_bench.sweeps.workers import claim, is_held, run_workers
from tests.support import light_sweep as light
from tests.support.waiting import ended, run_python, wait_for

SWEEPS = Path(__file__).parents[1] / "sweeps"
FILE = {
    "about": "a test",
    "method": "cfq",
    "data": "german",
    "space": {"method.eta": [0.5, 1.0]},
    "seeds": [0],
}


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path / "results", wandb="disabled")


def write(folder: Path, **changes: Any) -> Path:
    path = folder / "mine.yaml"
    path.write_text(json.dumps({**FILE, **changes}))
    return path


def grid_job(space: Space, place: Place, **more: Any) -> RunJob:
    points = space.grid()
    runs = tuple(run for values in points for run in space.runs(values))
    return RunJob(space, place, runs, tuple(points), **{"execute": light.light_run, **more})


def trials_of(space: Space, place: Place) -> list[FrozenTrial]:
    return open_study(space, place.folder(space)).get_trials(deepcopy=False)


def nothing() -> None:
    """A tick that nobody hears."""


class TestSettings:
    @pytest.mark.parametrize(
        ("changes", "words"),
        [
            ({"objektives": ["task/acc"]}, ["'objektives'", "did you mean 'objectives'?"]),
            ({"objectives": ["task/accc"]}, ["metric 'task/accc'", "'task/acc'"]),
            ({"objectives": ["task/favourable_drift"]}, ["neither direction", "within"]),
            ({"objectives": []}, ["objectives", "at least 1"]),
            ({"objectives": ["task/acc", "task/acc"]}, ["given twice"]),
            ({"constraints": {"task/ac": {"within": 1}}}, ["metric 'task/ac'"]),
            ({"constraints": {"task/acc": {"atleast": 1}}}, ["at_least"]),
            ({"constraints": {"task/acc": {}}}, ["at_least, at_most or within"]),
            ({"seeds": []}, ["seeds"]),
            ({"seeds": [0, 0]}, ["given twice"]),
            ({"seeds": [True]}, ["seeds"]),
            ({"space": {}}, ["space"]),
            ({"space": {"method.eta": []}}, ["method.eta"]),
            ({"space": {"method.eta": [1, 1.0]}}, ["1.0 is given twice"]),
            ({"space": {"method.eta": {"low": 0, "high": 1}}}, ["a grid needs a list"]),
            ({"space": {"method.eta": {"low": 0, "hgih": 1}}}, ["hgih", "high"]),
            ({"space": {"seed": [0, 1]}}, ["seed is set by the sweep"]),
            ({"overrides": {"evaluation.split": "test"}}, ["evaluation.split is set"]),
            ({"overrides": {"method.eta": 1}}, ["both in space and in overrides"]),
            ({"trials": 3}, ["sampler: tpe"]),
            ({"sampler": "tpe"}, ["needs trials"]),
            ({"sampler": "random"}, ["sampler", "'grid' or 'tpe'"]),
            ({"budget_tolerance": -0.1}, ["budget_tolerance"]),
            ({"parameters": {}}, ["--wandb"]),
        ],
    )
    def test_a_bad_file_is_one_line(
        self, changes: dict[str, Any], words: list[str], tmp_path: Path
    ) -> None:
        path = write(tmp_path, **changes)
        with pytest.raises(UserError) as caught:
            load_sweep(path)
        assert "\n" not in str(caught.value)
        for word in [str(path), *words]:
            assert word in str(caught.value)

    @pytest.mark.parametrize(
        ("axis", "words"),
        [
            ({"low": 2, "high": 1}, "low must be less"),
            ({"low": 0, "high": 1, "log": True}, "low above 0"),
            ({"low": 1, "high": 9, "log": True, "step": 2}, "no step"),
            ({"low": 0, "high": 1, "step": 0}, "step must be above 0"),
            ({"low": 0}, "low and high"),
        ],
    )
    def test_a_bad_range(self, axis: dict[str, Any], words: str, tmp_path: Path) -> None:
        path = write(tmp_path, sampler="tpe", trials=1, space={"method.eta": axis})
        with pytest.raises(UserError, match=words):
            load_sweep(path)

    def test_pruning_needs_one_objective_that_training_can_show(self, tmp_path: Path) -> None:
        pruning = {"startup_trials": 2, "reports": 1}
        for objectives in (["deploy/avg_bits"], ["recourse/vd", "task/acc"]):
            path = write(tmp_path, sampler="tpe", trials=2, pruning=pruning, objectives=objectives)
            with pytest.raises(UserError, match="pruning needs one objective"):
                load_sweep(path)

    def test_directions_are_those_of_the_metrics(self) -> None:
        keys = ["recourse/boundary_error", "task/acc", "deploy/avg_bits", "recourse/vd@0.25"]
        sweep = light.make_space(objectives=keys).sweep
        assert sweep.directions == ["minimize", "maximize", "minimize", "minimize"]

    def test_overrides_on_the_command_line_win(self, tmp_path: Path) -> None:
        path = write(tmp_path, overrides={"budget.avg_bits": 3.0})
        sweep = load_sweep(path, ["budget.avg_bits=4.0", "data=compas"])
        run = Run({"method.eta": 0.5}, 3, "test")
        settings = Space(sweep).settings(run)
        assert (settings.budget.avg_bits, settings.data.name, settings.seed) == (4.0, "compas", 3)
        assert settings.evaluation.split == "test"
        with pytest.raises(UserError, match=r"method\.eta is both"):
            load_sweep(path, ["method.eta=3"])

    @pytest.mark.parametrize("path", sorted(SWEEPS.glob("*.yaml")), ids=lambda path: path.stem)
    def test_every_sweep_of_the_repository_can_start(self, path: Path) -> None:
        space = Space(load_sweep(path))
        assert space.sweep.about
        if space.sweep.sampler == "grid":
            assert space.grid()

    def test_the_papers_grid(self) -> None:
        points = Space(load_sweep(SWEEPS / "eta_lambda.yaml")).grid()
        assert len(points) == 16
        assert {point["method.eta"] for point in points} == {0.25, 0.5, 1, 2}
        assert {point["policy.bit_cost"] for point in points} == {1e-4, 1e-3, 1e-2, 1e-1}

    def test_there_are_wandb_sweeps_and_git_keeps_them(self) -> None:
        assert {path.stem for path in SWEEPS.glob("wandb/*.yaml")} >= {"eta_lambda"}
        ignored = (SWEEPS.parent / ".gitignore").read_text().splitlines()
        assert "wandb/" not in ignored  # it would hide them

    @pytest.mark.parametrize(
        "path", sorted(SWEEPS.glob("wandb/*.yaml")), ids=lambda path: path.stem
    )
    def test_every_wandb_sweep_sets_what_exists(self, path: Path) -> None:
        config = _checked(path)
        command = config["command"]
        names = {key: command[command.index(f"--{key}") + 1] for key in ("method", "data")}
        for pick in (0, -1):
            first = {
                key: item["values"][pick]
                if "values" in item
                else item.get("value", item.get("min"))
                for key, item in config["parameters"].items()
            }
            settings = load_settings(**names, overrides=[f"{k}={v}" for k, v in first.items()])
            assert settings.evaluation.split == "validation"

    def test_a_point_that_the_settings_refuse_is_named(self) -> None:
        space = light.make_space(space={"method.eta": [1.0, -1.0]})
        with pytest.raises(UserError, match=r"method\.eta"):
            space.grid()


class TestScores:
    def test_values_are_means_over_seeds(self) -> None:
        space = light.make_space(objectives=["recourse/boundary_error", "task/acc"])
        runs = space.runs({"method.eta": 0.5})
        records = [
            light.make_record(space, run, **{"task/acc": 0.7 + run.seed / 10}) for run in runs
        ]
        found = score(space.sweep, records)
        assert found.values == pytest.approx([0.255, 0.75])
        assert found.constraints == {"budget": -0.05}

    @pytest.mark.parametrize(
        ("bits", "kept"), [(3.5, True), (3.325, True), (3.32, False), (3.675, True), (3.7, False)]
    )
    def test_the_budget_tolerance_is_two_sided_and_includes_its_end(
        self, bits: float, kept: bool
    ) -> None:
        space = light.make_space()
        (first, second) = space.runs({"method.eta": 0.5})
        records = [
            light.make_record(space, first),
            light.make_record(space, second, **{"deploy/avg_bits": bits}),
        ]
        assert feasible(score(space.sweep, records).constraints) is kept

    def test_opposite_drifts_do_not_cancel(self) -> None:
        bounds = {
            "task/favourable_drift": {"within": 0.02},
            "task/acc": {"at_least": 0.7, "at_most": 0.74},
        }
        space = light.make_space(constraints=bounds, budget_tolerance=None)
        drifts = (0.03, -0.05)
        records = [
            light.make_record(space, run, **{"task/favourable_drift": drift})
            for run, drift in zip(space.runs({"method.eta": 0.5}), drifts, strict=True)
        ]
        assert score(space.sweep, records).constraints == pytest.approx(
            {
                "task/favourable_drift within": 0.02,
                "task/acc at_least": -0.05,
                "task/acc at_most": 0.01,
            }
        )

    def test_an_undefined_metric_is_no_value(self) -> None:
        space = light.make_space()
        runs = space.runs({"method.eta": 0.5})
        undefined = light.make_record(space, runs[1], **{"recourse/boundary_error": None})
        found = score(space.sweep, [light.make_record(space, runs[0]), undefined])
        assert found.values == []
        assert found.reason == "seed 1: recourse/boundary_error is undefined"

    def test_the_choice_keeps_the_constraints_and_the_first_objective_decides(self) -> None:
        sweep = light.make_space(objectives=["recourse/boundary_error", "task/acc"]).sweep
        rows = [([0.1, 0.9], 0.01), ([0.3, 0.9], 0.0), ([0.2, 0.6], -1.0), ([0.2, 0.7], 0.0)]
        rows.append(([0.3, 0.5], 0.0))
        trials = []
        for number, (values, budget) in enumerate(rows):
            trial = create_trial(values=values, constraints={"budget": budget})
            trial.number = number
            trials.append(trial)
        best = choose(sweep, trials)
        assert best is not None
        assert best.number == 3
        assert [trial.number for trial in front(sweep, trials)] == [1, 3]
        assert choose(sweep, trials[:1]) is None


class TestGrid:
    def test_every_point_is_a_trial_once(self, place: Place) -> None:
        space = light.make_space()
        for _ in range(2):
            run_workers(grid_job(space, place), 1, nothing)
        trials = trials_of(space, place)
        assert [trial.params["method.eta"] for trial in trials] == [0.5, 1.0, 2.0]
        assert [trial.value for trial in trials] == pytest.approx([0.255, 0.005, 1.005])
        assert trials[1].user_attrs["runs"] == space.run_ids({"method.eta": 1.0})
        assert trials[1].constraints == {"budget": -0.05}
        assert len(light.attempts(place.results_dir)) == 6

    def test_interrupted_at_the_third_of_six_it_goes_on(self, place: Place) -> None:
        space = light.make_space()

        def interrupted(space: Space, place: Place, run: Run) -> Any:
            if len(list(place.store.runs_dir.glob("*.json"))) == 2:
                raise KeyboardInterrupt
            return light.light_run(space, place, run)

        with pytest.raises(KeyboardInterrupt):
            grid_job(space, place, execute=interrupted).work(0, nothing)
        assert len(trials_of(space, place)) == 1
        grid_job(space, place).work(0, nothing)
        assert len(light.attempts(place.results_dir)) == len(set(light.attempts(place.results_dir)))
        assert [trial.state for trial in trials_of(space, place)] == [TrialState.COMPLETE] * 3

    @pytest.mark.slow
    def test_the_runs_of_a_killed_process_are_taken_over(self, place: Place) -> None:
        space = light.make_space()
        job = grid_job(space, place, execute=light.dying_run)
        assert run_workers(job, 2, nothing) is False  # one of them was killed
        done = light.attempts(place.results_dir)
        assert sorted(done) == sorted({space.run_id(run) for run in job.runs})
        assert len(complete(open_study(space, place.folder(space)))) == 3

    def test_no_claim_is_left(self, place: Place) -> None:
        space = light.make_space()
        (claims := place.folder(space) / "claims").mkdir(parents=True)
        (claims / f"{space.run_ids({'method.eta': 1.0})[0]}.lock").write_text("")  # of a killed one
        grid_job(space, place).work(0, nothing)
        assert list(claims.iterdir()) == []

    def test_a_failed_run_is_told_once_and_tried_again_by_the_next_call(self, place: Place) -> None:
        space = light.make_space(seeds=[0])

        def failing(space: Space, place: Place, run: Run) -> Any:
            record = light.make_record(space, run)
            if run.values["method.eta"] == 1.0:
                changes = {"status": "failed", "reason": "it diverged"}
                record = record.model_copy(update=changes)
            light.note(place, record.run_id)
            place.store.write(record, None)
            return record

        for _ in range(2):
            grid_job(space, place, execute=failing).work(0, nothing)
            path = place.store.path(space.run_ids({"method.eta": 1.0})[0])
            _age(path)
        assert len(light.attempts(place.results_dir)) == 4
        states = [trial.state for trial in trials_of(space, place)]
        assert states.count(TrialState.FAIL) == 1
        grid_job(space, place).work(0, nothing)
        trials = trials_of(space, place)
        assert sum(trial.state == TrialState.COMPLETE for trial in trials) == 3

    def test_a_changed_sweep_is_another_study(self, place: Place) -> None:
        first, second = light.make_space(), light.make_space(seeds=[0, 1, 2])
        for space in (first, second):
            grid_job(space, place).work(0, nothing)
            assert len(trials_of(space, place)) == 3
        assert light.make_space(test_seeds=[7]).study_name() == first.study_name()

    def test_lists_are_points_too(self, place: Place) -> None:
        lists = [[4, 4, 4], [8, 3, 8]]
        fixed = {"budget.allocator": "fixed"}
        space = light.make_space(space={"budget.bits": lists}, overrides=fixed, seeds=[0])
        grid_job(space, place).work(0, nothing)
        found = [values_of(space.sweep, trial.params) for trial in trials_of(space, place)]
        assert found == [{"budget.bits": bits} for bits in lists]

    def test_a_damaged_journal_is_one_line(self, place: Place) -> None:
        space = light.make_space()
        grid_job(space, place).work(0, nothing)
        journal = place.folder(space) / JOURNAL
        journal.write_text("{cut off\n" + journal.read_text())
        with pytest.raises(UserError, match=r"journal\.log is damaged .*move it away"):
            trials_of(space, place)


def _age(path: Path) -> None:
    import os

    os.utime(path, (0, 0))


class TestSearch:
    def test_it_finds_better_points_than_it_starts_with(self, place: Place) -> None:
        space = light.search_space(trials=25)
        SearchJob(space, place, light.light_point).work(0, nothing)
        values = [trial.value for trial in complete(open_study(space, place.folder(space)))]
        assert len(values) == 25
        assert min(v for v in values[3:] if v is not None) < 0.02
        assert not list((place.folder(space) / "workers").glob("*.lock"))

    def test_a_seed_is_repeatable_and_a_resumed_search_does_not_repeat(
        self, place: Place, tmp_path: Path
    ) -> None:
        space, longer = light.search_space(trials=3), light.search_space(trials=6)
        again = Place(tmp_path / "again", wandb="disabled")
        for where in (place, again):
            SearchJob(space, where, light.light_point).work(0, nothing)
        first = [trial.params for trial in trials_of(space, place)]
        assert first == [trial.params for trial in trials_of(space, again)]
        assert space.study_name() == longer.study_name()
        SearchJob(longer, place, light.light_point).work(0, nothing)
        points = [trial.params["method.eta"] for trial in trials_of(longer, place)]
        assert len(set(points)) == 6

    def test_several_objectives_and_constraints_reach_the_study(self, place: Place) -> None:
        space = light.search_space(
            objectives=["recourse/boundary_error", "task/acc", "deploy/avg_bits"],
            constraints={"task/acc": {"at_least": 0.8}},
        )
        SearchJob(space, place, light.light_point).work(0, nothing)
        study = open_study(space, place.folder(space))
        assert [direction.name for direction in study.directions] == [
            "MINIMIZE",
            "MAXIMIZE",
            "MINIMIZE",
        ]
        assert study.metric_names == space.sweep.objectives
        assert len(complete(study)) == 6
        for trial in complete(study):
            assert trial.constraints == pytest.approx({"budget": -0.05, "task/acc at_least": 0.05})
            assert not feasible(trial.constraints)

    def test_a_point_is_tried_once_and_a_small_space_ends(self, place: Place) -> None:
        space = light.search_space(trials=50, space={"method.eta": [0.5, 1.0, 2.0]})
        SearchJob(space, place, light.light_point).work(0, nothing)
        done = complete(open_study(space, place.folder(space)))
        assert sorted(trial.params["method.eta"] for trial in done) == [0.5, 1.0, 2.0]

    def test_points_that_the_settings_refuse_fail_and_count(self, place: Place) -> None:
        space = light.search_space(
            trials=2,
            space={"budget.avg_bits": [3.0, 1.0]},
            overrides={"budget.allocator": "gumbel"},
        )
        SearchJob(space, place, light.light_point).work(0, nothing)
        counted = [trial for trial in trials_of(space, place) if "void" not in trial.user_attrs]
        states = {trial.params["budget.avg_bits"]: trial for trial in counted}
        assert len(counted) == 2
        assert states[3.0].state == TrialState.COMPLETE
        assert states[1.0].state == TrialState.FAIL
        assert "budget.avg_bits" in states[1.0].user_attrs["reason"]

    @pytest.mark.slow
    def test_the_trial_of_a_killed_process_is_done_by_another(self, place: Place) -> None:
        space = light.search_space(trials=6)
        run_workers(SearchJob(space, place, light.dying_point), 2, nothing)
        study = open_study(space, place.folder(space))
        done = complete(study)
        assert (len(done), tried(study)) == (6, 6)
        dead = study.get_trials(states=(TrialState.FAIL,))
        assert [trial.number for trial in dead] == [2]
        (retry,) = [trial for trial in done if trial.user_attrs.get("replaces") == 2]
        assert retry.params == dead[0].params
        points = [trial.params["method.eta"] for trial in done]
        assert len(points) == len(set(points))

    @pytest.mark.slow
    def test_a_search_that_is_killed_goes_on(self, place: Place) -> None:
        space = light.search_space(trials=4)
        assert run_workers(SearchJob(space, place, light.dying_point), 2, nothing) is False
        SearchJob(space, place, light.light_point).work(0, nothing)
        assert len(complete(open_study(space, place.folder(space)))) == 4

    @pytest.mark.slow
    def test_a_point_that_kills_every_time_is_given_up(self, place: Place) -> None:
        space = light.search_space(trials=3)
        job = SearchJob(space, place, light.deadly_point)
        assert run_workers(job, 4, nothing) is False
        study = open_study(space, place.folder(space))
        assert len(complete(study)) == 2
        assert tried(study) == 3
        (given_up,) = [t for t in trials_of(space, place) if "reason" in t.user_attrs]
        assert given_up.user_attrs["reason"] == "3 processes were killed at it"

    @pytest.mark.slow
    def test_calls_that_are_killed_as_a_whole_give_up_no_point(self, place: Place) -> None:
        space = light.search_space(trials=3)
        for _ in range(3):
            run_workers(SearchJob(space, place, light.deadly_point), 2, nothing)
        SearchJob(space, place, light.light_point).work(0, nothing)
        study = open_study(space, place.folder(space))
        assert not [t for t in trials_of(space, place) if "reason" in t.user_attrs]
        points = [trial.params["method.eta"] for trial in complete(study)]
        assert len(points) == len(set(points)) == 3

    @pytest.mark.slow
    def test_five_processes_share_one_journal(self, place: Place) -> None:
        space = light.search_space(trials=30)
        assert run_workers(SearchJob(space, place, light.light_point), 5, nothing)
        done = complete(open_study(space, place.folder(space)))
        assert len(done) == len({trial.params["method.eta"] for trial in done}) == 30
        assert len(trials_of(space, place)) == 30


class TestClaims:
    def test_a_claim_is_held_until_its_block_ends(self, tmp_path: Path) -> None:
        path = tmp_path / "claims" / "a.lock"
        assert not is_held(path)
        with claim(path) as ours:
            assert ours
            assert is_held(path)
            with claim(path) as theirs:
                assert not theirs
        assert not is_held(path)


@pytest.mark.slow
def test_workers_end_with_a_killed_parent(tmp_path: Path) -> None:
    parent = subprocess.Popen([sys.executable, "-m", "tests.support.light_sweep", str(tmp_path)])
    wait_for("two workers", lambda: len(list(tmp_path.glob("*.pid"))) == 2)
    workers = [int(path.stem) for path in tmp_path.glob("*.pid")]
    parent.kill()
    ended(parent)
    wait_for("their end", lambda: all(map(is_over, workers)), lambda: workers)


SHORT = {
    "data.fit.epochs": 1,
    "data.fit.teacher_epochs": 8,
    "teacher.lr": 5e-3,
    "evaluation.max_rows": 10,
}


class TestPruning:
    """With real trainings; the study's answers are given by hand."""

    class Trial:
        def __init__(self, prune_at: int | None) -> None:
            self.prune_at, self.reports = prune_at, dict[int, float]()

        def report(self, value: float, step: int) -> None:
            self.reports[step] = value

        def should_prune(self) -> bool:
            return self.prune_at is not None and max(self.reports) >= self.prune_at

    def space(self) -> Space:
        return light.search_space(
            method="lsq",
            overrides={**SHORT, "budget.avg_bits": 4.0},
            space={"training.lr": {"low": 1e-4, "high": 1e-2, "log": True}},
            pruning={"startup_trials": 1, "reports": 3},
            seeds=[0, 1],
        )

    @pytest.mark.slow
    def test_a_watched_run_is_the_same_run(self, place: Place, tmp_path: Path) -> None:
        from cfq_bench.sweeps.pruning import execute_watched

        space, trial = self.space(), self.Trial(None)
        run = space.runs({"training.lr": 1e-3})[1]
        watched = execute_watched(space, place, run, trial, 1)  # type: ignore[arg-type]
        plain = execute(space, Place(tmp_path / "plain", wandb="disabled"), run)
        for key, value in plain.metrics.items():
            assert key.startswith("time/") or watched.metrics[key] == value
        assert list(trial.reports) == [4, 5, 6, 7]
        assert trial.reports[7] == watched.metrics["recourse/boundary_error"]

    @pytest.mark.slow
    @pytest.mark.parametrize("metric", WATCHED)
    def test_what_is_watched_is_the_metric_on_validation_rows(
        self, metric: str, make_context: Any
    ) -> None:
        from cfq_bench.evaluation.evaluate import evaluate
        from cfq_bench.evaluation.teacher_recourse import teacher_recourse
        from cfq_bench.methods.base import fit_method, make_method
        from cfq_bench.sweeps.pruning import Watch

        context = make_context("lsq", "budget.avg_bits=4.0", "training.lr=1.0e-2")
        method = make_method(context)
        fit_method(method)
        watch = Watch(self.Trial(None), metric, 1, 0)  # type: ignore[arg-type]
        data, settings = context.data.on_validation(), context.settings
        shared = (context.teacher, context.actions, context.solver)
        directions = teacher_recourse(settings, data, *shared, context.cache, context.runtime)
        expected = evaluate(
            method.deployed(),
            context.teacher,
            data,
            context.actions,
            context.solver,
            directions,
            settings.evaluation,
            context.runtime,
        )
        assert watch._value(method) == pytest.approx(expected.metrics[metric])

    @pytest.mark.slow
    def test_a_pruned_run_leaves_no_record(self, place: Place) -> None:
        import optuna

        from cfq_bench.sweeps.pruning import execute_watched

        space, trial = self.space(), self.Trial(1)
        run = space.runs({"training.lr": 1e-3})[0]
        with pytest.raises(optuna.TrialPruned):
            execute_watched(space, place, run, trial, 0)  # type: ignore[arg-type]
        assert list(trial.reports) == [0, 1]
        assert list(place.store.runs_dir.glob("*")) == []


class TestCommand:
    def call(self, *arguments: str | Path) -> Any:
        return CliRunner().invoke(main, ["sweep", *map(str, arguments)])

    @pytest.mark.slow
    def test_a_grid_from_nothing_to_test_rows(self, tmp_path: Path, monkeypatch: Any) -> None:
        (tmp_path / "cwd").mkdir()
        monkeypatch.chdir(tmp_path / "cwd")
        path = write(tmp_path, overrides=SHORT, test_seeds=[0, 1])
        results = tmp_path / "results"
        arguments = [path, "-q", "--results-dir", results, "--tracking", "disabled"]
        done = self.call(*arguments)
        assert done.exit_code == 0, done.output
        assert done.stderr == ""
        assert re.search(r"Chosen by boundary error .*`method.eta=(0.5|1.0)` \(2 of 2", done.stdout)
        assert "validation, 1 seeds | test, 2 seeds" in done.stdout
        assert list((tmp_path / "cwd").iterdir()) == []
        records = {p: json.loads(p.read_text()) for p in (results / "runs").glob("*.json")}
        splits = sorted(record["config"]["evaluation"]["split"] for record in records.values())
        assert splits == ["test", "test", "validation", "validation"]
        before = {p: p.stat().st_mtime_ns for p in records}
        again = self.call(*arguments)
        assert again.stdout == done.stdout
        assert {p: p.stat().st_mtime_ns for p in (results / "runs").glob("*.json")} == before
        assert (results / "sweeps" / "mine" / "report.md").read_text() == done.stdout

    def test_a_failed_point_is_told_and_the_others_are_compared(self, tmp_path: Path) -> None:
        space = {"training.lr": [1e-3, 1e38]}
        path = write(tmp_path, method="ft32", overrides=SHORT, space=space, budget_tolerance=None)
        done = self.call(path, "--results-dir", tmp_path / "results", "--tracking", "disabled")
        assert done.exit_code == 1
        assert "Chosen by boundary error on validation rows: `training.lr=0.001` (1 of 1" in (
            done.stdout
        )
        assert "training.lr=1e+38 seed=0: failed: " in done.stderr

    def test_nothing_within_the_budget_is_no_choice(self, place: Place) -> None:
        space = light.make_space(constraints={"task/acc": {"at_least": 0.9}})
        grid_job(space, place).work(0, nothing)
        result = run_sweep(space, place, 1, lambda *_: None)
        assert result.chosen is None
        assert "Nothing chosen: 0 of 3 points keep every constraint." in result.report
        assert "breaks task/acc at_least" in result.report

    @pytest.mark.parametrize(
        ("arguments", "words"),
        [
            (["nowhere.yaml"], "nowhere.yaml"),
            (["nowhere.yaml", "--agents", "2"], "--agents is for --wandb"),
            (["nowhere.yaml", "--wandb", "seed=1"], "seed=1"),
        ],
    )
    def test_bad_arguments_are_one_line(self, arguments: list[str], words: str) -> None:
        done = self.call(*arguments)
        assert done.exit_code == 2
        assert words in done.stderr
        assert len(done.stderr.splitlines()) == 1

    def test_help_needs_nothing_heavy(self) -> None:
        code = (
            "import sys\nfrom click.testing import CliRunner\nfrom cfq_bench.cli.main import main\n"
            "assert 'eta_lambda' in CliRunner().invoke(main, ['sweep', '--help']).stdout\n"
            "print(sorted({'torch', 'lightning', 'wandb', 'optuna', 'pandas'} & set(sys.modules)))"
        )
        assert run_python(code).strip() == "[]"


def test_a_sweep_file_reads_as_it_is_written() -> None:
    raw = read_yaml(SWEEPS / "search.yaml")
    sweep = load_sweep(SWEEPS / "search.yaml")
    assert isinstance(sweep, SweepSettings)
    assert set(raw) <= set(SweepSettings.model_fields)
