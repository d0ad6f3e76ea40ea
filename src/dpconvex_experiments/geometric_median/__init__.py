"""The private geometric median: figures 1 to 5 and table 1 of its paper, accuracy beside all baselines, real data."""

from dpconvex_experiments.base import Experiment
from dpconvex_experiments.geometric_median.accuracy import ACCURACY
from dpconvex_experiments.geometric_median.boosting import FIGURE_2, FIGURE_3, FIGURE_4, FIGURE_5
from dpconvex_experiments.geometric_median.radius import FIGURE_1, TABLE_1
from dpconvex_experiments.geometric_median.real_data import REAL_DATA

EXPERIMENTS: tuple[Experiment, ...] = (FIGURE_1, TABLE_1, FIGURE_2, FIGURE_3, FIGURE_4, FIGURE_5, *ACCURACY, REAL_DATA)
