"""A record is an answer for the code and the data that made it, and for no others."""

from __future__ import annotations

import ast
import shutil
import sys
import threading
import time
import types
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

import cfq_bench
from cfq_bench import codebase as code
from cfq_bench.cache import Memo
from cfq_bench.cli.main import main
from cfq_bench.codebase import PLUMBING, RUN, Codebase, plugins_of, tree_digest
from cfq_bench.config import plugin
from cfq_bench.config.loader import load_settings
from cfq_bench.data.prints import changed_file, data_prints
from cfq_bench.errors import UserError
from cfq_bench.record.archive import pack, read_archive
from cfq_bench.record.identity import EDITED, Judge, answering, begin, made_by, made_by_code
from cfq_bench.record.record import MadeBy, Record
from cfq_bench.record.store import RecordStore
from cfq_bench.suites import run as suites
from cfq_bench.suites import worker
from cfq_bench.suites.run import Progress, SuiteOptions, run_suite
from tests.support.light_suite import light_record, light_runs, many_configs
from tests.support.records import made_record

PACKAGE = Path(cfq_bench.__file__).parent
RESULTS = PACKAGE.parent / "results"
LSQ = PACKAGE / "methods" / "lsq.py"
FLIP = ("self(x), y", "self(x), 1 - y")


def config_of(method: str, data: str = "compas", *overrides: str) -> dict[str, Any]:
    return load_settings(method, data, overrides=overrides).model_dump(mode="json")


def edit(path: Path, old: str, new: str, count: int = -1) -> None:
    text = path.read_text(encoding="utf-8")
    assert old in text
    path.write_text(text.replace(old, new, count), encoding="utf-8")


@pytest.fixture
def tree(tmp_path: Path) -> Codebase:
    """A working tree of our own, to be edited."""
    target = tmp_path / "tree" / "cfq_bench"
    shutil.copytree(PACKAGE, target, ignore=shutil.ignore_patterns("__pycache__", "*.xz", "*.csv"))
    (target.parent / "pyproject.toml").write_text("")
    return Codebase(target, "1.2.3")


METHODS = {
    name: plugins_of(config_of(name)) for name in ("lsq", "kd_qat", "cfq", "cfq_group", "mixed_haq")
}


def words(tree: Codebase) -> dict[str, str]:
    return {name: tree.identity(RUN, plugins) for name, plugins in METHODS.items()}


@pytest.mark.parametrize(
    ("file", "old", "new", "stale"),
    [
        ("methods/lsq.py", *FLIP, {"lsq"}),
        ("methods/matching.py", "def ", "def _", {"cfq", "cfq_group"}),
        ("methods/cfq.py", "class CFQ(", "class Cfq(", {"cfq", "cfq_group"}),
        ("methods/allocators/ddpg.py", "class ", "class My", {"mixed_haq"}),
        ("methods/qat.py", "class QATMethod(", "class Qat(", set(METHODS)),
        ("quantization/functional.py", "def ", "def _", set(METHODS)),
        ("actions/search.py", "class ", "class My", set(METHODS)),
        ("data/compas.py", '"African-American", "Caucasian"', '"Caucasian"', set(METHODS)),
        ("experiment.py", "def ", "def _", set(METHODS)),
        # What is another method's, or tells and stores results, is part of no other's record.
        ("methods/pact.py", "class ", "class My", set()),
        ("data/german.py", '"A11", ', "", set()),
        ("actions/exact.py", "# ", "# # ", set()),
        ("cache.py", "FORMAT = ", "FORMAT = 1 + ", set()),
        ("report/build.py", "def ", "def _", set()),
        ("tracking/wandb.py", "def ", "def _", set()),
        ("cli/main.py", "def ", "def _", set()),
        ("__init__.py", "__version__ = ", "__version__ = 'new ' + ", set()),
    ],
)
def test_an_edit_changes_the_code_of_those_that_it_is_part_of(
    tree: Codebase, file: str, old: str, new: str, stale: set[str]
) -> None:
    before = words(tree)
    edit(tree.package / file, old, new)
    after = words(tree)
    assert {name for name in METHODS if before[name] != after[name]} == stale


