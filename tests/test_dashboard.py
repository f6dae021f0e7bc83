"""The dashboard without a browser: numbers, labels, the live index, the server, the document."""

from __future__ import annotations

import http.client
import json
import re
import socket
import statistics
import time
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from cfq_bench.aggregate.labels import label
from cfq_bench.aggregate.numbers import spread_of, written
from cfq_bench.aggregate.runs import Run, read_run
from cfq_bench.aggregate.tables import tables
from cfq_bench.cli.main import main
from cfq_bench.config.loader import load_settings
from cfq_bench.dashboard.export import export
from cfq_bench.dashboard.index import RecordIndex
from cfq_bench.dashboard.page import Selection, overview
from cfq_bench.dashboard.payload import as_json
from cfq_bench.dashboard.server import Dashboard
from cfq_bench.dashboard.views import views
from cfq_bench.errors import UserError
from cfq_bench.record.record import Record
from cfq_bench.record.store import RecordStore
from tests.support.records import made_record, made_rows, record_of
from tests.support.waiting import serving

EVIL = "<script>alert('x')</script>"


@pytest.fixture
def results(tmp_path: Path) -> Path:
    """LSQ and CFQ at two budgets and three seeds; one of them failed, one has rows."""
    store = RecordStore(tmp_path)
    for i, (method, bits) in enumerate((m, b) for m in ("lsq", "cfq") for b in (3.5, 4.0)):
        for seed in range(3):
            rows = made_rows(3) if (method, bits, seed) == ("lsq", 4.0, 0) else None
            store.write(made_record(method, seed, 0.1 * (i + seed + 1), bits), rows)
    failed = made_record(
        "kd_qat", 0, status="failed", reason=f"RuntimeError: {EVIL}", metrics={}, details={}
    )
    store.write(failed, None)
    return tmp_path


def page_of(results: Path, **chosen: list[str]) -> str:
    return overview(RecordIndex(results).refresh(), Selection(chosen), source="Here.")


def cells(page: str, section: str) -> list[list[list[str]]]:
    """Texts of the tables of one section: tables, lines, cells."""
    part = page.split(f'data-view="{section}"')[1].split("</section>")[0]
    found = []
    for table in part.split("<table>")[1:]:
        lines = re.findall(r"<tr>(.*?)</tr>", table, flags=re.S)
        texts = [re.findall(r"<t[hd][^>]*>(.*?)</t[hd]>", line, flags=re.S) for line in lines]
        found.append([[re.sub(r"<[^>]+>", "", text).strip() for text in line] for line in texts])
    return found


def test_means_and_spreads_are_those_of_the_records(results: Path) -> None:
    page = page_of(results)
    first, second = cells(page, "comparison")
    assert first[0][0:4] == ["method", "seeds", "accuracy ↑ (higher is better)", "drift"]
    values = [0.75 * 0.1 * (1 + seed + 1) for seed in range(3)]  # LSQ at 4 bits
    expected = f"{statistics.mean(values):.3f} ± {statistics.stdev(values):.3f}"
    place = first[0].index("boundary error ↓ (lower is better)")
    lsq, cfq = second[1], second[2]
    assert (lsq[0], lsq[1], lsq[place]) == ("lsq", "3", expected)
    assert (lsq[-1], cfq[0], cfq[-1]) == ("-", "cfq", "+0.150 ± 0.000")


def test_vd_never_stands_alone(results: Path) -> None:
    heads = " ".join(cells(page_of(results), "comparison")[0][0])
    for beside in ("VD adverse", "boundary error", "drift", "|CRG|", "accuracy", "lost", "bits"):
        assert beside in heads


def test_an_unfinished_row_says_which_seeds_it_has(results: Path) -> None:
    RecordStore(results).write(made_record("pact", 1, 0.2, 4.0), None)
    lines = cells(page_of(results), "comparison")[1]
    assert [line[0] for line in lines[1:]] == ["lsq", "pact own seeds: 1", "cfq"]


@pytest.mark.parametrize(
    ("values", "form", "text"),
    [
        ([], "rate", "-"),
        ([None], "rate", "-"),
        ([0.5], "rate", "0.500"),
        ([0.1, None, 0.3], "signed", "+0.200 ± 0.141 (2)"),
        ([3.375, 3.375], "bits", "3.38 ± 0.00"),
    ],
)
def test_a_spread_as_text(values: list[float | None], form: Any, text: str) -> None:
    assert spread_of(values, form, len(values)) == text


