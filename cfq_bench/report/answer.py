"""The plain-language answer at a report's top: what holds, what does not, how sure."""

from collections.abc import Sequence
from dataclasses import dataclass

from cfq_bench.aggregate.comparisons import Compared, Comparison, Decision, distinct
from cfq_bench.aggregate.networks import Same, same_networks
from cfq_bench.aggregate.numbers import signed, written
from cfq_bench.aggregate.places import Setting
from cfq_bench.report.cells import interval_text
from cfq_bench.statistics.seeds import seeds_text

HOW = (
    "Each sentence is about the paired difference of the boundary error, row minus baseline at the "
    "same seeds, as a mean over data sets, with a 95 % interval over seeds: the hull of a "
    "bootstrap (also over people, where their rows were kept) and of Student's t. Lower: the "
    "interval is below 0, no data set is clearly above, and more data sets are below than not; "
    "higher is the mirror image. Mixed: data sets disagree. Clearly: the data set's own interval "
    "leaves out 0. Anything else is not decided, as everything is with one seed. Rows whose "
    "average bits differ from the baseline's by more than 5 % are not compared. p is of a "
    "two-sided sign test over data sets; with five data sets that all agree it is 0.06, the least "
    "possible. Nothing is corrected for the number of comparisons. Better means: VD, VD adverse "
    "and |CRG| all lower (or 0 on both sides), accuracy lower by at most 0.3 point, favourable "
    "drift within 1 point, by means over seeds."
)

_TITLES: dict[Decision, str] = {
    "lower": "Holds: boundary error lower than {baseline}'s",
    "higher": "Does not hold: boundary error higher than {baseline}'s",
    "mixed": "Mixed: data sets disagree",
    "not decided": "Not decided",
}
OTHER_BITS = "At other bits than {baseline}, not compared"
CONTROLS = "Controls in full precision, not compared"
SAME = "The same networks under two names"


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
    answers, compared_words = [], []
    for compared in settings:
        setting, every = compared.setting, compared.comparisons.values()
        rivals = [one for one in every if _is_rival(setting, one)]
        compared_words += [(setting, one) for one in rivals]
        grouped = [
            (title, [sentence(one) for one in rivals if one.decision == decision])
            for decision, title in _TITLES.items()
        ]
        others = [one for one in every if not one.comparable and not one.itself]
        controls = [one for one in others if setting.full_precision(one.row)]
        grouped += [
            (OTHER_BITS, [number(one) for one in others if one not in controls]),
            (CONTROLS, [number(one) for one in controls]),
        ]
        findings = [
            Finding(title.format(baseline=setting.baseline), sentences)
            for title, sentences in grouped
            if sentences
        ]
        if findings:
            answers.append(SettingAnswer(setting.title, findings))
    same = same_networks([compared.setting for compared in settings])
    if same:
        answers.append(SettingAnswer("", [Finding(SAME, [_same(one) for one in same])]))
    counted = [one for _, one in distinct(compared_words)]
    left_out = len(compared_words) - len(counted)
    return _summary(counted, left_out, [compared.setting for compared in settings]), answers


def _is_rival(setting: Setting, one: Comparison) -> bool:
    """Whether words may compare it: a quantized row at the baseline's bits, with other networks."""
    return one.comparable and not one.itself and not setting.full_precision(one.row)


def _summary(counted: Sequence[Comparison], left_out: int, settings: Sequence[Setting]) -> str:
    if not counted:
        return "No quantized row has a baseline at its bits to be compared with."
    names = list(dict.fromkeys(one.baseline for one in settings if one.baseline is not None))
    count = {name: sum(one.decision == name for one in counted) for name in _TITLES}
    plural = "1 comparison" if len(counted) == 1 else f"{len(counted)} comparisons"
    twice = (
        f" {left_out} more are of the same networks and are not counted twice." if left_out else ""
    )
    return (
        f"Of {plural} of a quantized row's boundary error with its baseline's at "
        f"the same bits ({', '.join(names)}), {count['lower']} are lower, {count['higher']} "
        f"higher, {count['mixed']} mixed, and {count['not decided']} not decided.{twice}"
    )


def sentence(one: Comparison) -> str:
    """One comparison in words, with how sure it is."""
    return f"{one.row}'s boundary error {_claim(one)} ({_how_sure(one)}). {_better(one)}"


def number(one: Comparison) -> str:
    """A difference without a verdict: of rows that are not compared."""
    ours, theirs = ("-" if bits is None else written(bits, "bits") for bits in one.bits)
    return f"{one.row} at {ours} bits ({one.baseline}: {theirs}): {_measured(one)}."


def _how_sure(one: Comparison) -> str:
    p_value = one.p_value
    test = "" if p_value is None else f", sign test over data sets p = {p_value:.2g}"
    return _measured(one) + test


def _measured(one: Comparison) -> str:
    mean, seeds = signed(one.difference.mean), seeds_text(one.difference.seeds)
    if one.difference.interval is None:
        return f"mean difference {mean}, one seed ({seeds}), hence no interval"
    return f"mean difference {mean}, 95 % interval {interval_text(one.difference)}, {seeds}"


def _claim(one: Comparison) -> str:
    data_sets = list(one.by_data)
    if len(data_sets) == 1:
        where = f"on {data_sets[0]}"
        if one.decision in ("lower", "higher"):
            return f"is {one.decision} than {one.baseline}'s {where}"
        return f"against {one.baseline}'s is {one.decision} {where}"
    total = len(data_sets)
    lower = [difference for difference in one.by_data.values() if difference.mean < 0]
    higher = [difference for difference in one.by_data.values() if difference.mean > 0]
    clear = {
        name: sum(difference.clear for difference in part)
        for name, part in (("lower", lower), ("higher", higher))
    }
    if one.decision in ("lower", "higher"):
        count = len(lower if one.decision == "lower" else higher)
        return (
            f"is {one.decision} than {one.baseline}'s on {count} of {total} data sets, clearly on "
            f"{clear[one.decision]}"
        )
    return (
        f"against {one.baseline}'s is {one.decision}: lower on {len(lower)} (clearly on "
        f"{clear['lower']}) and higher on {len(higher)} (clearly on {clear['higher']}) of {total} "
        "data sets"
    )


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


def _same(one: Same) -> str:
    (title, row), (other_title, other_row) = one.one, one.other
    where = f"on {', '.join(one.data)}"
    if title == other_title:
        before = f"{title}: " if title else ""
        return f"{before}{row} and {other_row} are the same networks {where}."
    return f"{row} ({title}) and {other_row} ({other_title}) are the same networks {where}."
