"""The private geometric median: figures 1 to 5 and table 1 of its paper, accuracy beside all baselines, real data."""

from dpconvex_experiments.base import Experiment
from dpconvex_experiments.geometric_median import accuracy, boosting, radius, steps

EXPERIMENTS: tuple[Experiment, ...] = (
    radius.figure_1, radius.table_1, *boosting.FIGURES,
    accuracy.records, accuracy.budgets, accuracy.contamination, accuracy.skew, accuracy.real_data,
    steps.steps, steps.constant, steps.one_pass,
)  # fmt: skip
