"""The private geometric median: figures 1 to 5 and table 1 of its paper, accuracy beside all baselines, real data."""

from dpconvex.reproduce.base import Experiment
from dpconvex.reproduce.geometric_median.accuracy import ACCURACY
from dpconvex.reproduce.geometric_median.boosting import FIGURE_2, FIGURE_3, FIGURE_4, FIGURE_5
from dpconvex.reproduce.geometric_median.radius import FIGURE_1, TABLE_1
from dpconvex.reproduce.geometric_median.real_data import REAL_DATA

EXPERIMENTS: tuple[Experiment, ...] = (FIGURE_1, TABLE_1, FIGURE_2, FIGURE_3, FIGURE_4, FIGURE_5, *ACCURACY, REAL_DATA)
