"""The plain-language answer at a report's top: what holds, what does not, how sure."""

from collections.abc import Sequence
from dataclasses import dataclass

from cfq_bench.report.cells import interval_text, seeds_text, signed
from cfq_bench.report.comparisons import Compared, Comparison, Decision
from cfq_bench.report.places import Setting

HOW = (
    "Each sentence is about the paired difference of the boundary error, row minus baseline at the "
    "same seeds, as a mean over data sets, with a 95 % bootstrap interval over seeds (and over "
    "people, where their rows were kept). Where the interval includes 0, the sign is not decided. "
    "p is of a two-sided sign test over data sets; with five data sets that all agree it is 0.06, "
    'the least possible. Nothing is corrected for the number of comparisons. "Better" means: VD, '
    "VD adverse and |CRG| all lower (or 0 on both sides), accuracy lower by at most 0.3 point, "
    'favourable drift within 1 point, by means over seeds. "Clearly": the data set\'s own interval '
    "leaves out 0."
)

_TITLES: dict[Decision, str] = {
    "below": "Holds: boundary error below {baseline}'s",
    "above": "Does not hold: boundary error above {baseline}'s",
    "not decided": "Not decided",
}
CONTROLS = "Controls in full precision"


@dataclass(frozen=True)
class Finding:
    """Sentences under one heading of a setting."""

    title: str
    sentences: Sequence[str]


@dataclass(frozen=True)
class SettingAnswer:
    """What one setting's comparisons say.

    Attributes:
        title: the setting in words; empty where the suite has one alone.
        findings: what holds, what does not, what is not decided, controls; without empty ones.
    """

    title: str
    findings: Sequence[Finding]


def answer(settings: Sequence[Compared]) -> tuple[str, list[SettingAnswer]]:
    """A summary in one sentence, and the findings of every setting."""
    counts: dict[Decision, int] = dict.fromkeys(_TITLES, 0)
    answers = []
    for compared in settings:
        setting, every = compared.setting, compared.comparisons.values()
        rivals = [one for one in every if not setting.full_precision(one.row)]
        controls = [one for one in every if setting.full_precision(one.row)]
        findings = []
        for decision, title in _TITLES.items():
            these = [one for one in rivals if one.decision == decision]
            counts[decision] += len(these)
            if these:
                sentences = [sentence(one) for one in these]
                findings.append(Finding(title.format(baseline=setting.baseline), sentences))
        if controls:
            findings.append(Finding(CONTROLS, [sentence(one) for one in controls]))
        if findings:
            answers.append(SettingAnswer(setting.title, findings))
    return _summary(counts, [compared.setting for compared in settings]), answers


def _summary(counts: dict[Decision, int], settings: Sequence[Setting]) -> str:
    total = sum(counts.values())
    if total == 0:
        return "No quantized row has a baseline to be compared with."
    names = list(dict.fromkeys(one.baseline for one in settings if one.baseline is not None))
    return (
        f"Of {total} comparisons of a quantized row's boundary error with its baseline's "
        f"({', '.join(names)}), {counts['below']} are below, {counts['above']} above, and "
        f"{counts['not decided']} not decided."
    )


def sentence(one: Comparison) -> str:
    """One comparison in words, with how sure it is."""
    text = f"{one.row}'s boundary error {_claim(one)}"
    inside = [f"mean difference {signed(one.difference.mean)}"]
    if one.difference.interval is None:
        inside.append("one seed, hence no interval")
    else:
        inside.append(f"95 % interval {interval_text(one.difference)}")
    inside.append(seeds_text(one.difference.seeds))
    if one.p_value is not None:
        inside.append(f"sign test over data sets p = {one.p_value:.2g}")
    return f"{text} ({', '.join(inside)}). {_better(one)}"


def _claim(one: Comparison) -> str:
    data_sets = list(one.by_data)
    if len(data_sets) == 1:
        where = f"on {data_sets[0]}"
        return {
            "below": f"is below {one.baseline}'s {where}",
            "above": f"is above {one.baseline}'s {where}",
            "not decided": f"against {one.baseline}'s is not decided {where}",
        }[one.decision]
    total = len(data_sets)
    lower = sum(difference.mean < 0 for difference in one.by_data.values())
    higher = sum(difference.mean > 0 for difference in one.by_data.values())
    if one.decision == "not decided":
        return (
            f"against {one.baseline}'s is not decided: below on {lower} and above on {higher} "
            f"of {total} data sets"
        )
    same = [d for d in one.by_data.values() if (d.mean < 0) == (one.decision == "below")]
    count = lower if one.decision == "below" else higher
    clear = sum(difference.clear for difference in same)
    return f"is {one.decision} {one.baseline}'s on {count} of {total} data sets, clearly on {clear}"


def _better(one: Comparison) -> str:
    """The protocol's rule, and what stands against it."""
    against = {data: reasons for data, reasons in one.hindrances.items() if reasons}
    good = [data for data in one.hindrances if data not in against]
    if not against:
        return "Better by the protocol's rule" + (" on all of them." if len(good) > 1 else ".")
    why = "; ".join(f"{data}: {', '.join(reasons)}" for data, reasons in against.items())
    if not good:
        return f"Not better by the protocol's rule ({why})."
    return f"Better by the protocol's rule on {', '.join(good)}, not elsewhere ({why})."