def test_numbers_are_written_as_elsewhere() -> None:
    assert [written(v, "rate") for v in (0.0625, 0.1875)] == ["0.062", "0.188"]


def test_filters_leave_what_they_say(results: Path) -> None:
    page = page_of(results, budget=["4"], seed=["0", "2"])
    (table,) = cells(page, "comparison")
    assert [line[1] for line in table[1:]] == ["2", "2"]
    assert "5 of 13 runs shown" in page
    assert re.search(r'name="seed" value="2" checked', page)


def test_groups_margins_and_bits_have_their_tables(results: Path) -> None:
    page = page_of(results)
    groups = cells(page, "groups")[0]
    assert groups[0][:3] == ["method", "group", "seeds"]
    assert [line[1] for line in groups[1:3]] == ["sex: Female", "sex: Male"]
    assert groups[1][3].startswith("0.700 ±")
    bits = cells(page, "bits")[1]
    assert bits[0][2:] == ["layer1", "layer2", "layer3", "bits ↓ (lower is better)"]
    assert bits[1][2] == "4.00 ± 0.00"
    assert cells(page, "margins")[0][0][2:4] == ["5 %", "25 %"]
    assert "No finished run here has these numbers." in page  # no worst groups in these records


def test_rows_that_differ_in_settings_have_labels_that_say_so(tmp_path: Path) -> None:
    store = RecordStore(tmp_path)
    for overrides in (["seed=0"], ["seed=1"], ["seed=0", "training.lr=3.0e-4"]):
        settings = load_settings("lsq", "compas", overrides=overrides)
        store.write(record_of(settings.model_dump(mode="json")), None)
    labels = label(RecordIndex(tmp_path).refresh().runs)
    assert labels.order == ["lsq", "lsq (lr=0.0003)"]


def run_of(method: str, *overrides: str, **allocator: Any) -> Run:
    config = load_settings(method, "compas", overrides=list(overrides)).model_dump(mode="json")
    config["allocator"] = {**config["allocator"], **allocator}
    record = record_of(config)
    return read_run(record.model_dump(mode="json"), record.run_id)


def test_a_label_means_the_same_in_every_table() -> None:
    """The packaged row is the usual one everywhere, whatever most runs of a table are."""
    other = [run_of("kd_qat", "method.epoch_factor=2", f"seed={seed}") for seed in range(3)]
    runs = [*other, run_of("kd_qat", "budget.avg_bits=4")]
    labels = label(runs)
    assert [labels.row(run) for run in runs] == ["kd_qat (epoch_factor=2.0)"] * 3 + ["kd_qat"]
    assert label(other).order == ["kd_qat"]  # alone it needs no more words


def test_allocators_that_follow_from_the_budget_are_no_other_row() -> None:
    runs = [run_of("lsq", f"budget.avg_bits={bits}") for bits in (3.5, 4)]
    assert runs[0].row != runs[1].row
    assert label(runs).order == ["lsq"]
    told_apart = [run_of("mixed_haq", rounds=1), run_of("mixed_haq", "budget.avg_bits=3", rounds=2)]
    found = label(told_apart)
    assert len({found.row(run) for run in told_apart}) == 2
    assert any("allocator.rounds=" in text for text in found.order)
    in_one_table = [run_of("lsq", name="a"), run_of("lsq", name="b")]
    assert sorted(label(in_one_table).order) in (
        ["lsq", "lsq (allocator=a)"],
        ["lsq", "lsq (allocator=b)"],
    )


def test_tables_that_share_their_words_are_told_apart(tmp_path: Path) -> None:
    store = RecordStore(tmp_path)
    for override in ("evaluation.kappa=0.1", "evaluation.kappa=0.2"):
        settings = load_settings("lsq", "compas", overrides=[override])
        store.write(record_of(settings.model_dump(mode="json")), None)
    titles = list(label(RecordIndex(tmp_path).refresh().runs).tables.values())
    assert len(set(titles)) == 2
    assert [re.search(r", kappa (0\.\d)$", title).group(1) for title in titles] == ["0.1", "0.2"]


