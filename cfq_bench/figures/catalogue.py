"""Every kind of figure. One is drawn where a suite's results have what it needs.

Of the paper's figures, 1 and 2 are diagrams. VD never stands alone: leniency lowers it, and its
twin shows that.
"""

from cfq_bench.figures.builders import (
    against_bits,
    against_setting,
    by_row,
    over_axis,
    teacher_over_axis,
)
from cfq_bench.figures.costs import overhead, robustness, training_time
from cfq_bench.figures.details import (
    BITS,
    GROUPS,
    MARGINS,
    SENSITIVITIES,
    by_group,
    layer_bits,
    margins,
    sensitivities,
)
from cfq_bench.figures.kinds import FigureKind, Needs
from cfq_bench.figures.sheets import PICTURES, contact_sheets
from cfq_bench.results.collect import Result

ERROR = "recourse/boundary_error"
VD = ("recourse/vd", "recourse/vd_adverse")
CRG = ("recourse/crg", "recourse/crg_abs")

_VD = (
    "VD: share of the teacher's actions that fail on the quantized model; VD adverse: the same for "
    "actions to the opposite class, which rises where a model only became lenient."
)
_CRG = "CRG: relative growth of the least cost of an action; |CRG|: its absolute value."
_ERROR = "Boundary error: (VD + VD adverse) / 2, lower is better."
_BANDS = "Lines: means over {seeds}; bands: 95 % intervals of the mean."
_BARS = "Bars: means over {seeds}; lines: 95 % intervals of the mean."
_ROOT = "The axis shows square roots, so that small errors are told apart."
_DOTS = "Marks: means over {seeds}; lines: 95 % intervals of the mean."

_PTQ = Needs(suites=("cf_ptq",), metrics=(*VD, *CRG))


def _is_quantized(result: Result) -> bool:
    bits = result.value("deploy/avg_bits")
    return bits is not None and bits < 32.0


def _is_table(result: Result) -> bool:
    return PICTURES not in result.record.details


def _is_on_grid(result: Result) -> bool:
    # Actions off the integer grid are others, to be compared among themselves.
    return bool(result.record.config["actions"].get("grid", True))


def _is_clean(result: Result) -> bool:
    return bool(result.record.config["method"].get("noise") == 0.0)


def _has_most_steps(result: Result) -> bool:
    # Noise is studied on the whole teacher, the paper's K = 3.
    return bool(result.record.config["method"].get("steps") == 3)


def _is_trained_for_recourse(result: Result) -> bool:
    return "eta" in result.record.config["method"]


