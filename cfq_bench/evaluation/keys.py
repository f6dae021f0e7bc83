"""The keys of a record's metrics: what they mean and which direction is better.

Keys are constant; no part of a key depends on the data.
"""

from dataclasses import dataclass


@dataclass(frozen=True)
class MetricInfo:
    """How to read one metric."""

    label: str
    """Short name for table heads."""
    about: str
    higher_is_better: bool | None
    """None where neither direction is better by itself."""


METRICS: dict[str, MetricInfo] = {
    "task/acc": MetricInfo("accuracy", "accuracy of f_q on the test split", True),
    "task/agreement": MetricInfo("agreement", "share of test rows with f_q(x) = f(x)", True),
    "task/favourable_drift": MetricInfo(
        "drift", "growth of the favourable rate over the test split", None
    ),
    "recourse/frr": MetricInfo("FRR", "share of rejected rows with an action on f", True),
    "recourse/vd": MetricInfo("VD", "share of teacher actions that fail on f_q", False),
    "recourse/vd_adverse": MetricInfo(
        "VD adverse", "share of actions to the opposite class that fail on f_q", False
    ),
    "recourse/boundary_error": MetricInfo(
        "boundary error", "(VD + VD adverse) / 2: leniency cannot lower it", False
    ),
    "recourse/crg": MetricInfo("CRG", "mean relative growth of the minimal cost", None),
    "recourse/crg_median": MetricInfo("CRG median", "its median", None),
    "recourse/crg_abs": MetricInfo("|CRG|", "mean absolute relative change of cost", False),
    "recourse/crg_all": MetricInfo(
        "CRG all", "the paper's reading: rows that f_q accepts count as -1", None
    ),
    "recourse/lost": MetricInfo("lost", "share solved on f and not on f_q", False),
    "recourse/free": MetricInfo("free", "share that f_q accepts without any action", None),
    "recourse/dirsim": MetricInfo("DirSim", "mean cosine of both actions", True),
    "recourse/act_overlap": MetricInfo("overlap", "mean Jaccard overlap of changed features", True),
    "action/cost_f": MetricInfo("cost f", "mean cost of the teacher's actions, rows of CRG", None),
    "action/cost_q": MetricInfo("cost f_q", "mean cost of f_q's actions, the same rows", False),
    "action/norm_f": MetricInfo(
        "norm f", "mean length of the teacher's actions in latent space", None
    ),
    "action/norm_q": MetricInfo("norm f_q", "the same of f_q's actions", False),
    "action/consistency_f": MetricInfo(
        "consistency f",
        "mean cosine of a latent and what its image is encoded to, f's actions",
        None,
    ),
    "action/consistency_q": MetricInfo("consistency f_q", "the same of f_q's actions", True),
    "action/reconstruction_free": MetricInfo(
        "free by D(E(x))", "share of rejected images whose reconstruction f accepts", None
    ),
    "action/reconstruction_free_adverse": MetricInfo(
        "adverse free by D(E(x))", "share of accepted images whose reconstruction f rejects", None
    ),
    "action/reconstruction_mse": MetricInfo(
        "reconstruction", "mean squared error of a pixel in [0, 1], evaluated images", False
    ),
    "action/reconstruction_agreement": MetricInfo(
        "agree D(E(x))", "share of evaluated images with f(D(E(x))) = f(x)", True
    ),
    "certificate/backend": MetricInfo(
        "backend", "share of actions that hold on f_q on every backend (proved)", True
    ),
    "certificate/box_verified": MetricInfo(
        "box verified", "share whose changed numbers may all be a little off (proved)", True
    ),
    "certificate/box_refuted": MetricInfo("box refuted", "share with a point that fails", False),
    "certificate/box_undecided": MetricInfo("box undecided", "share with neither", None),
    "certificate/teacher": MetricInfo(
        "rounded 8b", "share that the teacher keeps if rounded to nearest, 8 bits (proved)", True
    ),
    "certificate/teacher_any": MetricInfo(
        "rounded any", "the same for any rounding: stochastic, floor, ceiling (proved)", True
    ),
    "certificate/teacher_bits_median": MetricInfo(
        "proved bits", "fewest bits proved for rounding to nearest, median; 11: over 10", False
    ),
    "certificate/l3": MetricInfo("L.3", "share that the paper's bound proves, 8 bits", True),
    "certificate/stable": MetricInfo(
        "stable 4b", "share that survive 100 random 4-bit roundings (an attack, no proof)", True
    ),
    "robust/nominal_success": MetricInfo(
        "nominal success", "share of rows that f and f_q reject with an action on f_q", True
    ),
    "robust/success": MetricInfo(
        "robust success", "mean share of f_q's fresh variants on which that action works", True
    ),
    "robust/worst_success": MetricInfo(
        "worst success", "share of rows whose action works on all of them", True
    ),
    "robust/cost_ratio": MetricInfo(
        "cost ratio", "mean cost over the standard solver's, rows solved by both", False
    ),
    "robust/time_ratio": MetricInfo(
        "time ratio", "seconds over the standard solver's, same process and rows", False
    ),
    "margin/safe_fraction": MetricInfo(
        "safe", "share of teacher actions with m_f > 2 eps_hat, each its own", True
    ),
    "margin/failure_inside": MetricInfo(
        "failure inside", "VD of these: 0 by arithmetic, a check of the code", False
    ),
    "margin/failure_outside": MetricInfo("failure outside", "VD of the others", False),
    "margin/safe_fraction_q95": MetricInfo(
        "safe q95", "share with m_f > 2 eps, eps the 95th percentile of eps_hat for all", True
    ),
    "margin/failure_inside_q95": MetricInfo("inside q95", "VD of these", False),
    "margin/failure_outside_q95": MetricInfo("outside q95", "VD of the others", False),
    "margin/eps_hat_q95": MetricInfo(
        "eps_hat q95", "largest change of a logit seen around an action, 95th percentile", False
    ),
    "margin/eps_hat_max": MetricInfo("eps_hat max", "the same, largest", False),
    "margin/eps_linear_q95": MetricInfo(
        "eps linear q95", "the same by first-order expansion, 95th percentile", False
    ),
    "group/acc_gap": MetricInfo(
        "accuracy gap", "largest gap in accuracy between groups of one attribute", False
    ),
    "group/vd_worst": MetricInfo("VD worst", "VD of the worst protected group", False),
    "group/vd_gap": MetricInfo("VD gap", "largest gap in VD", False),
    "group/boundary_error_worst": MetricInfo(
        "error worst", "boundary error of the worst group", False
    ),
    "group/boundary_error_gap": MetricInfo("error gap", "largest gap in boundary error", False),
    "group/crg_worst": MetricInfo("CRG worst", "CRG of the group that it is greatest for", None),
    "group/crg_gap": MetricInfo("CRG gap", "largest gap in CRG", False),
    "deploy/avg_bits": MetricInfo("bits", "average weight bits", False),
    "deploy/normalized_budget": MetricInfo("budget", "average weight bits / 32", False),
    "deploy/bops": MetricInfo("BOPs", "bit operations of one row", False),
    "deploy/sparsity": MetricInfo("sparsity", "share of the weights removed by pruning", None),
    "time/fit_s": MetricInfo("fit s", "seconds of fitting", False),
    "time/teacher_actions_s": MetricInfo("actions s", "seconds of teacher actions", False),
    "time/solve_s": MetricInfo("solve s", "seconds of the solver on f_q", False),
    "time/eval_s": MetricInfo("eval s", "seconds of evaluation", False),
    "time/certificates_s": MetricInfo("proofs s", "seconds of certificates", False),
    "solver/gap_mean": MetricInfo("gap", "solver cost over the exact optimum, mean", False),
    "solver/gap_p90": MetricInfo("gap p90", "the same, 90th percentile", False),
    "solver/crg_noise": MetricInfo(
        "noise", "part of |CRG| gone if each model also uses the other's action", False
    ),
}


def metric_info(key: str) -> MetricInfo:
    """How to read a metric; ``recourse/vd@0.25`` is read as ``recourse/vd``.

    >>> metric_info("recourse/vd@0.25").higher_is_better
    False
    """
    return METRICS[key.split("@")[0]]