def test_records_of_another_version_are_shown_as_far_as_they_go(results: Path) -> None:
    """Unknown keys, missing settings, missing metrics: none of it hides a run."""
    old: dict[str, Any] = {
        "run_id": "feedfeedfeedfeed",
        "status": "ok",
        "config": {"seed": 7, "method": {"name": "ancient"}, "data": {"name": "compas"}},
        "metrics": {"task/acc": 0.5, "some/metric": 1.0, "odd": "text"},
        "news": 1,
    }
    (results / "runs" / "feedfeedfeedfeed.json").write_text(json.dumps(old))
    page = page_of(results)
    (table,) = (t for t in cells(page, "comparison") if t[1][0] == "ancient")
    assert table[1][2:4] == ["0.500", "-"]
    html = export_text(results)
    assert "some/metric" in html


def export_text(results: Path) -> str:
    path = results / "page.html"
    export(results, path)
    return path.read_text(encoding="utf-8")


def test_files_that_are_no_records_are_named_and_harm_nothing(results: Path) -> None:
    (results / "runs" / "cut.json").write_text('{"run_id": "cu')
    (results / "runs" / "list.json").write_text("[1]")
    other = next(iter(results.glob("runs/*.json"))).read_text()
    (results / "runs" / "copied.json").write_text(other)
    page = page_of(results)
    for name in ("cut.json", "list.json: this is no run record", "copied.json: it holds the"):
        assert name in page
    assert len(cells(page, "comparison")) == 2


def test_an_empty_folder_is_a_page(tmp_path: Path) -> None:
    assert "0 of 0 runs shown" in page_of(tmp_path / "nothing")


