"""The benchmarks measure what they say: a peer sees our model, and nothing is downloaded."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd
import pytest
import torch

from benchmarks import adult, dice, memory, peak
from benchmarks.dice import AsDice
from cfq_bench.data.table import load_table
from tests.support.waiting import run_python

pytestmark = pytest.mark.slow

if TYPE_CHECKING:
    from cfq_bench.methods.base import Context


def test_a_peer_s_encoding_leads_to_the_same_model(make_context: Callable[..., Context]) -> None:
    context = make_context("fp32")
    settings = context.settings.data
    names = [n for n, f in settings.features.items() if f.kind in ("integer", "categorical")]
    rows = load_table(settings).frame
    numbers = [n for n in names if settings.features[n].kind == "integer"]
    # As DiCE encodes: min-max numbers, then one-hot columns of the categories that there are.
    span = rows[numbers].max() - rows[numbers].min()
    scaled = (rows[numbers] - rows[numbers].min()) / span
    hot = pd.get_dummies(rows[[n for n in names if n not in numbers]].astype(str))
    encoded = pd.concat([scaled, hot], axis=1)
    schema = context.data.schema
    skill = next(f for f in schema.features if f.kind == "ordinal")
    encoded[skill.name] = 2.0 / 3.0  # its ranks are the numbers 0 to 3
    ranks = rows.assign(**{skill.name: np.arange(len(rows)) % 4})
    peer = AsDice(context.teacher, schema, list(encoded.columns), ranks)
    chance = peer(torch.from_numpy(encoded.to_numpy(dtype=np.float32)))
    own = schema.encode(rows.assign(**{skill.name: skill.categories[2]}))
    expected = context.teacher(own).softmax(1)[:, 1:]
    assert torch.allclose(chance, expected, atol=1e-5)
    assert torch.allclose(peer(torch.from_numpy(encoded.iloc[0].to_numpy("f4"))), chance[0])


@pytest.mark.parametrize("topic", [adult, dice])
def test_without_the_raw_files_a_topic_is_skipped_with_a_line(
    topic: object, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.delenv("CFQ_BENCH_DATA", raising=False)
    assert list(topic.measure(1)) == []  # type: ignore[attr-defined]
    assert capsys.readouterr().err.startswith("skipped ")


def test_memory_is_of_all_rejected_rows(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    memory.main("solve", "german", tmp_path, [])
    told = json.loads(capsys.readouterr().out)
    assert 0 < told["rows"] < 300
    assert 0.0 < told["imported_mib"] <= told["loaded_mib"] <= told["done_mib"]


def test_memory_of_a_method_is_of_a_fresh_process(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    memory.main("ptq", "german", tmp_path, ["data.fit.teacher_epochs=1"])
    told = json.loads(capsys.readouterr().out)
    assert 0.0 < told["imported_mib"] <= told["loaded_mib"] <= told["done_mib"]
    stand_in = tmp_path / "python"  # an interpreter takes seconds to import torch
    stand_in.write_text('#!/bin/sh\necho "$@"\necho \'{"done_mib": 2.0}\'\n')
    stand_in.chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(stand_in))
    assert memory.peaks_of("ptq", "german", tmp_path) == {"done_mib": 2.0}
    monkeypatch.setattr(sys, "executable", "/bin/false")
    with pytest.raises(RuntimeError, match=r"/bin/false .* german .*failed"):
        memory.peaks_of("ptq", "german", tmp_path)


@pytest.mark.skipif(not peak.STATUS.is_file(), reason="the kernel tells nothing better")
def test_memory_of_the_parent_does_not_count() -> None:
    program = "from benchmarks.peak import peak_mib; print(peak_mib())"
    assert float(run_python(program)) < 64.0 < peak.peak_mib()