def test_comments_docstrings_and_formatting_change_nothing(tree: Codebase) -> None:
    before = words(tree)
    for path in (tree.package / "methods").rglob("*.py"):
        syntax = ast.parse(path.read_text(encoding="utf-8"))
        # Unparsed: no comment, no line, no bracket and no quote stays where it was.
        path.write_text(f"# changed\n{ast.unparse(syntax)}\n", encoding="utf-8")
    lsq = tree.package / "methods" / "lsq.py"
    lsq.write_text(lsq.read_text().replace('"""', '"""Other words. ', 1))
    assert words(tree) == before


def test_a_new_method_changes_nobody_s_code(tree: Codebase) -> None:
    before = words(tree)
    folder = tree.package / "methods"
    shutil.copy(folder / "lsq.py", folder / "mine.py")
    (folder / "mine_helper.py").write_text("X = 1\n")
    with (folder / "mine.py").open("a") as file:
        file.write("\nimport cfq_bench.methods.mine_helper\n")
    assert words(tree) == before
    mine = [*METHODS["lsq"], "cfq_bench.methods.mine"]
    first = tree.identity(RUN, mine)
    (folder / "mine_helper.py").write_text("X = 2\n")
    assert tree.identity(RUN, mine) != first


def test_a_release_is_its_version_and_the_files_around_it(tree: Codebase, tmp_path: Path) -> None:
    (tree.package.parent / "pyproject.toml").unlink()
    assert words(tree) == dict.fromkeys(METHODS, "version 1.2.3")
    build = Codebase(tree.package, "1.3.0.dev0")
    before = words(build)["lsq"]
    edit(tree.package / "methods" / "lsq.py", *FLIP)
    assert words(tree)["lsq"] == "version 1.2.3"
    assert words(build)["lsq"] != before  # a build between releases is what is in it
    own = tmp_path / "own.py"
    own.write_text("import cfq_bench.methods.qat\nimport beside\nA = 1\n")
    first = tree.identity(RUN, [str(own)])
    assert first.startswith("version 1.2.3 with files ")
    own.write_text("import cfq_bench.methods.qat\nimport beside\nA = 2\n")
    second = tree.identity(RUN, [str(own)])
    (tmp_path / "beside.py").write_text("B = 1\n")
    own.touch()
    third = Codebase(tree.package, "1.2.3").identity(RUN, [str(own)])
    assert len({first, second, third}) == 3


PLAIN = "71f7c2902bec796f"


def test_the_digest_is_the_same_in_every_version_of_python() -> None:
    source = '''
"""Words."""
import os  # a comment
from . import a as b

class Config[T: int](Base, kind="x"):
    """Words."""
    lr: float = 1e-3
    """Its unit."""

async def f(x, /, *y, z=None, **k) -> int:
    match x:
        case {"a": [1, *_], **rest} if rest: pass
        case None | True: return f"{x!r:>{z}} {x=} {{}}" "tail" f"{y}"
    try:
        return {**k, "é\\u200b": (1, 2.5, 1j, b"\\x00", ...)}
    except* OSError as error: raise ValueError from error
    async for i in y: del x[i, 1:2]
    lambda *a: (yield)
'''
    if sys.version_info < (3, 12):
        source = source.replace("[T: int]", "")
        assert tree_digest(source.encode())[:16] == PLAIN
    else:
        assert tree_digest(source.replace("[T: int]", "").encode())[:16] == PLAIN
        assert tree_digest(source.encode())[:16] != PLAIN


def test_what_cannot_be_parsed_is_itself() -> None:
    assert tree_digest(b"def f(:") != tree_digest(b"def f(: ")