def test_only_what_is_new_is_read_again(results: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    index = RecordIndex(results)
    read: list[str] = []
    plain = RecordIndex._read
    monkeypatch.setattr(
        RecordIndex, "_read", lambda self, name: (read.append(name), plain(self, name))[1]
    )
    first = index.refresh()
    assert len(read) == 13
    assert index.refresh() == first
    assert len(read) == 13
    new = made_record("pact", 0)
    RecordStore(results).write(new, None)
    second = index.refresh()
    assert (second.version != first.version, len(second.runs), read[13:]) == (
        True,
        14,
        [new.run_id],
    )
    RecordStore(results).write(made_record("pact", 0, error=0.3), None)  # --force
    third = index.refresh()
    assert read[13:] == [new.run_id, new.run_id]
    (run,) = (run for run in third.runs if run.run_id == new.run_id)
    assert run.values["recourse/vd"] == 0.3
    (results / "runs" / f"{new.run_id}.json").unlink()
    assert len(index.refresh().runs) == 13


class Elements(HTMLParser):
    """Addresses that a document loads, ids, and how its elements are described."""

    def __init__(self) -> None:
        super().__init__()
        self.ids: list[str] = []
        self.loads: list[str] = []
        self.handlers: list[str] = []
        self.scripts = 0
        self.tables, self.captions = 0, 0

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = dict(attrs)
        self.ids += [given["id"] or ""] if "id" in given else []
        self.handlers += [name for name in given if name.startswith("on") or name == "style"]
        self.loads += [given[name] or "" for name in ("src", "srcset", "data") if name in given]
        if tag == "link":
            self.loads.append(given.get("href") or "")
        self.scripts += tag == "script"
        self.tables += tag == "table"
        self.captions += tag == "caption"


def test_the_document_is_whole_and_loads_nothing(results: Path) -> None:
    html = export_text(results)
    found = Elements()
    found.feed(html)
    assert found.loads == ["data:,"]
    assert found.handlers == []
    assert len(found.ids) == len(set(found.ids))
    assert found.tables == found.captions > 10
    assert "http://" not in html.replace("http://www.w3.org/2000/svg", "")
    assert "https://" not in html


def test_names_from_users_tables_are_text(tmp_path: Path) -> None:
    config = load_settings("lsq", "compas").model_dump(mode="json")
    config["data"]["name"] = config["method"]["name"] = EVIL
    config["actions"]["name"] = "</script><b>"
    details = {
        "deploy/bits_per_layer": {EVIL: 4},
        "groups": [{"attribute": EVIL, "group": EVIL, "metric": "vd", "value": 0.1}],
    }
    record: Record = record_of(config, details=details)
    RecordStore(tmp_path).write(record, made_rows(2, group=EVIL))
    html = export_text(tmp_path)
    assert EVIL not in html
    assert "alert(" in html
    found = Elements()
    found.feed(html)
    assert found.scripts == 2  # the data and the script


def test_json_in_a_script_element_cannot_end_it() -> None:
    text = as_json({"a": "</script><!--\u2028&"})
    assert not set("<>&\u2028") & set(text)
    assert json.loads(text) == {"a": "</script><!--\u2028&"}


def test_a_run_s_page_lists_the_rows_that_broke(results: Path) -> None:
    run_id = made_record("lsq", 0, 0.2, 4.0).run_id
    article = export_text(results).split(f'id="run-{run_id}"')[1].split("</section>")[0]
    assert "Rows that broke: 3 of 10." in article
    rows = re.findall(r'<th scope="row">(1\d\d)</th>', article)
    assert rows == ["102", "101", "100"]  # the clearest failure first
    assert "avg_bits: 4.0" in article
    other = made_record("lsq", 1, 0.3, 4.0).run_id
    assert f"run {other} has no per-row results" in export_text(results)


def test_the_training_s_history_is_kept_and_shown(
    tmp_path: Path, cache_dir: Path, short_overrides: list[str]
) -> None:
    from cfq_bench.experiment import Options, run

    settings = load_settings("lsq", "german", overrides=[*short_overrides, "training.log_every=1"])
    record = run(settings, Options(tmp_path, cache_dir, wandb="disabled"))
    history = RecordStore(tmp_path).read_history(record.run_id)
    ((name, points),) = history.items()
    steps = [step for step, _ in points]
    assert steps == sorted(steps)
    assert len(steps) > 2
    html = export_text(tmp_path)
    assert f"Training: {name}" in html
    assert "figure data-chart=" in html


def test_a_long_history_is_thinned_per_quantity() -> None:
    from cfq_bench.training.history import MOST_POINTS, History

    history = History()
    assert history.frame() is None
    for step in range(3 * MOST_POINTS):
        history.log_metrics({"fit/loss": float(step), "epoch": 0.0}, step)
    history.log_metrics({"search/expected_bits": 4.0}, 0)
    frame = history.frame()
    assert frame is not None
    assert list(frame.columns) == ["name", "step", "value"]
    kept = frame[frame["name"] == "fit/loss"]["step"].tolist()
    assert kept == list(range(0, 3 * MOST_POINTS, 3))
    assert (frame["name"] == "search/expected_bits").sum() == 1


@pytest.fixture
def served(results: Path) -> Iterator[Dashboard]:
    with Dashboard(results, 0) as server, serving(server):
        yield server


def ask(
    server: Dashboard, path: str, host: str | None = None, method: str = "GET"
) -> tuple[http.client.HTTPResponse, str]:
    connection = http.client.HTTPConnection("127.0.0.1", server.server_port, timeout=10)
    connection.request(method, path, headers={} if host is None else {"Host": host})
    answer = connection.getresponse()
    return answer, answer.read().decode()


def test_the_server_answers_this_machine_alone(served: Dashboard) -> None:
    assert served.server_address[0] == "127.0.0.1"
    answer, page = ask(served, "/?data=compas&seed=1")
    assert (answer.status, "4 of 13 runs shown" in page) == (200, True)
    policy = answer.headers["Content-Security-Policy"]
    assert policy.startswith("default-src 'none'")
    assert "unsafe" not in policy
    for host in ("evil.example", f"evil.example:{served.server_port}", "127.0.0.1:1", ""):
        assert ask(served, "/", host)[0].status == 421
    assert ask(served, "/", f"localhost:{served.server_port}")[0].status == 200
    assert ask(served, "/", method="POST")[0].status == 501


@pytest.mark.parametrize(
    "path", ["/nothing", "/run/", "/run/abc", "/run/../../etc/passwd", "/run/%2e%2e%2fx"]
)
def test_what_is_not_there_is_not_found(served: Dashboard, path: str) -> None:
    assert ask(served, path)[0].status == 404


def test_a_run_is_served_as_a_page_of_its_own(served: Dashboard) -> None:
    run_id = made_record("lsq", 0, 0.2, 4.0).run_id
    answer, page = ask(served, f"/run/{run_id}")
    assert answer.status == 200
    assert "<h1>lsq on compas (mlp2, 4 bits, seed 0)</h1>" in page
    assert "Rows that broke: 3 of 10." in page


def test_the_version_changes_with_the_records(served: Dashboard, results: Path) -> None:
    first, again = ask(served, "/version")[1], ask(served, "/version")[1]
    assert first == again
    RecordStore(results).write(made_record("pact", 0), None)
    assert ask(served, "/version")[1] != first
    assert "14 of 14 runs" in ask(served, "/")[1]


def test_a_taken_port_is_one_line(served: Dashboard, results: Path) -> None:
    with pytest.raises(UserError, match=f"port {served.server_port} cannot be used"):
        Dashboard(results, served.server_port)


@pytest.fixture
def hasty(tmp_path: Path) -> Iterator[Dashboard]:
    """A server of no records that waits a fifth of a second."""
    with Dashboard(tmp_path, 0, patience_s=0.2) as server, serving(server):
        yield server


def connected(server: Dashboard) -> socket.socket:
    return socket.create_connection(("127.0.0.1", server.server_port), timeout=10)


def is_closed(connection: socket.socket) -> bool:
    """Whether the server closes it, after whatever it says; a test that waits 10 s fails."""
    try:
        while connection.recv(4096):
            continue
    except ConnectionError:
        return True
    return True


def test_idle_connections_are_closed_and_hold_nobody_up(hasty: Dashboard) -> None:
    idle = [connected(hasty) for _ in range(60)]
    answer, _ = ask(hasty, "/")
    assert answer.status == 200
    assert all(map(is_closed, idle))
    for connection in idle:
        connection.close()


def test_a_connection_is_closed_after_its_last_request(hasty: Dashboard) -> None:
    with connected(hasty) as connection:
        host = f"127.0.0.1:{hasty.server_port}"
        connection.sendall(f"GET /version HTTP/1.1\r\nHost: {host}\r\n\r\n".encode())
        assert connection.recv(12) == b"HTTP/1.1 200"
        assert is_closed(connection)


@pytest.mark.parametrize("begin", [b"", b"GET / HTTP/1.1\r\nHost: "])
def test_a_request_that_comes_letter_by_letter_is_not_waited_for(
    hasty: Dashboard, begin: bytes
) -> None:
    start = time.monotonic()
    with connected(hasty) as connection:
        connection.sendall(begin)
        try:
            while time.monotonic() - start < 10.0:
                connection.sendall(b"x")
                time.sleep(0.02)
        except ConnectionError:
            pass
    assert time.monotonic() - start < 5.0


@pytest.mark.parametrize(
    ("head", "status"),
    [
        (b"GET /" + b"x" * 70_000 + b" HTTP/1.1", 414),
        (b"GET / HTTP/1.1\r\n" + b"X: y\r\n" * 200, 431),
        (b"POST / HTTP/1.1\r\nContent-Length: 3", 501),
        (b"GET / HTTP/9.9", 505),
        (b"\x16\x03\x01 nonsense of TLS", 400),
        (b"GET /../../etc/passwd HTTP/1.1", 404),
        (b"GET /run/../../x HTTP/1.1", 404),
        (b"GET /run/%00 HTTP/1.1", 404),
        (b"GET //evil.example/ HTTP/1.1", 404),
    ],
)
def test_odd_requests_have_an_answer(
    hasty: Dashboard, head: bytes, status: int, capfd: pytest.CaptureFixture[str]
) -> None:
    with connected(hasty) as connection:
        host = f"Host: 127.0.0.1:{hasty.server_port}".encode()
        connection.sendall(head + b"\r\n" + host + b"\r\n\r\n")
        said = connection.recv(4096)
    # To what is no HTTP/1 the answer has no status line either.
    assert re.search(rb"^HTTP/1\.1 %d |Error code: %d<" % (status, status), said), said[:300]
    assert capfd.readouterr().err == ""


def test_a_head_has_no_body(served: Dashboard) -> None:
    for path, status in (("/", 200), ("/nowhere", 404)):
        answer, body = ask(served, path, method="HEAD")
        assert (answer.status, body) == (status, "")
        assert int(answer.headers["Content-Length"]) > 0


def test_the_command_exports(results: Path) -> None:
    path = results / "a" / "page.html"
    command = ["dashboard", "--results-dir", str(results), "--export", str(path)]
    done = CliRunner().invoke(main, command)
    assert (done.exit_code, done.output) == (0, f"wrote {path}: 13 runs\n")
    first = path.read_bytes()
    CliRunner().invoke(main, command)
    # Equal but for the version, which tells one process's index from another's.
    assert re.sub(rb'"version":"[^"]*"', b"", path.read_bytes()) == re.sub(
        rb'"version":"[^"]*"', b"", first
    )


def test_every_view_has_a_table_for_each_setting_that_has_its_numbers(results: Path) -> None:
    snapshot = RecordIndex(results).refresh()
    labels = label(snapshot.runs)
    count = {v.name: len(tables(snapshot.runs, labels, v)) for v in views(snapshot.runs)}
    assert count == {"comparison": 2, "bits": 2, "margins": 2, "groups": 2, "gaps": 0}