FIGURES: tuple[FigureKind, ...] = (
    FigureKind(
        "headline",
        "Boundary error by method and bits",
        f"{_ERROR} WxAy: x average weight bits, y activation bits; "
        f"blocks: numeric and one-hot inputs are quantized apart. {_ROOT} {_DOTS}",
        by_row(ERROR, axis="budget", columns=3, square_root=True),
        Needs(suites=("headline",), axes=("budget",), metrics=(ERROR,), only=_is_on_grid),
    ),
    FigureKind(
        "boundary-error",
        "Boundary error by method",
        f"{_ERROR} {_ROOT} {_DOTS}",
        by_row(ERROR, columns=3, square_root=True),
        Needs(plain=True, metrics=(ERROR,)),
    ),
    FigureKind(
        "boundary-error-by-bits",
        "Boundary error against average weight bits",
        f"{_ERROR} {_BANDS}",
        against_bits(ERROR),
        Needs(axes=("budget",), numbers=True, metrics=(ERROR,)),
    ),
    FigureKind(
        "figure-03-04",
        "Figures 3 and 4: VD against average weight bits",
        f"{_VD} Upper axis: the same bits as a share of 32. {_BANDS}",
        against_bits(*VD),
        Needs(axes=("budget",), numbers=True, metrics=VD, only=_is_table),
    ),
    FigureKind(
        "figure-05",
        "Figure 5: CRG against average weight bits",
        f"{_CRG} {_BANDS}",
        against_bits(*CRG),
        Needs(axes=("budget",), numbers=True, metrics=CRG, only=_is_table),
    ),
    FigureKind(
        "figure-06-23",
        "Figures 6 and 23: VD by protected group",
        f"{_VD} Groups with too few rows behind a value have no bar. {_BARS}",
        by_group("vd", "vd_adverse"),
        Needs(suites=("subgroups",), details=(GROUPS,)),
    ),
    FigureKind(
        "figure-07",
        "Figure 7: margins at the teacher's actions",
        "Target margin at the teacher's actions, of the teacher and of each quantized model; the "
        "action fails left of 0. Thin line: 5 to 95 % of the actions; thick: 25 to 75 %; mark: "
        "median; each a mean over {seeds}.",
        margins,
        Needs(suites=("table3",), details=(MARGINS,)),
    ),
    FigureKind(
        "figure-08",
        "Figure 8: weight bits of every layer",
        f"Bits that each method gives to each layer, the same budget for all. {_BARS}",
        layer_bits,
        Needs(suites=("table3", "table7"), details=(BITS,), only=_is_quantized),
    ),
    FigureKind(
        "figure-09",
        "Figure 9: robust solver and CFQ, success against cost",
        "Share of fresh variants of the quantized model on which its own action works, against the "
        "growth of the action's cost over that on the teacher: up and left is better. A robust "
        f"solver changes the action, CFQ changes the model. {_DOTS}",
        robustness,
        Needs(axes=("kappa",), metrics=("robust/success", "recourse/crg")),
    ),
    FigureKind(
        "figure-10",
        "Figure 10: VD of post-training quantization",
        f"{_VD} {_DOTS}",
        by_row(*VD),
        _PTQ,
    ),
    FigureKind(
        "figure-11",
        "Figure 11: CRG of post-training quantization",
        f"{_CRG} {_DOTS}",
        by_row(*CRG),
        _PTQ,
    ),
    FigureKind(
        "figure-12",
        "Figure 12: VD against the time of fitting",
        f"{_VD} Time of fitting relative to the first PTQ row at the same seed, without the "
        f"teacher's cached actions. {_DOTS}",
        overhead,
        _PTQ,
    ),
    FigureKind(
        "figure-13",
        "Figure 13: sensitivity of the teacher's layers, factual and counterfactual",
        "Mean l1 norm of the loss gradient, at people with their labels and at the teacher's "
        f"recourse points with the target class; 1: the most sensitive layer. {_BARS}",
        sensitivities,
        Needs(suites=("cf_ptq", "table7"), details=(SENSITIVITIES,)),
    ),
    FigureKind(
        "figure-14",
        "Figure 14: VD and CRG against the steps of the teacher's actions",
        f"K: projected-gradient steps. {_VD} {_CRG} {_BANDS}",
        against_setting("steps", "steps K", *VD, *CRG),
        Needs(suites=("teacher_quality",), settings=("steps",), metrics=VD, only=_is_clean),
    ),
    FigureKind(
        "figure-15",
        "Figure 15: accuracy against the steps of the teacher's actions",
        f"K: projected-gradient steps. {_BANDS}",
        against_setting("steps", "steps K", "task/acc"),
        Needs(
            suites=("teacher_quality",), settings=("steps",), metrics=("task/acc",), only=_is_clean
        ),
    ),
    FigureKind(
        "figure-16",
        "Figure 16: VD and CRG against noise on the teacher's actions",
        f"sigma: standard deviation of the noise. {_VD} {_CRG} {_BANDS}",
        against_setting("noise", "noise sigma (standard deviations)", *VD, *CRG),
        Needs(suites=("teacher_quality",), settings=("noise",), metrics=VD, only=_has_most_steps),
    ),
    FigureKind(
        "figure-17",
        "Figure 17: time of training against the steps of the teacher's actions",
        "Time of fitting relative to QAT, which is CFQ without its term, at the same seed; K: "
        f"projected-gradient steps in every batch; cached: actions are found once. {_DOTS}",
        training_time,
        Needs(
            suites=("overhead",),
            settings=("steps", "eta"),
            metrics=("time/fit_s",),
            only=_is_trained_for_recourse,
        ),
    ),
    FigureKind(
        "figure-18",
        "Figure 18: VD by how much a person may change",
        f"{_VD} {_BARS}",
        over_axis("regime", *VD),
        Needs(axes=("regime",), metrics=VD, only=_is_quantized),
    ),
    FigureKind(
        "figure-19",
        "Figure 19: CRG by how much a person may change",
        f"{_CRG} {_BARS}",
        over_axis("regime", *CRG),
        Needs(axes=("regime",), metrics=CRG, only=_is_quantized),
    ),
    FigureKind(
        "figure-20",
        "Figure 20: feasible recourse by how much a person may change",
        f"FRR: share of rejected people with an action on the full-precision model. {_BARS}",
        teacher_over_axis("regime", "recourse/frr"),
        Needs(axes=("regime",), metrics=("recourse/frr",)),
    ),
    FigureKind(
        "figure-21",
        "Figure 21: VD on other distributions of people",
        f"{_VD} {_BARS}",
        over_axis("shift", *VD),
        Needs(axes=("shift",), metrics=VD, only=_is_quantized),
    ),
    FigureKind(
        "figure-22",
        "Figure 22: CRG on other distributions of people",
        f"{_CRG} {_BARS}",
        over_axis("shift", *CRG),
        Needs(axes=("shift",), metrics=CRG, only=_is_quantized),
    ),
    FigureKind(
        "figure-24",
        "Figure 24: CRG by protected group",
        f"{_CRG} Groups with too few rows behind a value have no bar. {_BARS}",
        by_group("crg", "crg_abs"),
        Needs(suites=("subgroups",), details=(GROUPS,)),
    ),
    FigureKind(
        "figure-25",
        "Figure 25: VD of image models against average weight bits",
        f"{_VD} Upper axis: the same bits as a share of 32. {_BANDS}",
        against_bits(*VD),
        Needs(axes=("budget",), numbers=True, metrics=VD, details=(PICTURES,)),
    ),
    FigureKind(
        "figure-26",
        "Figure 26: CRG of image models against average weight bits",
        f"{_CRG} {_BANDS}",
        against_bits(*CRG),
        Needs(axes=("budget",), numbers=True, metrics=CRG, details=(PICTURES,)),
    ),
    FigureKind(
        "pictures",
        "Images, counterfactuals under f and under each f_q, and what differs",
        "First line: the image, and as the autoencoder gives it back. Second: the counterfactual "
        "under f, and what it changes of that. Then, for each quantized model: its own "
        "counterfactual, and how it differs from f's (red: brighter, blue: darker; three times as "
        "strong). Red frame: f's counterfactual fails on this model. Grey: it has none. The first "
        "of the evaluated images, the same for all; the least seed.",
        contact_sheets,
        Needs(suites=("table30", "table30_full"), details=(PICTURES,), only=_is_quantized),
    ),
)