def test_every_file_that_is_loaded_by_name_is_named_in_the_settings() -> None:
    """Whoever loads a plug-in otherwise must count it into the code: `Codebase.identity`."""
    loads = []
    for path in PACKAGE.rglob("*.py"):
        if path.name == "plugin.py" or path == PACKAGE / "__init__.py":
            continue
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name | ast.Attribute):
                called = ast.unparse(node.func).split(".")[-1]
                assert called != "import_module"
                if called in ("load_class", "load_module"):
                    loads.append(ast.unparse(node.args[0]))
    assert {name.split(".")[-1] for name in loads} == {"module", "loader"}


def test_plumbing_and_roots_exist() -> None:
    for name in (*PLUMBING, *RUN):
        path = PACKAGE.parent.joinpath(*name.split("."))
        assert path.with_suffix(".py").is_file() or path.is_dir()


def test_what_is_loaded_is_not_what_was_edited_since(tree: Codebase) -> None:
    loaded = tree.identity(RUN, METHODS["lsq"], loaded=True)
    edit(tree.package / "methods" / "lsq.py", *FLIP)
    edit(tree.package / "methods" / "lsq.py", "import", "import cfq_bench.methods.cfq\nimport", 1)
    assert tree.identity(RUN, METHODS["lsq"], loaded=True) == loaded
    now = tree.identity(RUN, METHODS["lsq"])
    assert now not in (loaded, Codebase(tree.package, "1").identity(RUN, METHODS["kd_qat"]))
    assert now == Codebase(tree.package, tree.version).identity(RUN, METHODS["lsq"])


@pytest.mark.parametrize("damage", ["[1, 2", "[]", '{"a": 1}', None])
def test_a_memo_that_cannot_be_used_costs_time_alone(
    tree: Codebase, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, damage: str | None
) -> None:
    expected = words(tree)
    cache = tmp_path / "cache"
    monkeypatch.setenv("CFQ_BENCH_CACHE", str(cache))
    if damage is None:
        cache.write_text("a file where the folder should be")
    else:
        memo = Memo("code", 1).path
        memo.parent.mkdir(parents=True)
        memo.write_text(damage)
    for _ in range(2):
        assert words(Codebase(tree.package, tree.version)) == expected


def test_many_records_are_judged_at_once() -> None:
    made = made_by_code(config_of("lsq", "german"))
    records = [light_record(config, made_by=made) for config in many_configs(500)]
    start = time.perf_counter()
    assert Judge().stale(records) == {}
    assert time.perf_counter() - start < 1.0


