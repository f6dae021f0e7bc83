"""Record files made up from real settings: many of them, with every kind of content."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import Any

import pandas as pd

from cfq_bench.config.loader import load_settings
from cfq_bench.record.record import Record, run_id
from cfq_bench.record.store import RecordStore

LAYERS = ("layer1", "layer2", "layer3")


def made_record(
    method: str = "lsq", seed: int = 0, error: float = 0.1, bits: float = 4.0, **changes: Any
) -> Record:
    """A finished record on COMPAS; `changes` replace fields of the record."""
    return record_of({**_config(method, bits), "seed": seed}, error, **changes)


@cache
def _config(method: str, bits: float) -> dict[str, Any]:
    settings = load_settings(method, "compas", overrides=[f"budget.avg_bits={bits}"])
    return settings.model_dump(mode="json")


def record_of(config: dict[str, Any], error: float = 0.1, **changes: Any) -> Record:
    bits = config["budget"]["avg_bits"]
    groups = [
        {"attribute": "sex", "group": group, "metric": metric, "value": value, "count": 30}
        | {"low": 0.0, "high": 1.0}
        for group, shift in (("Female", 0.0), ("Male", 0.05))
        for metric, value in (("acc", 0.7 + shift), ("vd", error + shift), ("crg", -shift))
    ]
    margins = [
        {"quantile": level, "teacher": 0.1, "quantized": level - error, "eps_hat": 0.2}
        for level in (0.05, 0.25, 0.5, 0.75, 0.95)
    ]
    fields: dict[str, Any] = {
        "status": "ok",
        "config": config,
        "metrics": {
            "task/acc": 0.68 + error / 100,
            "task/favourable_drift": error / 10 - 0.01,
            "recourse/vd": error,
            "recourse/vd_adverse": error / 2,
            "recourse/boundary_error": 0.75 * error,
            "recourse/crg": -error,
            "recourse/crg_abs": error,
            "recourse/lost": 0.0,
            "deploy/avg_bits": bits,
            "solver/gap_mean": None,
        },
        "counts": {"recourse/vd": 300},
        "details": {
            "deploy/bits_per_layer": dict.fromkeys(LAYERS, int(bits)),
            "deploy/activation_bits": dict.fromkeys(LAYERS, 8),
            "groups": groups,
            "margins": margins,
        },
        "provenance": {"version": "0.1.0", "utc": f"2026-12-01T00:00:{config['seed'] % 60:02d}"},
        "seconds": 1.0,
    }
    return Record(run_id=run_id(config), **(fields | changes))


def made_rows(broken: int, group: str = "Female") -> pd.DataFrame:
    """Per-row results of ten rows, `broken` of them with a margin below 0 on f_q."""
    margins = [-0.01 * (i + 1) if i < broken else 0.3 for i in range(10)]
    return pd.DataFrame(
        {
            "row_id": range(100, 110),
            "direction": "favourable",
            "status_f": "found",
            "cost_f": 1.0,
            "margin_f": 0.1,
            "margin_q": margins,
            "valid_q": pd.array([margin > 0 for margin in margins], dtype="boolean"),
            "changed_f": "priors_count",
            "status_q": "found",
            "cost_q": 1.5,
            "changed_q": "",
            "group_sex": group,
        }
    )


def write_many(results: Path, count: int, seeds: int = 5) -> None:
    """Many records at once: rows differ in their step size, tables in their budget."""
    store = RecordStore(results)
    store.runs_dir.mkdir(parents=True)
    methods = ("lsq", "kd_qat", "cfq", "cfq_distilled")
    plain = [load_settings(name, "compas").model_dump(mode="json") for name in methods]
    for i in range(count):
        config = json.loads(json.dumps(plain[i % len(methods)]))
        config["seed"] = i // len(methods) % seeds
        config["budget"]["avg_bits"] = 2.5 + (i // (seeds * len(methods)) % 10) * 0.5
        config["evaluation"]["kappa"] = 0.1 * (1 + i // (seeds * len(methods) * 10))
        record = record_of(config, 0.02 * (i % 7))
        store.path(record.run_id).write_text(record.to_json())
