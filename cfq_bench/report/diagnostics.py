"""A record's tables of margins and protected groups, as lines of text."""

from collections.abc import Mapping, Sequence
from typing import Any

GROUP_LABELS = {
    "acc": "accuracy",
    "vd": "VD",
    "vd_adverse": "VD adverse",
    "boundary_error": "boundary error",
    "crg": "CRG",
    "crg_abs": "|CRG|",
}
MARGIN_LABELS = {
    "teacher": "margin on f",
    "quantized": "margin on f_q",
    "eps_hat": "eps_hat",
    "eps_linear": "eps linear",
}


def diagnostic_lines(details: Mapping[str, Any]) -> list[str]:
    """Both tables; nothing for a record that has none."""
    margins, groups = details.get("margins") or [], details.get("groups") or []
    return [*_margin_lines(margins), *_group_lines(groups)]


def _margin_lines(quantiles: Sequence[Mapping[str, Any]]) -> list[str]:
    """Rows are what is measured at the teacher's actions, columns are quantiles."""
    if not quantiles:
        return []
    head = "".join(f"{line['quantile']:>9.0%}" for line in quantiles)
    lines = ["", "logits at the teacher's actions, quantiles", f"  {'':<16}{head}"]
    for name, label in MARGIN_LABELS.items():
        cells = "".join(f"{_number(line[name], sign=''):>9}" for line in quantiles)
        lines.append(f"  {label:<16}{cells}")
    return lines


def _group_lines(values: Sequence[Mapping[str, Any]]) -> list[str]:
    """The groups of one attribute stand below each other, so that a gap is seen."""
    lines = ["", "protected groups, 95 % intervals"] if values else []
    width = max((len(value["group"]) for value in values), default=0)
    for attribute in dict.fromkeys(value["attribute"] for value in values):
        lines.append(f"  {attribute}")
        for metric, label in GROUP_LABELS.items():
            own = [v for v in values if (v["attribute"], v["metric"]) == (attribute, metric)]
            for i, value in enumerate(own):
                sign = "+" if metric == "crg" else ""
                cells = [_number(value[name], sign) for name in ("value", "low", "high")]
                interval = f"[{cells[1]}, {cells[2]}]"
                name = label if i == 0 else ""
                lines.append(
                    f"    {name:<14}  {value['group']:<{width}}  {cells[0]:>6}  {interval:<16}  "
                    f"n={value['count']}"
                )
    return lines


def _number(value: float | None, sign: str) -> str:
    return "-" if value is None else f"{value:{sign}.3f}"