class TestJudge:
    def test_a_record_of_this_code_and_data_is_fresh(self) -> None:
        config = config_of("lsq")
        made = MadeBy(code=code.run_code(config), data=data_prints("cfq_bench.data.compas", None))
        assert set(made.data or {}) == {"embedded/compas.csv.xz"}
        assert Judge().why_stale(light_record(config, made_by=made)) is None

    @pytest.mark.parametrize(
        ("made", "why"),
        [
            (None, "made by a version that did not record its code"),
            (MadeBy(code=EDITED), "its code was edited while it ran"),
            (
                MadeBy(code="files 0"),
                "made by other code (cfq-bench 0.1.0 at 0123456789, with changes of its own)",
            ),
        ],
    )
    def test_any_other_is_stale_with_its_reason(self, made: MadeBy | None, why: str) -> None:
        about = {"version": "0.1.0", "git_commit": "0123456789abc", "git_dirty": True}
        assert Judge().why_stale(made_record(provenance=about, made_by=made)) == why

    def test_a_plug_in_that_is_not_here_is_named(self, tmp_path: Path) -> None:
        config = config_of("lsq")
        config["method"]["module"] = str(tmp_path / "gone.py")
        record = light_record(config, made_by=MadeBy(code="files 0"))
        why = Judge().why_stale(record)
        assert why is not None
        assert "made by code that is not here" in why
        assert "gone.py" in why

    def test_changed_files_are_named_and_missing_ones_passed_over(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("CFQ_BENCH_CACHE", str(tmp_path / "none"))
        folder = tmp_path / "data" / "adult"
        folder.mkdir(parents=True)
        for name in ("adult.data", "adult.test"):
            (folder / name).write_text(name)
        prints = data_prints("cfq_bench.data.adult", tmp_path / "data")
        assert set(prints) == {"adult/adult.data", "adult/adult.test"}
        config = config_of("lsq", "adult")
        record = light_record(config, made_by=MadeBy(code=code.run_code(config), data=prints))
        assert Judge(tmp_path / "data").why_stale(record) is None
        (folder / "adult.data").write_text("longer than before")
        why = "its data file adult/adult.data has changed since"
        assert Judge(tmp_path / "data").why_stale(record) == why
        monkeypatch.setenv("CFQ_BENCH_DATA", str(tmp_path / "data"))
        assert Judge().why_stale(record) == why
        (folder / "adult.data").unlink()
        assert Judge().why_stale(record) is None

    def test_a_folder_of_images_is_its_names_and_sizes(self, tmp_path: Path) -> None:
        folder = tmp_path / "celeba" / "celeba"
        (folder / "img_align_celeba").mkdir(parents=True)
        picture = folder / "img_align_celeba" / "000001.jpg"
        picture.write_bytes(b"pixels")
        for name in ("list_attr_celeba.txt", "list_eval_partition.txt"):
            (folder / name).write_text(name)
        prints = data_prints("cfq_bench.data.celeba", tmp_path)
        assert len(prints) == 3
        assert changed_file(prints, tmp_path) is None
        picture.with_name("000002.jpg").write_bytes(b"more")
        assert changed_file(prints, tmp_path) == "celeba/celeba/img_align_celeba"


class Home:
    """One's own method and data, in a folder with results; every call is a new process."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.results, self.method = folder, folder / "results", folder / "my.py"
        shutil.copy(LSQ, self.method)
        settings = (PACKAGE.parent / "conf" / "method" / "lsq.yaml").read_text(encoding="utf-8")
        text = settings.replace("cfq_bench.methods.lsq", "my.py")
        assert text != settings
        (folder / "my.yaml").write_text(text, encoding="utf-8")

    def call(self, *arguments: str | Path) -> Result:
        code.codebase.cache_clear()
        plugin.config_class.cache_clear()
        for name in [name for name in sys.modules if name.startswith("cfq_bench_plugin_")]:
            del sys.modules[name]
        return CliRunner().invoke(main, [str(argument) for argument in arguments])

    def run(self, *arguments: str | Path) -> Result:
        where = ("--results-dir", self.results, "--wandb", "disabled")
        done = self.call("run", "--method", self.folder / "my.yaml", *where, *SHORT, *arguments)
        assert done.exit_code == 0, done.output
        return done

    @property
    def record(self) -> Record:
        (record,) = RecordStore(self.results).all()
        return record


SHORT = (
    *("data.fit.epochs=1", "data.fit.teacher_epochs=8", "teacher.lr=5.0e-3"),
    *("evaluation.max_rows=10", "evaluation.exact_rows=0", "evaluation.extra_kappas=[]"),
)


@pytest.fixture
def home(tmp_path: Path) -> Iterator[Home]:
    yield Home(tmp_path)
    code.codebase.cache_clear()


def test_a_method_with_flipped_labels_is_run_again_and_one_with_a_comment_is_not(
    home: Home,
) -> None:
    data = ("--data", "german")
    home.run(*data)
    first = home.record
    with home.method.open("a") as file:
        file.write("\n# a comment\n")
    assert "answered from the record" in home.run(*data).stderr

    edit(home.method, *FLIP)
    taken = home.run(*data, "--accept-stale")
    assert "is stale, and taken: made by other code (cfq-bench" in taken.stderr
    assert home.record == first
    page = home.call("show", first.run_id, "--results-dir", home.results)
    assert "stale: made by other code" in page.stdout

    again = home.run(*data)
    assert "is stale, and run again: made by other code (cfq-bench" in again.stderr
    assert "--accept-stale takes it" in again.stderr
    assert len(again.stderr.strip().splitlines()) == 1
    assert home.record.run_id == first.run_id
    assert home.record.metrics["task/acc"] != first.metrics["task/acc"]
    assert "answered from the record" in home.run(*data).stderr


def test_a_changed_table_of_ones_own_is_run_again_with_the_file_named(home: Home) -> None:
    table = home.folder / "loans.csv"
    lines = [f"{20 + i},{'rent' if i % 3 else 'own'},{int(i > 60)}" for i in range(120)]
    table.write_text("\n".join(["income,home,paid", *lines]) + "\n")
    assert home.call("data", "init", table).exit_code == 0
    data = ("--data", home.folder / "loans.yaml")
    home.run(*data)
    table.write_text("\n".join(["income,home,paid", *lines[::-1]]) + "\n")
    again = home.run(*data)
    assert f"its data file {table} has changed since" in again.stderr
    assert "answered from the record" in home.run(*data).stderr


def test_code_that_is_edited_while_it_runs_answers_for_nothing(
    tree: Codebase, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(code, "codebase", lambda: tree)
    config = config_of("lsq", "german")
    begun = begin(config)
    assert made_by(config, begun, None).code == begun
    edit(tree.package / "methods" / "lsq.py", *FLIP)
    assert made_by(config, begun, None).code == EDITED
    assert begin(config) == begun  # this process goes on with what it has loaded
    assert made_by(config, begin(config), None).code == EDITED


def test_every_view_names_what_is_stale(tmp_path: Path) -> None:
    from cfq_bench.config.suite import expand, load_suite
    from cfq_bench.dashboard.index import RecordIndex
    from cfq_bench.dashboard.page import Selection, overview
    from cfq_bench.report.build import build_report
    from cfq_bench.report.compare import comparison
    from cfq_bench.results.collect import collect

    suite = load_suite("smoke")
    store, runs = RecordStore(tmp_path), expand(suite)
    for i, run in enumerate(runs):
        config = run.settings.model_dump(mode="json")
        made = MadeBy(code="files 0") if i == 0 else made_by_code(config)
        about = {"version": "0.0.9", "git_commit": "0123456789abc"}
        store.write(light_record(config, made_by=made, provenance=about), None)
    records, stale = store.all(), Judge().stale(store.all())
    assert list(stale) == [runs[0].run_id]
    line = (
        f"Stale, and no answers for this code and data: 1 of {len(runs)} records (made by other "
        "code (cfq-bench 0.0.9 at 0123456789))."
    )
    assert comparison(records, stale=stale).rstrip().endswith(line)
    assert "tale" not in comparison(records)
    report = build_report(suite, collect("smoke", runs, records), {}, stale=stale)
    assert line in report.state
    assert sum("Stale" in " ".join(table.notes) for table in report.cells) == 1
    made_note = "Made by: cfq-bench 0.0.9 at 0123456789"
    assert all(made_note in " ".join(table.notes) for table in report.tables)
    archived = build_report(suite, collect("smoke", runs, records), {})
    assert not any("tale" in words for words in archived.state)

    page = overview(RecordIndex(tmp_path).refresh(), Selection(), source="")
    assert page.count("<strong>stale</strong>: made by other code") == 1
    assert f'<p class="stale">{line}' in page
    done = CliRunner().invoke(main, ["compare", "--results-dir", str(tmp_path)])
    assert line in done.stdout
    done = CliRunner().invoke(main, ["results", "pack", "smoke", "--results-dir", str(tmp_path)])
    assert line in done.stderr


def test_a_dashboard_sees_code_and_data_that_change_while_it_is_shown(
    tree: Codebase, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from cfq_bench.dashboard.index import RecordIndex

    monkeypatch.setattr(code, "codebase", lambda: tree)
    config = config_of("lsq")
    record = light_record(config, made_by=MadeBy(code=code.run_code(config)))
    RecordStore(tmp_path).write(record, None)
    index = RecordIndex(tmp_path)
    first = index.refresh()
    assert first.stale == {}
    edit(tree.package / "methods" / "lsq.py", *FLIP)
    second = index.refresh()
    assert list(second.stale) == [record.run_id]
    assert second.version != first.version


def test_of_two_folders_the_fresh_record_is_kept(tmp_path: Path) -> None:
    from cfq_bench.record.merge import merge

    config = config_of("lsq", "german")
    old, new = RecordStore(tmp_path / "old"), RecordStore(tmp_path / "new")
    old.write(light_record(config, made_by=None, provenance={"utc": "2030"}), None)
    new.write(light_record(config, provenance={"utc": "2020"}), None)
    merged = merge([tmp_path / "new"], tmp_path / "old")
    assert merged.copied == 1
    assert "(not stale)" in merged.notes[0]
    assert merge([tmp_path / "new"], tmp_path / "old").same == 1
    assert Judge().stale(old.all()) == {}


def test_an_answer_is_asked_for_in_one_place(tmp_path: Path) -> None:
    store, config = RecordStore(tmp_path), config_of("lsq", "german")
    assert answering(store, config, None, False) == (None, None)
    store.write(light_record(config, made_by=None), None)
    record, line = answering(store, config, None, False)
    assert record is None
    assert line is not None
    assert "run again: made by a version that did not record its code" in line
    record, line = answering(store, config, None, True)
    assert record is not None
    assert line is not None
    failed = light_record(config, status="failed", reason="no", made_by=None)
    store.write(failed, None)
    assert answering(store, config, None, True) == (None, None)


def test_code_that_computes_an_entry_of_the_cache_is_part_of_its_key(
    tree: Codebase, monkeypatch: pytest.MonkeyPatch, make_context: Any
) -> None:
    from cfq_bench.teacher.keys import recourse_key, teacher_key

    context = make_context("fp32")

    def keys() -> list[object]:
        monkeypatch.setattr(code, "codebase", lambda: Codebase(tree.package, "1"))
        what = (context.settings, context.data, context.actions)
        where = (context.runtime.device, "cfq_bench.methods.base")
        return [teacher_key(*what), recourse_key(*what, *where)]

    first = keys()
    edit(tree.package / "methods" / "lsq.py", *FLIP)
    assert keys() == first
    edit(tree.package / "actions" / "search.py", "class ", "class My")
    second = keys()
    assert [a == b for a, b in zip(first, second, strict=True)] == [True, False]
    edit(tree.package / "training" / "trainer.py", "def ", "def _")
    assert all(a != b for a, b in zip(second, keys(), strict=True))


class Threads:
    """Workers of a suite as threads of this process; their runs take no time."""

    def __init__(self, plan: worker.Plan) -> None:
        self.plan, self.threads = plan, list[threading.Thread]()

    def start(self) -> None:
        self.threads.append(threading.Thread(target=worker.work, args=(self.plan,), daemon=True))
        self.threads[-1].start()

    def alive(self) -> int:
        return sum(thread.is_alive() for thread in self.threads)

    def ended(self) -> list[str]:
        return []

    def stop(self) -> None:
        for thread in self.threads:
            thread.join(20)
            assert not thread.is_alive(), "a worker did not end within 20 s"


class TestSuite:
    @pytest.fixture(autouse=True)
    def runs_take_no_time(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.results, self.answered = tmp_path / "results", list[str]()
        self.store = RecordStore(self.results)
        self.runs = light_runs(4)

        def answer(settings: Any, options: Any) -> None:
            record = light_record(settings.model_dump(mode="json"), seconds=0.2)
            options.publish(record, None, None, None)
            self.answered.append(record.run_id)

        fake: Any = types.ModuleType("cfq_bench.experiment")
        fake.Options, fake.answer = types.SimpleNamespace, answer
        monkeypatch.setitem(sys.modules, "cfq_bench.experiment", fake)
        monkeypatch.setattr(suites, "make_workers", lambda plan, _: Threads(plan))
        made: tuple[tuple[str, dict[str, Any]], ...] = (
            ("old", {"made_by": MadeBy(code="files 0")}),
            ("broken and old", {"made_by": None, "status": "failed", "reason": "no"}),
            ("fresh", {}),
        )
        for run, (_, changes) in zip(self.runs, made, strict=False):
            config = run.settings.model_dump(mode="json")
            self.store.write(light_record(config, **changes), None)
        self.ids = [run.run_id for run in self.runs]

    def suite(self, **changes: Any) -> tuple[Progress, list[Progress]]:
        told: list[Progress] = []
        options = SuiteOptions(
            results_dir=self.results, wandb="disabled", workers=2, executor="local", **changes
        )
        return run_suite(self.runs, options, told.append), told

    def test_stale_records_are_counted_and_replaced_once(self) -> None:
        state, told = self.suite()
        assert (told[0].stale, told[0].done, told[0].before, told[0].left) == (2, 1, 1, 3)
        assert told[0].why_stale is not None
        assert (state.stale, state.done, state.failed, state.left) == (0, 4, 0, 0)
        assert sorted(self.answered) == sorted([self.ids[0], self.ids[1], self.ids[3]])
        assert Judge().stale(self.store.all()) == {}
        assert self.suite()[0].before == 4
        assert len(self.answered) == 3
        assert [p.name for p in self.store.runs_dir.iterdir() if p.suffix != ".json"] == []

    def test_stale_records_are_taken_where_one_says_so(self) -> None:
        state, _ = self.suite(accept_stale=True)
        assert (state.stale, state.taken, state.done, state.failed) == (0, 2, 3, 1)
        assert self.answered == [self.ids[3]]

    def test_the_command_says_what_is_stale(self, tmp_path: Path) -> None:
        path = tmp_path / "light.yaml"
        path.write_text(
            "about: four runs\naxes: {data: [german], seed: [0, 1, 2, 3]}\n"
            "rows: [{label: LSQ, method: lsq}]\n"
        )
        where = ["--results-dir", str(self.results), "--wandb", "disabled", "--workers", "1"]
        listed = (
            CliRunner().invoke(main, ["suite", "--list", "--results-dir", str(self.results)]).stdout
        )
        assert "stale" in listed.splitlines()[0]
        done = CliRunner().invoke(main, ["suite", str(path), *where])
        assert done.exit_code == 0, done.output
        assert "light: 2 records are stale: made by" in done.stderr
        assert "1 were there before, 2 more were stale and are replaced" in done.stdout


def test_of_those_who_replace_a_stale_record_the_first_one_stays(tmp_path: Path) -> None:
    store, config = RecordStore(tmp_path), config_of("lsq", "german")
    old, first, second = (light_record(config, seconds=float(i)) for i in range(3))
    store.write(old, None)
    mark = store.mark(old.run_id)
    assert mark is not None
    assert not store.publish(first, None)
    assert store.publish(first, None, replaces=mark)
    assert not store.publish(second, None, replaces=mark)
    assert store.read(old.run_id) == first
    assert [path.name for path in store.runs_dir.iterdir()] == [f"{old.run_id}.json"]


def test_published_records_are_read_and_packed_as_they_are() -> None:
    path = RESULTS / "choices_images" / "records.jsonl.xz"
    archive = read_archive(path)
    assert pack(archive) == path.read_bytes()
    assert all("made_by" not in record.model_dump() for record in archive.records)


def test_a_record_says_what_made_it(tmp_path: Path) -> None:
    store, config = RecordStore(tmp_path), config_of("lsq", "german")
    made = made_by_code(config)
    assert made is not None
    assert made.code.startswith("files ")
    store.write(light_record(config, made_by=MadeBy(code=made.code, data={"a.csv": "0"})), None)
    (record,) = store.all()
    assert record.made_by == MadeBy(code=made.code, data={"a.csv": "0"})


def test_a_module_that_is_not_there_is_a_user_error(tree: Codebase) -> None:
    with pytest.raises(UserError, match=r"'cfq_bench\.methods\.none' does not exist"):
        tree.identity(RUN, ["cfq_bench.methods.none"])
