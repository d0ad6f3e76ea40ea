"""Plant privacy bugs in a copy of the package, and record which detector catches each: audit, tests, verifier.

    python tools/mutants.py [--only WORD ...] [--quick] [--out docs/audit.md]

Each mutant replaces one piece of source text, which must occur exactly once (`tests/test_layout.py` checks that for
all of them). Detectors: the named tests, which should take seconds; and, where the mutant names a target of the audit,
exact losses (`audit` without counting), counting (`audit` without exact losses), and `verify`, run from the unchanged
package on the certificate that the mutant writes. Exit code 1 if some mutant is caught by none.

A new mutant is one entry at the end of `MUTANTS`. With `--out` the rows that were run replace theirs in the table of
that file, with the day; the other rows stay.
"""

from __future__ import annotations

import argparse
import datetime
import functools
import os
import shutil
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
SOURCE = ROOT / "src"
HEADER = "| planted mistake | exact losses | counting | tests | verifier | measured |"
CONTRACT = "tests/contracts/test_mechanisms.py"
READS = "tests/contracts/test_reads.py"
SOURCES = "tests/contracts/test_algorithms_on_sources.py"
LEVEL = "tests/unit/algorithms/erm/heavy_tailed/test_level.py"
SCORES = "tests/unit/algorithms/erm/heavy_tailed/test_gradient_score.py"
CERTIFICATE = """
from dpconvex_experiments.audit.targets import TARGETS
from dpconvex.randomness import SystemSource
print(TARGETS[{target!r}].subject({epsilon}, 0.05, {bound}).plan.certificate(SystemSource()).to_json())
"""


@dataclass(frozen=True)
class Mutant:
    """What is replaced by what, which audit attacks it ("": none does), and which tests are about it."""

    name: str
    file: str
    old: str
    new: str
    target: str
    tests: tuple[str, ...]
    epsilon: float = 1.0
    bound: float = 1.0


OUTPUT = "algorithms/erm/output_perturbation"
BOOSTING, SYNTHETIC = "algorithms/minimax/boosted.py", "algorithms/queries/synthetic.py"
MATRIX, OF_MATRIX = "algorithms/queries/matrix_tables.py", "tests/unit/algorithms/queries/test_matrix_tables.py"
TABLES, NOISY = "algorithms/queries/noisy_tables.py", "tests/unit/algorithms/queries/test_noisy_tables.py"
USERS_OF = "problems/data/users.py"
CAPPED = "tests/statistical/test_user_gaussian_density.py"
OBJECTIVE_EVENTS, PERTURBED = "privacy/events/objective.py", "algorithms/erm/objective_perturbation"
TREE, TREES = "algorithms/queries/noisy_tree.py", "tests/unit/algorithms/queries/test_noisy_tree.py"
GROUPED, GROUPS = "algorithms/queries/grouped_tables.py", "tests/unit/algorithms/queries/test_grouped_tables.py"
BINS, FOUND_BINS = "algorithms/queries/found_bins.py", "tests/unit/algorithms/queries/test_found_bins.py"
BOOSTED = "tests/unit/algorithms/minimax/test_boosted.py"
AGGREGATES = "algorithms/erm/user_level/aggregates.py"
GRADIENTS = "algorithms/erm/gradient_descent/gradients.py"
SAMPLES, DRAWN = "mechanisms/gaussian.py", "poisson_sample(self._units, self._mechanism.rate, self._coins)"
SAMPLED = "tests/unit/mechanisms/test_sampled_gaussian.py"
COHORTS, COHORT_TESTS = "mechanisms/cohorts.py", "tests/unit/mechanisms/test_cohorts.py"
ACCELERATED = "tests/unit/algorithms/erm/user_level/test_accelerated.py"
ROBUST = "tests/statistical/test_robust_mean_privacy.py"
SHAPED = "tests/unit/estimators/test_additive.py"
HISTOGRAM = "tests/unit/mechanisms/test_joint_histogram.py"
RANGES = "tests/unit/algorithms/erm/two_stage/test_ranges.py"
TARGET_RANGE = "tests/unit/algorithms/erm/two_stage/test_target_range.py"
COLUMN_RANGES = "tests/unit/algorithms/erm/two_stage/test_column_ranges.py"
ADDED_LOOKS = "tests/unit/algorithms/erm/two_stage/test_added_looks.py"
CENTERING = "tests/unit/algorithms/erm/two_stage/test_centering.py"
JOINT_BOUND = "tests/unit/algorithms/erm/two_stage/test_joint_bound.py"
TYPICAL = "tests/unit/algorithms/erm/two_stage/test_typical_user.py"
FACTOR, CENTERED = "tests/unit/problems/data/test_factor.py", "tests/unit/geometry/test_centered_noise.py"
REFERENCE = "../dpconvex_experiments/reference"
MOMENTS = "problems/linear/second_moments.py"
BENDS, BENT = "algorithms/curvature.py", "tests/unit/algorithms/test_curvature.py"
CURVED = "tests/unit/privacy/events/test_curved_objective.py"
PIVOT, PIVOTS = "inference/intervals.py", "tests/unit/inference/test_intervals.py"
INTERVALS = "inference/intervals.py"
ADDED = "tests/unit/algorithms/erm/test_added_units.py"
INFORMED, LOOK = (f"algorithms/erm/gradient_descent/{name}.py" for name in ("informed", "look"))
LOOKS = "tests/unit/algorithms/erm/test_informed_gradient.py"
COUNTED, USES = "mechanisms/gaussian.py", "tests/unit/mechanisms/test_gaussian_budget.py"
DESCENT, LOCATIONS = (
    f"tests/unit/algorithms/location/{name}.py" for name in ("test_noisy_descent", "test_location_methods")
)
MUTANTS = (
    Mutant(
        "noise halved in the sampler",
        "mechanisms/k_norm.py",
        "self.norm, self.scale, self.step, source)",
        "self.norm, self.scale / 2, self.step, source)",
        "output_perturbation",
        ("tests/statistical/test_samplers.py", "-k", "scale_their_noise"),
    ),
    Mutant(
        "noise halved in the calibration",
        "mechanisms/k_norm.py",
        "_rounding.ratio_up(self.sensitivity.value, self.epsilon)",
        "_rounding.ratio_up(self.sensitivity.value, 2 * self.epsilon)",
        "output_perturbation",
        ("tests/unit/mechanisms/test_additive_noise.py", "-k", "cost_epsilon"),
    ),
    Mutant(
        "sensitivity without its factor 2",
        f"{OUTPUT}/schedules.py",
        "return problem.contrast / l2",
        "return problem.contrast / 2 / l2",
        "output_perturbation",
        ("tests/statistical/test_audit_algorithms.py", "-k", "output_perturbation"),
    ),
    Mutant(
        "feature bound not squared in the curvature",
        "problems/linear/problem.py",
        "_rounding.ratio_up(_rounding.product_up(self._length, self._length), ",
        "_rounding.ratio_up(self.domain.l2, ",
        "objective_perturbation/curved",
        ("tests/unit/algorithms/erm/test_objective_planner.py", "-k", "squared_bound"),
        bound=100.0,
    ),
    Mutant(
        "a phase released without noise",
        "algorithms/erm/heavy_tailed/localization.py",
        "noisy = mechanism.release(solved, entry.label, source, ledger, entry.block)",
        "noisy = solved",
        "heavy_tailed",
        ("tests/unit/algorithms/erm/heavy_tailed/test_localization.py",),
    ),
    Mutant(
        "localized exponential mechanism: the error of evaluation left out of the sensitivity",
        f"{REFERENCE}/localized_mechanism.py",
        "/ phase.m + error)",
        "/ phase.m + 0 * error)",
        "",
        ("tests/unit/algorithms/erm/heavy_tailed/test_localized_mechanism.py", "-k", "exact_law"),
    ),
    Mutant(
        "extension of a custom loss: a plane lowered by half of what it needs",
        "problems/custom/extension.py",
        "rest = self.radius * np.linalg.norm(",
        "rest = 0.5 * self.radius * np.linalg.norm(",
        "",
        ("tests/unit/problems/custom/test_extension.py",),
    ),
    Mutant(
        "extension of a custom loss: slopes averaged with other weights than tangents",
        "problems/custom/extension.py",
        'slopes = np.einsum("tk,tkj->kj", weights, pulls)',
        "slopes = pulls.mean(axis=0)",
        "",
        ("tests/unit/problems/custom/test_extension.py", "-k", "planes_hold or known_values"),
    ),
    Mutant(
        "a phase left out of the list of releases",
        "../dpconvex_experiments/reference/exponential_mechanism.py",
        '{CENTER: "center", CHOICE: "choice"}',
        '{CHOICE: "choice"}',
        "exponential_mechanism/localised",
        ("tests/unit/algorithms/erm/test_exponential_localized.py",),
    ),
    Mutant(
        "features not clipped",
        "problems/data/records.py",
        "clipped = domain.clip(part)",
        "clipped = np.asarray(part, dtype=np.float64)",
        "output_perturbation",
        ("tests/unit/problems/data/test_records.py",),
    ),
    Mutant(
        "regularization from the data",
        f"{OUTPUT}/plan.py",
        "self.problem.objective(X, y, self.l2, groups)",
        "self.problem.objective(X, y, self.l2 * (1.5 - float((y > 0).mean())), groups)",
        "output_perturbation",
        ("tests/contracts/test_public_constants.py", "-k", "output_perturbation"),
    ),
    Mutant(
        "projection scaled by the data",
        "algorithms/erm/two_stage/projection.py",
        "P = projection(len(self.wide), self.columns, source)",
        "P = projection(len(self.wide), self.columns, source) * np.std(self.problem.domain.clip(X)[:, self.wide], 0)",
        "random_projection",
        ("tests/unit/algorithms/erm/two_stage/test_projection.py", "-k", "source_alone"),
    ),
    Mutant(
        "a constant's method is promised twice the budget",
        "algorithms/erm/two_stage/constant.py",
        "else planner(own, privacy)[0]",
        "else planner(own, replace(privacy, epsilon=2 * privacy.epsilon))[0]",
        "constant",
        ("tests/unit/algorithms/erm/two_stage/test_constant.py",),
    ),
    Mutant(
        "a constant's classes are counted with half the noise",
        "algorithms/erm/two_stage/class_shares.py",
        "JointHistogram(cells, privacy.epsilon, privacy.unit))",
        "JointHistogram(cells, 2 * privacy.epsilon, privacy.unit))",
        "constant/classes",
        ("tests/unit/algorithms/erm/two_stage/test_constant.py",),
    ),
    Mutant(
        "a constant's classes: every record of a user counts",
        "algorithms/erm/two_stage/class_shares.py",
        "counted(X, y, groups, classes, self.histogram.dim)",
        "counted(X, y, None, classes, self.histogram.dim)",
        "constant/users_classes",
        ("tests/unit/algorithms/erm/two_stage/test_constant.py", "-k", "users"),
    ),
    Mutant(
        "a constant's size from the data",
        "algorithms/erm/two_stage/constant.py",
        "return np.full((X.shape[0], 1), value)",
        "return np.full((X.shape[0], 1), min(value, float(np.abs(np.nan_to_num(X)).max())))",
        "constant",
        ("tests/unit/algorithms/erm/two_stage/test_constant.py",),
    ),
    Mutant(
        "solver accuracy ignored",
        f"{OUTPUT}/schedules.py",
        "_rounding.sum_up((sensitivity, r, r))",
        "sensitivity",
        "output_perturbation/worst_solver",
        ("tests/unit/algorithms/erm/test_schedules.py",),
    ),
    Mutant(
        "misprint P2: sigma too small by the root of 2",
        "mechanisms/gaussian.py",
        "(math.sqrt(2) * epsilon)",
        "(2 * epsilon)",
        "output_perturbation/paper_gaussian",
        ("tests/unit/mechanisms/test_additive_noise.py",),
    ),
    Mutant(
        "misprint P3: accuracy enters as 2 alpha / mu",
        f"{OUTPUT}/schedules.py",
        "_rounding.sum_up((sensitivity, r, r))",
        "_rounding.sum_up((sensitivity, r * r))",
        "output_perturbation/worst_solver_gaussian",
        ("tests/unit/algorithms/erm/test_schedules.py",),
    ),
    Mutant(
        "seeds reused",
        "randomness/source.py",
        'int.from_bytes(os.urandom(32), "little")',
        "7",
        "output_perturbation",
        ("tests/unit/randomness/test_source.py",),
    ),
    Mutant(
        "ledger entry omitted",
        "mechanisms/base.py",
        "ledger.record(self.planned(label, block))",
        "pass",
        "output_perturbation",
        (CONTRACT,),
    ),
    Mutant(
        "certificate understates what was spent",
        "privacy/certificate.py",
        '"spent_epsilon": spent,',
        '"spent_epsilon": spent / 2,',
        "output_perturbation",
        ("tests/unit/privacy/test_certificate.py",),
    ),
    Mutant(
        "drawn 1.03 times as often as priced",
        SAMPLES,
        DRAWN,
        "poisson_sample(self._units, min(0.999, 1.03 * self._mechanism.rate), self._coins)",
        "noisy_gradient/samples",
        (f"{SAMPLED}::test_units_are_drawn_at_the_rate_that_is_priced",),
    ),
    Mutant(
        "drawn 1.25 times as often as priced",
        SAMPLES,
        DRAWN,
        "poisson_sample(self._units, min(0.999, 1.25 * self._mechanism.rate), self._coins)",
        "noisy_gradient/samples",
        (f"{SAMPLED}::test_units_are_drawn_at_the_rate_that_is_priced",),
    ),
    Mutant(
        "samples not from the secret source",
        SAMPLES,
        "self._coins = source.generator()",
        "self._coins = np.random.default_rng(0)",
        "noisy_gradient/samples",
        (f"{SAMPLED}::test_samples_come_from_the_source",),
    ),
    Mutant(
        "boosting: all answers in x to one candidate read the same records",
        BOOSTING,
        "SaddleSection(self.problem, m + k * each",
        "SaddleSection(self.problem, m + k // J * J * each",
        "boosted_mirror_descent",
        (f"{READS}::test_blocks_read_disjoint_units[vertices]",),
    ),
    Mutant(
        "boosting: all answers in y to one candidate read the same records",
        BOOSTING,
        "SaddleSection(self.problem, 2 * m + k * each",
        "SaddleSection(self.problem, 2 * m + k // J * J * each",
        "boosted_mirror_descent",
        (f"{READS}::test_blocks_read_disjoint_units[vertices]",),
    ),
    Mutant(
        "one-pass Frank-Wolfe: points move eight times as far as is charged",
        "algorithms/minimax/frank_wolfe.py",
        "self.moved * (1 + 1e-9)",
        "self.moved / 8",
        "",
        (f"{BOOSTED}::test_a_record_moves_the_leaves_below_its_node_by_the_charged_range",),
    ),
    Mutant(
        "sampled guard: one subset for all steps",
        AGGREGATES,
        "[lambda w: self._of(self.coins.choice(slots, size, replace=False))(w)]",
        "[self._of(self.coins.choice(slots, size, replace=False))]",
        "accelerated_user/sampled",
        (f"{READS}::test_steps_on_subsets_draw_each_afresh_from_all_users",),
    ),
    Mutant(
        "ramp of all means behind a test one count low",
        "mechanisms/robust_mean.py",
        "(counts - low) / (high - low)",
        "(counts - low + 1) / (high - low)",
        "mechanism/robust_mean",
        (f"{ROBUST}::test_weights_leave_zero_and_reach_one_where_the_lemma_says",),
    ),
    Mutant(
        "ramp of the robust mean one count low",
        "mechanisms/robust_mean.py",
        "ramp(counts, self.low, self.high)",
        "ramp(counts, self.low - 1, self.high - 1)",
        "mechanism/robust_mean",
        (f"{ROBUST}::test_weights_leave_zero_and_reach_one_where_the_lemma_says",),
    ),
    Mutant(
        "ramp of cohorts one count low",
        COHORTS,
        "ramp(near, low, high)",
        "ramp(near, low - 1, high)",
        "",
        (f"{ROBUST}::test_weights_leave_zero_and_reach_one_where_the_lemma_says",),
    ),
    Mutant(
        "cohorts: one partition for all looks and runs",
        COHORTS,
        "source.generator().permutation(self.count)",
        "np.random.default_rng(7).permutation(self.count)",
        "",
        (f"{COHORT_TESTS}::test_partitions_are_fresh_and_uniform",),
    ),
    Mutant(
        "cohorts: partition by the order of users",
        COHORTS,
        "source.generator().permutation(self.count) if self.number > 1 else np.arange(self.count)",
        "np.arange(self.count)",
        "",
        (f"{COHORT_TESTS}::test_partitions_are_fresh_and_uniform",),
    ),
    Mutant(
        "cohorts: sensitivity of the changed cohort forgotten",
        COHORTS,
        "return max(found) * (1 + 1e-12)",
        "return max(found) * (1 + 1e-12) / self.number",
        "mechanism/robust_mean/cohorts",
        (f"{COHORT_TESTS}::test_the_reach_is_that_of_the_dearest_cohort",),
    ),
    Mutant(
        "cohorts: the sum divided by those who passed before the noise",
        COHORTS,
        "value = self.cohorts.total(means, bits) / length",
        "value = self.cohorts.total(means, bits) / length / max(float(self.cohorts.shares @ bits), 0.01)",
        "",
        (f"{COHORT_TESTS}::test_a_failed_cohort_is_left_out_and_what_is_left_is_divided_after_the_noise",),
    ),
    Mutant(
        "cohorts: margin counted from one above",
        COHORTS,
        "excesses[g] = h_index(near) - passing",
        "excesses[g] = h_index(near) - passing + 1",
        "mechanism/robust_mean/cohorts",
        (f"{COHORT_TESTS}::test_the_excess_is_counted_from_the_score_that_the_lemma_needs",),
    ),
    Mutant(
        "cohorts: AboveThreshold asks for the best cohort",
        "algorithms/erm/user_level/guards.py",
        "session.query(-excesses.min())",
        "session.query(-excesses.max())",
        "accelerated_user/threshold_cohorts",
        (f"{ACCELERATED}::test_one_cohort_apart_stops_the_threshold",),
    ),
    Mutant(
        "ramp at a searched radius one count low",
        AGGREGATES,
        "ramp(counts, self.low, self.high)",
        "ramp(counts, self.low - 1, self.high)",
        "",
        (f"{ROBUST}::test_weights_leave_zero_and_reach_one_where_the_lemma_says",),
    ),
    Mutant(
        "printed outlier removal keeps points below one half",
        f"{REFERENCE}/outlier_removal.py",
        "half = self.count // 2",
        "half = self.count // 2 - 1",
        "",
        (f"{ROBUST}::test_printed_weights_leave_zero_above_one_half",),
    ),
    Mutant(
        "ramp planned from below A = C/2",
        "mechanisms/robust_mean.py",
        "first = (count + 1) // 2",
        "first = count // 2",
        "",
        (f"{ROBUST}::test_no_ramp_is_planned_that_leaves_zero_below_one_half",),
    ),
    Mutant(
        "ramp accepted from below A = C/2",
        "mechanisms/robust_mean.py",
        "if not self.count / 2 <= self.low",
        "if not (self.count - 1) / 2 <= self.low",
        "",
        (f"{ROBUST}::test_no_ramp_is_planned_that_leaves_zero_below_one_half",),
    ),
    Mutant(
        "fallback mean with the last radius's noise",
        AGGREGATES,
        "length, mean = plain_length(self.count, self.clip), plain_mean(points, self.clip)",
        "length, mean = self.length(self.grid[-1]), plain_mean(points, self.clip)",
        "",
        (f"{ROBUST}::test_the_mean_at_a_searched_radius_moves_no_further_than_its_noise_hides",),
    ),
    Mutant(
        "noisy tables: sensitivity for records that are added, not replaced (Laplace)",
        TABLES,
        '"l1": (2.0, LEMMA)',
        '"l1": (1.0, LEMMA)',
        "queries/noisy_tables/pure",
        (f"{NOISY}::test_the_charged_cost_is_what_the_worst_neighbors_cost_and_no_more",),
    ),
    Mutant(
        "noisy tables: sensitivity for records that are added, not replaced (Gaussian)",
        TABLES,
        "_rounding.widen_up(math.sqrt(2.0)), LEMMA",
        "1.0, LEMMA",
        "queries/noisy_tables",
        (f"{NOISY}::test_the_charged_cost_is_what_the_worst_neighbors_cost_and_no_more",),
    ),
    Mutant(
        "matrix of tables: half the sensitivity, of a record that is added",
        MATRIX,
        "_rounding.product_up(2.0, ",
        "_rounding.product_up(1.0, ",
        "",
        (f"{OF_MATRIX}::test_the_charged_cost_is_what_the_worst_neighbors_cost_and_no_more",),
    ),
    Mutant(
        "matrix of tables: blocks of a column with itself are left at 0",
        MATRIX,
        "tables[0, 1:] = tables.diagonal()[1:]",
        "tables[0, 1:] = tables.diagonal()[1:]; tables[1:, 1:] = 0.0",
        "",
        (f"{OF_MATRIX}::test_the_charged_cost_is_what_the_worst_neighbors_cost_and_no_more",),
    ),
    Mutant(
        "matrix of tables: records are longer than is charged",
        MATRIX,
        "(part**2).sum(axis=1).max()",
        "(part**2).sum(axis=1).mean() * 0.9",
        "",
        (f"{OF_MATRIX}::test_the_charged_cost_is_what_the_worst_neighbors_cost_and_no_more",),
    ),
    Mutant(
        "matrix of tables: rounding of sums is free",
        MATRIX,
        "_rounding.sum_up((length, math.sqrt(rows) * off))",
        "length",
        "",
        (f"{OF_MATRIX}::test_rounding_of_sums_is_charged",),
    ),
    Mutant(
        "matrix of tables: the sensitivity says nothing of users",
        MATRIX,
        "self.privacy.neighboring, self.privacy.unit)",
        "self.privacy.neighboring)",
        "",
        (f"{OF_MATRIX}::test_a_replaced_user_costs_what_is_charged_and_no_more",),
    ),
    Mutant(
        "Gaussian matrix of tables: half the distance of two records",
        MATRIX,
        "_rounding.sum_up((length, 2 * off))",
        "_rounding.sum_up((length / 2, 2 * off))",
        "queries/noisy_tables/gaussian_matrix",
        (f"{OF_MATRIX}::test_the_charged_cost_is_what_the_worst_neighbors_cost_and_no_more",),
    ),
    Mutant(
        "Gaussian matrix of tables: rounding of sums is free",
        MATRIX,
        "_rounding.sum_up((length, 2 * off))",
        "length",
        "",
        (f"{OF_MATRIX}::test_rounding_of_sums_is_charged",),
    ),
    Mutant(
        "Gaussian matrix of tables: sums of pairs are pooled again",
        "algorithms/queries/released_tables.py",
        " and not self.coordinates",
        "",
        "",
        (f"{OF_MATRIX}::test_intervals_hold_as_often_as_they_say",),
    ),
    Mutant(
        "matrix noise: a degree of freedom less",
        "mechanisms/k_norm.py",
        "rows = [normals[k : k + self.size + 1]",
        "rows = [normals[k : k + self.size]",
        "",
        ("tests/unit/mechanisms/test_matrix_noise.py::test_entries_are_sums_of_laplace_numbers",),
    ),
    Mutant(
        "noisy tables: a scale class is charged once",
        TABLES,
        "replace(each, times=times[each.label])",
        "replace(each, times=min(1, times[each.label]))",
        "",
        (f"{NOISY}::test_every_table_is_in_the_ledger_and_scales_are_few",),
    ),
    Mutant(
        "noisy tables: the columns' tables are not charged",
        TABLES,
        "{1: SHARE, 2: 1 - SHARE}",
        "{1: SHARE, 2: 1.0}",
        "",
        (f"{NOISY}::test_every_table_is_in_the_ledger_and_scales_are_few",),
    ),
    Mutant(
        "budgets: children of a server of forks are not charged",
        "privacy/context.py",
        'parents = os.getppid(), getattr(parent_process(), "pid", None)',
        "parents = (os.getppid(),)",
        "",
        ("tests/contracts/test_public_warnings.py::test_processes_that_this_one_started_pay",),
    ),
    Mutant(
        "budgets: a model that was stored before closes them",
        "privacy/context.py",
        "and when >= _since[1]:",
        "and when >= 0:",
        "",
        ("tests/contracts/test_public_warnings.py::test_models_that_were_stored_before_open_and_close_no_budget",),
    ),
    Mutant(
        "a draft of a schema is fitted",
        "estimators/_matrices.py",
        "        schema.require_confirmed()\n",
        "",
        "",
        ("tests/unit/estimators/test_logistic.py::test_no_fit_takes_a_schema_that_nobody_confirmed",),
    ),
    Mutant(
        "advice: one number in the place of a range",
        "estimators/advice.py",
        "MEASURED = (0.07, 1.7, 14.6)",
        "MEASURED = (1.7, 1.7, 1.7)",
        "",
        ("tests/unit/estimators/test_advice.py::test_the_range_is_where_the_forecast_meets_the_goal",),
    ),
    Mutant(
        "private bins: half the noise on histograms and tables (Laplace)",
        TABLES,
        '"l1": (2.0, LEMMA)',
        '"l1": (1.0, LEMMA)',
        "queries/found_bins/pure",
        (f"{FOUND_BINS}::test_the_charged_cost_is_what_the_worst_neighbors_cost_and_no_more",),
    ),
    Mutant(
        "private bins: half the noise on histograms and tables (Gaussian)",
        TABLES,
        "_rounding.widen_up(math.sqrt(2.0)), LEMMA",
        "0.5**0.5, LEMMA",
        "queries/found_bins",
        (f"{FOUND_BINS}::test_the_charged_cost_is_what_the_worst_neighbors_cost_and_no_more",),
    ),
    Mutant(
        "private bins: a histogram is charged once, not for every column",
        BINS,
        "replace(each, times=self.noises[each.label][2])",
        "replace(each, times=1)",
        "",
        (f"{FOUND_BINS}::test_every_release_is_in_the_ledger_which_uses_the_promise",),
    ),
    Mutant(
        "private bins: the tables have the whole promise",
        BINS,
        "_rounding.difference_down(1.0, _rounding.sum_up(_parts(privacy, n, open, law)))",
        "1.0",
        "",
        (f"{FOUND_BINS}::test_every_release_is_in_the_ledger_which_uses_the_promise",),
    ),
    Mutant(
        "private bins: ranges are read off the true counts",
        BINS,
        "pairs = zip(octaves, unranged, strict=True)",
        "pairs = zip(counts, unranged, strict=True)",
        "",
        (f"{FOUND_BINS}::test_nothing_but_released_numbers_leaves",),
    ),
    Mutant(
        "private bins: edges are read off the true counts",
        BINS,
        "zip(self.open.columns, plan.grids, held, strict=True):",
        "zip(self.open.columns, plan.grids, counts, strict=True):",
        "",
        (
            f"{FOUND_BINS}::test_nothing_but_released_numbers_leaves",
            f"{FOUND_BINS}::test_nothing_but_released_numbers_leaves_where_ranges_are_declared",
        ),
    ),
    Mutant(
        "private bins: cells of a range reach as far as the data do",
        BINS,
        'return np.where(np.isnan(values), SIZE - 1, np.searchsorted(edges[1:-1], values, side="right"))',
        "far = min(np.nanmax(np.abs(values), initial=1.0) / max(edges[-1], 1.0), 1.0); "
        'return np.where(np.isnan(values), SIZE - 1, np.searchsorted(far * edges[1:-1], values, side="right"))',
        "",
        (f"{FOUND_BINS}::test_the_charged_cost_is_what_the_worst_neighbors_cost_and_no_more",),
    ),
    Mutant(
        "private bins: a number far outside scales the histogram",
        BINS,
        "return tuple(np.bincount(of(X[:, k]), own, size).astype(np.float64) for of, k in pairs)",
        "return tuple(np.bincount(of(X[:, k]), own, size) * (1 + (np.abs(X[:, k]) > 1e30).any()) for of, k in pairs)",
        "",
        (f"{FOUND_BINS}::test_the_charged_cost_is_what_the_worst_neighbors_cost_and_no_more",),
    ),
    Mutant(
        "private bins: a number that is 0 counts in a cell of the range, too",
        BINS,
        "return tuple(np.bincount(of(X[:, k]), own, size).astype(np.float64) for of, k in pairs)",
        "return tuple(np.bincount(of(X[:, k]), own, size) + (np.arange(size) == 5) * (X[:, k] == 0).sum() "
        "for of, k in pairs)",
        "queries/found_bins/pure",
        (f"{FOUND_BINS}::test_the_charged_cost_is_what_the_worst_neighbors_cost_and_no_more",),
    ),
    Mutant(
        "private bins: missing numbers are put into the fullest bin of the data",
        BINS,
        'return np.where(np.isnan(values), SIZE - 1, np.searchsorted(edges[1:-1], values, side="right"))',
        'cells = np.searchsorted(edges[1:-1], values, side="right"); '
        "return np.where(np.isnan(values), np.bincount(cells).argmax(), cells)",
        "",
        (f"{FOUND_BINS}::test_the_charged_cost_is_what_the_worst_neighbors_cost_and_no_more",),
    ),
    Mutant(
        "private bins: as many bins as were found",
        BINS,
        "edges.append(tuple(first + c for c in ranges.split(each[first:stop], deviation, bins)))",
        "edges.append(tuple(first + c for c in ranges.split(each[first:stop], deviation, bins - 1)))",
        "",
        (f"{FOUND_BINS}::test_every_outcome_gives_the_planned_bins",),
    ),
    Mutant(
        "one noise of all tables: pairs in any order",
        TABLES,
        "listed == [*combinations(columns, 2)] != []",
        "len(listed) == math.comb(len(columns), 2) > 0",
        "",
        (
            "tests/unit/algorithms/queries/test_matrix_tables.py::"
            "test_pairs_out_of_order_or_listed_twice_have_noise_of_their_own",
        ),
    ),
    Mutant(
        "grouped tables: pairs of groups have the whole promise",
        GROUPED,
        "for part in (share, 1 - share))",
        "for part in (share, 1.0))",
        "queries/grouped_tables/pure",
        (f"{GROUPS}::test_every_release_is_in_the_ledger_which_uses_the_promise",),
    ),
    Mutant(
        "grouped tables: pairs are not in the ledger",
        GROUPED,
        "return (*self.columns.releases, *self.pairs.releases)",
        "return self.columns.releases",
        "",
        (f"{GROUPS}::test_every_release_is_in_the_ledger_which_uses_the_promise",),
    ),
    Mutant(
        "grouped tables: a user's records count one each in pairs",
        GROUPED,
        "self.pairs.release(mapped(codes, codes, coarse, same)[0], source, ledger, weights)",
        "self.pairs.release(mapped(codes, codes, coarse, same)[0], source, ledger)",
        "",
        (f"{GROUPS}::test_a_replaced_user_and_an_added_record_cost_what_is_charged",),
    ),
    Mutant(
        "grouped tables: groups follow from true counts",
        GROUPED,
        "groups[k] = grouped(shares, deviation, self.groups[k], k in self.queries.ordered)",
        "groups[k] = grouped(np.bincount(codes[:, k], minlength=len(shares)) / self.n, 1e-9, self.groups[k], False)",
        "",
        (f"{GROUPS}::test_the_charged_cost_is_what_the_worst_neighbors_cost_and_no_more",),
    ),
    Mutant(
        "grouped tables: as many groups as hold records",
        GROUPED,
        "edges = ranges.split(shares[order], deviation, count)",
        "edges = ranges.split(shares[order], deviation, max(2, min(count, int((shares > 0).sum()))))",
        "",
        (f"{GROUPS}::test_any_noise_leaves_as_many_groups_as_planned",),
    ),
    Mutant(
        "noisy tree: the choice of pairs is charged once",
        TREE,
        "Counter({CHOSEN: self.pairs,",
        "Counter({CHOSEN: 1,",
        "",
        (f"{TREES}::test_every_release_is_in_the_ledger_which_uses_the_promise",),
    ),
    Mutant(
        "noisy tree: scores of records that are added, not replaced",
        TREE,
        "_rounding.sum_up((1.0, 2 * off))",
        "_rounding.sum_up((0.5, 2 * off))",
        "queries/noisy_tree/pure",
        (f"{TREES}::test_the_charged_cost_is_what_the_worst_neighbors_cost_and_no_more",),
    ),
    Mutant(
        "noisy tree: the model of a score is made of true counts",
        TREE,
        "model = np.minimum(np.nan_to_num(given[i].T @ joint[j]), 1.0)",
        "model = counted[i, j].reshape(len(given[i].T), -1) / self.n * 0.9",
        "",
        (f"{TREES}::test_the_charged_cost_is_what_the_worst_neighbors_cost_and_no_more",),
    ),
    Mutant(
        "exponential mechanism: scores are not halved",
        "mechanisms/selection.py",
        "2 * _rounding.widen_up(self.sensitivity.value)",
        "_rounding.widen_up(self.sensitivity.value)",
        "mechanism/exponential",
        ("tests/unit/mechanisms/test_selection.py::test_the_exponential_mechanism_has_losses_in_an_interval",),
    ),
    Mutant(
        "noisy tables: intervals without the tail on the other side",
        "algorithms/queries/released_tables.py",
        "z = -float(ndtri(tail / 2))",
        "z = -float(ndtri(tail))",
        "",
        (f"{NOISY}::test_intervals_hold_as_often_as_they_say",),
    ),
    Mutant(
        "noisy tables: noisy shares are cut off at 0 before the interval",
        "algorithms/queries/released_tables.py",
        "found, noise = self.estimate(axes)",
        "found, noise = self.estimate(axes); found = np.maximum(found, 0) / np.maximum(found, 0).sum()",
        "",
        (f"{NOISY}::test_intervals_hold_as_often_as_they_say",),
    ),
    Mutant(
        "latent classes: a left-out cell is seen in the transposed place",
        "algorithms/queries/latent_classes.py",
        "np.where(self.scored, fold + fold.T, -1)",
        "np.where(self.scored, generator.integers(0, count, fold.shape), -1)",
        "",
        (f"{NOISY}::test_a_cell_that_is_left_out_is_so_in_both_places_and_an_impossible_one_never",),
    ),
    Mutant(
        "latent classes: impossible pairs are scored",
        "algorithms/queries/latent_classes.py",
        "ZERO_WEIGHT, False",
        "ZERO_WEIGHT, True",
        "",
        (f"{NOISY}::test_a_cell_that_is_left_out_is_so_in_both_places_and_an_impossible_one_never",),
    ),
    Mutant(
        "latent classes: impossible pairs make a table one that is missed",
        "algorithms/queries/latent_classes.py",
        "excess = np.where(self.scored, ",
        "excess = np.where(self.inverse > 0, ",
        "",
        (f"{NOISY}::test_noise_alone_is_seldom_taken_for_a_missed_pair",),
    ),
    Mutant(
        "noise on all answers: the sensitivity of one block in l1",
        "algorithms/queries/base.py",
        "blocks**power",
        "blocks**0.0",
        "",
        ("tests/unit/algorithms/queries/test_query_methods.py::test_noise_on_all_answers_covers_the_worst_neighbors",),
    ),
    Mutant(
        "synthetic data: one draw too few in the squares",
        SYNTHETIC,
        "k = max(1, steps - 2)\n    return k * (k + 1) * (2 * k + 1) / 6",
        "k = max(1, steps - 3)\n    return k * (k + 1) * (2 * k + 1) / 6",
        "queries/saddle_point",
        (f"{READS}::test_vertices_are_drawn_as_often_as_is_charged[vertices]",),
    ),
    Mutant(
        "synthetic data: one draw too few in the sum of ranges",
        SYNTHETIC,
        "k = max(1, steps - 2)\n    return k * (k + 1) / 2",
        "k = max(1, steps - 3)\n    return k * (k + 1) / 2",
        "queries/saddle_point/pure",
        (f"{READS}::test_vertices_are_drawn_as_often_as_is_charged[vertices]",),
    ),
    Mutant(
        "synthetic data: one draw too few in fresh batches",
        SYNTHETIC,
        '(2 * k + 1) / 6 if mode == "full" else float(k)',
        '(2 * k + 1) / 6 if mode == "full" else float(k - 1)',
        "",
        (f"{READS}::test_vertices_are_drawn_as_often_as_is_charged[split]",),
    ),
    Mutant(
        "heavy tails: all repetitions read the same records",
        "algorithms/erm/heavy_tailed/localization.py",
        "start, step = phase.first + j * phase.step, ",
        "start, step = phase.first, ",
        "",
        (f"{READS}::test_blocks_read_disjoint_units[split]",),
    ),
    Mutant(
        "noisy gradient: all batches are the first",
        GRADIENTS,
        "slice(j, None, batches)",
        "slice(0, None, batches)",
        "",
        (f"{READS}::test_blocks_read_disjoint_units[split]",),
    ),
    Mutant(
        "noisy gradient: all batches are of the same users",
        GRADIENTS,
        "order[j::batches]",
        "order[0::batches]",
        "",
        (f"{READS}::test_blocks_read_disjoint_units[split]",),
    ),
    Mutant(
        "noisy gradient: one batch has the noise of all records",
        "algorithms/erm/gradient_descent/planner.py",
        "return self.problem.n // self.batches",
        "return self.problem.n",
        "",
        (f"{READS}::test_no_unit_moves_a_release_further_than_is_stated[split]",),
    ),
    Mutant(
        "noisy gradient: every step has the same noise",
        "algorithms/erm/gradient_descent/plan.py",
        "gradients[j](w), LABEL, source,",
        "gradients[j](w), LABEL, source.__class__(7),",
        "",
        (f"{READS}::test_noise_is_drawn_anew_for_every_release[split]",),
    ),
    Mutant(
        "heavy tails: every phase has the same noise",
        "algorithms/erm/heavy_tailed/localization.py",
        "release(solved, entry.label, source,",
        "release(solved, entry.label, source.__class__(7),",
        "",
        (f"{READS}::test_noise_is_drawn_anew_for_every_release[split]",),
    ),
    Mutant(
        "accelerated: all batches are of the same users",
        AGGREGATES,
        "slots[j :: batching.batches]",
        "slots[:: batching.batches]",
        "accelerated_user",
        (f"{READS}::test_blocks_read_disjoint_units[split]",),
    ),
    Mutant(
        "accelerated: phases share users",
        "algorithms/erm/user_level/accelerated.py",
        "order[batching.first : batching.first + batching.users]",
        "order[: batching.users]",
        "accelerated_user",
        (f"{READS}::test_blocks_read_disjoint_units[split]",),
    ),
    Mutant(
        "accelerated: clipped mean without its factor 2",
        "algorithms/erm/user_level/guards.py",
        "Sensitivity((2 * clip / count",
        "Sensitivity((clip / count",
        "accelerated_user",
        (f"{READS}::test_no_unit_moves_a_release_further_than_is_stated[split]",),
    ),
    Mutant(
        "phased SGD: phases share users",
        "algorithms/erm/user_level/phased.py",
        "order[phase.first : phase.first + phase.parts * phase.users]",
        "order[: phase.parts * phase.users]",
        "phased_sgd",
        (f"{READS}::test_blocks_read_disjoint_units[split]",),
    ),
    Mutant(
        "phased SGD: plain mean without its factor 2",
        AGGREGATES,
        "return (2 * clip / count",
        "return (clip / count",
        "phased_sgd",
        (f"{READS}::test_no_unit_moves_a_release_further_than_is_stated[linear]",),
    ),
    Mutant(
        "stable SGD: phases visit the same records",
        "algorithms/location/stable_sgd.py",
        "order[np.arange(end - phase.steps, end) % self.n]",
        "order[np.arange(phase.steps) % self.n]",
        "",
        (f"{READS}::test_blocks_read_disjoint_units[split]",),
    ),
    Mutant(
        "synthetic data: every fresh batch is the first",
        SYNTHETIC,
        "records[(t - 1) * B : t * B]",
        "records[:B]",
        "",
        (f"{READS}::test_vertices_are_drawn_as_often_as_is_charged[split]",),
    ),
    Mutant(
        "descent ascent: every step reads the first batch",
        "algorithms/minimax/gaussian.py",
        "slice(t * B, (t + 1) * B) if self.one_pass",
        "slice(0, B) if self.one_pass",
        "sgda",
        (f"{READS}::test_blocks_read_disjoint_units[vertices]",),
    ),
    Mutant(
        "anytime: draws of the next iterate not counted",
        "algorithms/minimax/anytime.py",
        "after = counts.sum() - np.cumsum(counts)",
        "after = counts.sum() - np.cumsum(counts) - np.roll(counts, -1)",
        "anytime_mirror_descent",
        (f"{READS}::test_vertices_are_drawn_as_often_as_is_charged[vertices]",),
    ),
    Mutant(
        "search: trained on held-out units",
        "algorithms/search/plan.py",
        "np.flatnonzero(~mask)), ",
        "np.arange(len(mask))[: len(mask) - mask.sum()]), ",
        "private_search",
        (f"{READS}::test_blocks_read_disjoint_units[others]",),
    ),
    Mutant(
        "above threshold: a threshold for every query",
        "mechanisms/selection.py",
        "self._mechanism.query_scale) < self._threshold",
        "self._mechanism.query_scale) < self._noisy(self._mechanism.threshold, self._mechanism.threshold_scale)",
        "mechanism/above_threshold",
        ("tests/unit/mechanisms/test_selection.py::test_one_noisy_threshold_and_fresh_noise_for_every_query",),
    ),
    Mutant(
        "above threshold: one noise for all queries",
        "mechanisms/selection.py",
        "self._noisy(value, self._mechanism.query_scale) <",
        'vars(self).setdefault("once", self._noisy(0.0, self._mechanism.query_scale)) + round(value) <',
        "mechanism/above_threshold",
        ("tests/unit/mechanisms/test_selection.py::test_one_noisy_threshold_and_fresh_noise_for_every_query",),
    ),
    Mutant(
        "a simplex clipped as a ball",
        "problems/data/records.py",
        'block.norm in ("l1", "l2") and',
        'block.norm != "linf" and',
        "",
        ("tests/unit/problems/data/test_records.py",),
    ),
    Mutant(
        "leverage of the shortest row",
        "_leverage.py",
        "longest = max(",
        "longest = min(",
        "",
        (FACTOR, "-k", "leverage"),
    ),
    Mutant(
        "leverage read from the certificate",
        "privacy/verify.py",
        "wrong = _leverage.faults(",
        'wrong = "" and _leverage.faults(',
        "",
        (FACTOR, "-k", "recomputes"),
    ),
    Mutant(
        "columns of F as rounding leaves them",
        "_leverage.py",
        "entries[-1] -= entries.sum()",
        "entries[-1] -= 0",
        "",
        (FACTOR, "-k", "sum_to_zero"),
    ),
    Mutant(
        "the sampler's own representative",
        "geometry/norms.py",
        "out += ((x - mean) * stretch for x in signed)",
        "out += (x * stretch for x in signed)",
        "",
        (CENTERED, "tests/unit/mechanisms/test_joint_histogram.py"),
    ),
    Mutant(
        "signs drawn with replacement",
        "geometry/norms.py",
        "positive, zero = positive - is_positive, zero - at_least_zero + is_positive",
        "positive, zero = positive * (left - 1) / left, zero * (left - 1) / left",
        "",
        (CENTERED,),
    ),
    Mutant(
        "half the bound of a centered block",
        "geometry/grouping.py",
        "widths = np.repeat([block.bound for block in blocks], repeats)",
        "widths = np.repeat([block.bound for block in blocks], repeats) / (1 + centered)",
        "",
        (CENTERED, "-k", "record_bound"),
    ),
    Mutant(
        "a radius of as many dimensions as columns",
        "geometry/grouping.py",
        "return self.sizes - self.centered",
        "return self.sizes",
        "",
        (CENTERED, "-k", "dimensions"),
    ),
    Mutant(
        "a replaced record moves one count",
        "mechanisms/k_norm.py",
        "_rounding.product_up(2.0, ",
        "_rounding.product_up(1.0, ",
        "",
        ("tests/unit/mechanisms/test_joint_histogram.py",),
    ),
    Mutant(
        "additive models: ranges of numbers read off the cells",
        "estimators/_shapes.py",
        "first, last = column.range.ends",
        "first, last = float(np.nanmin(values)), float(np.nanmax(values))",
        "",
        (SHAPED, "-k", "json_scores or weights_of_any_double"),
    ),
    Mutant(
        "additive models: a digest that leaves the knots out",
        "estimators/_digest.py",
        'if "knots_" in vars(model):  # additive models',
        'if "no knots" in vars(model):',
        "",
        (SHAPED, "-k", "edited_knots"),
    ),
    Mutant(
        "rests of summands lost",
        "problems/data/summation.py",
        "return (parts[0] + parts[1]) + parts[2]",
        "return parts[0]",
        "",
        ("tests/unit/problems/data/test_summation.py",),
    ),
    Mutant(
        "summands not rounded to a grid",
        "problems/data/summation.py",
        "return _MAGIC * _FINE * top, _MAGIC * _FINEST * top",
        "return 0.0 * top, 0.0 * top",
        "",
        ("tests/unit/problems/data/test_summation.py",),
    ),
    Mutant(
        "second moments rounded out of the domain",
        "algorithms/erm/sufficient_statistics.py",
        "b.gram(np.sqrt(self._weights(b)), size, np.trunc)",
        "b.gram(np.sqrt(self._weights(b)), size, np.ceil)",
        "",
        ("tests/unit/algorithms/erm/test_sufficient_statistics.py",),
    ),
    Mutant(
        "noise drawn where data are read",
        "problems/data/sources/rows.py",
        "targets, found = self.targets(y), []",
        "targets, found = self.targets(y + np.random.default_rng().laplace(size=len(y))), []",
        "",
        ("tests/unit/problems/data/test_sources.py",),
    ),
    Mutant(
        "a look takes NaN for a member of an interval",
        "problems/data/_loops.py",
        "outside += 0 if abs(row[j]) <= limits[j] else 1",
        "outside += 1 if abs(row[j]) > limits[j] else 0",
        "",
        ("tests/unit/problems/data/test_domain.py", "-k", "look"),
    ),
    Mutant(
        "positions of categories in one byte, however many there are",
        "data/columns.py",
        "np.min_scalar_type(-1 - len(self.categories))",
        "np.int8",
        "",
        ("tests/unit/data/test_schema_encoding.py", "-k", "every_position"),
    ),
    Mutant(
        "a portion counted twice",
        "problems/data/sources/rows.py",
        "found = (parts for parts in self.each_portion(lambda blocks: parts_of(blocks, work)) if parts is not None)",
        "found = (p for p in self.each_portion(lambda b: parts_of(b + b[:1], work)) if p is not None)",
        "",
        ("tests/unit/problems/data/test_sources.py", "-k", "lazy_frames"),
    ),
    Mutant(
        "settling descent: steps are halved by what was not released",
        "algorithms/location/noisy_descent.py",
        "if before @ gradient < -self.quiet:",
        "if before @ (points[0] - z) < -self.quiet:",
        "",
        (f"{DESCENT}::test_steps_and_averages_are_functions_of_released_gradients",),
    ),
    Mutant(
        "clipped mean: a record is taken to move it by R / n",
        f"{REFERENCE}/location.py",
        "_rounding.ratio_up(2 * R, n)",
        "_rounding.ratio_up(R, n)",
        "clipped_mean",
        (f"{LOCATIONS}::test_released_means_and_gradients_move_within_their_sensitivities",),
    ),
    Mutant(
        "coordinate median: every coordinate spends the whole budget",
        f"{REFERENCE}/location.py",
        "* (1 - 1e-12) / math.sqrt(d)",
        "* (1 - 1e-12)",
        "coordinate_median",
        (f"{LOCATIONS}::test_the_plan_spends_the_promise_and_not_more",),
    ),
    Mutant(
        "budget that renews: a clock set back opens an old period again",
        "privacy/budget.py",
        "newest = max([period, *(entry.period for entry in spent if entry.period is not None)])",
        "newest = period",
        "",
        ("tests/unit/privacy/test_budget.py::test_a_clock_set_back_opens_no_period_again",),
    ),
    Mutant(
        "budget that renews: a line whose period is not known counts in none",
        "privacy/budget.py",
        "if entry.period not in (None, self.period):",
        "if self.renews and entry.period != self.period:",
        "",
        ("tests/unit/privacy/test_budget.py::test_a_line_whose_period_cannot_be_read_counts_in_every_period",),
    ),
    Mutant(
        "halving: a record is taken to move a query by 1",
        f"{REFERENCE}/halving.py",
        "SHIFT, PRINTED = 18.0, 3.0",
        "SHIFT, PRINTED = 18.0, 1.0",
        "halving",
        (f"{LOCATIONS}::test_the_radius_finder_charges_for_its_most_sensitive_query",),
    ),
    Mutant(
        "a solver that was asked for has no guaranteed one behind it",
        f"{OUTPUT}/plan.py",
        "both = Guaranteed(asked, usual.last)",
        "both = asked",
        "",
        ("tests/unit/algorithms/erm/test_solver_option.py",),
    ),
    Mutant(
        "heavy tails: the localization reads the scale's records again",
        "algorithms/erm/heavy_tailed/registry.py",
        "first, rest = (X[apart], y[apart]), (X[~apart], y[~apart])",
        "first, rest = (X[apart], y[apart]), (X[: (~apart).sum()], y[: (~apart).sum()])",
        "",
        (f"{LEVEL}::test_the_method_never_reads_the_records_of_the_scale",),
    ),
    Mutant(
        "heavy tails: half the sensitivity of a level's score",
        "algorithms/erm/heavy_tailed/level.py",
        'SCORE = Sensitivity(1.0, "linf"',
        'SCORE = Sensitivity(0.5, "linf"',
        "heavy_tailed/scale",
        (f"{LEVEL}::test_neighbors_move_scores_and_sums_by_at_most_one",),
    ),
    Mutant(
        "heavy tails: squares in units of C where the noise is for units of C squared",
        "algorithms/erm/heavy_tailed/level.py",
        "np.minimum(bounds / level, 1.0) ** 2 * GRID",
        "np.minimum(bounds, level) ** 2 * GRID",
        "heavy_tailed/scale",
        (f"{LEVEL}::test_neighbors_move_scores_and_sums_by_at_most_one",),
    ),
    Mutant(
        "gradient scores: noise for half of what a record moves",
        f"{REFERENCE}/gradient_score.py",
        "moved = (2 * phase.truncation.level / phase.m",
        "moved = (phase.truncation.level / phase.m",
        "gradient_score",
        (f"{SCORES}::test_no_neighbor_moves_a_score_beyond_the_sensitivity",),
    ),
    Mutant(
        "gradient scores: all parts of a phase take the first one's noise",
        f"{REFERENCE}/gradient_score.py",
        "release(scores, entry.label, *to, entry.block)",
        "release(scores, entry.label, to[0].__class__(7), to[1], entry.block)",
        "",
        (f"{SCORES}::test_noise_is_drawn_anew_for_every_part_and_run",),
    ),
    Mutant(
        "heavy tails: level and sum of squares at all of epsilon each",
        "algorithms/erm/heavy_tailed/level.py",
        "return LaplaceMechanism.calibrate(SUM, _rounding.product_down(0.5, self.epsilon), 1)",
        "return LaplaceMechanism.calibrate(SUM, self.epsilon, 1)",
        "",
        (f"{LEVEL}::test_the_cost",),
    ),
    Mutant(
        "a missing number counts as the lower bound where models leave",
        "estimators/export.py",
        "rest = values[:, -1] if own else values.mean(1)",
        "rest = values[:, -1] if own else values[:, 0]",
        "",
        ("tests/unit/estimators/test_export.py", "-k", "scikit_learn_alone"),
    ),
    Mutant(
        "weights are not capped (targets of weighted losses)",
        "losses/weighted.py",
        "return np.clip(np.nan_to_num(weights, nan=0.0), 0.0, 1.0)",
        "return np.maximum(np.nan_to_num(weights, nan=0.0), 0.0)",
        "",
        ("tests/unit/estimators/test_weights.py::test_weights_multiply_the_loss_and_never_exceed_the_cap",),
    ),
    Mutant(
        "weighted losses of two classes count as losses of the margin",
        "losses/weighted.py",
        "    sides = 2\n",
        "    sides = 1\n",
        "",
        ("tests/unit/estimators/test_weights.py::test_a_weight_of_zero_is_within_the_range_of_losses",),
    ),
    Mutant(
        "an open quote joins lines where no cell may hold a line break",
        "data/_csv_loops.py",
        "starts, stops, comma) and breaks:",
        "starts, stops, comma):",
        "",
        ("tests/unit/data/test_csv_file.py::test_a_line_joins_others_only_where_cells_may_hold_line_breaks",),
    ),
    Mutant(
        "a schema's word on line breaks does not reach the reader",
        "data/read.py",
        "(schema.numeric_names, schema.line_breaks)",
        "(schema.numeric_names, True)",
        "",
        ("tests/unit/data/test_csv_file.py::test_schemas_say_that_no_cell_holds_line_breaks",),
    ),
    Mutant(
        "users of rows whose order nobody knows",
        "problems/data/sources/rows.py",
        "        if not self.ordered:",
        "        if not what:",
        "",
        (
            "tests/unit/problems/data/test_sources.py::"
            "test_what_goes_by_place_needs_an_order_that_is_known_or_declared[users]",
        ),
    ),
    Mutant(
        "a search divides rows whose order nobody knows",
        "estimators/search.py",
        '            table.require_order("the parts of a search")',
        "            pass",
        "",
        (
            "tests/unit/problems/data/test_sources.py::"
            "test_what_goes_by_place_needs_an_order_that_is_known_or_declared[search]",
        ),
    ),
    Mutant(
        "files of one table may give a column other types",
        "problems/data/sources/arrow.py",
        "            same_types(X, chosen)",
        "            pass",
        "",
        ("tests/unit/data/test_table_files.py::test_files_of_one_table_have_the_same_types",),
    ),
    Mutant(
        "CSV: records say whether carriage returns end lines",
        "data/csv_file.py",
        '    first, feed, _ = file.read(_HEAD).partition(b"\\n")',
        '    first, feed = file.read(_HEAD).replace(b"\\r\\n", b""), b""',
        "",
        ("tests/unit/data/test_csv_file.py::test_a_lone_quote_in_the_header_lets_no_record_choose_how_lines_end",),
    ),
    Mutant(
        "looks: which parts are on offer follows from the counts",
        "algorithms/erm/two_stage/ranges.py",
        "offered(halved * look.scale / n) if n else",
        "offered(halved * look.scale / max(counts.sum(), 1)) if n else",
        "",
        (
            "tests/unit/algorithms/erm/two_stage/test_added_looks.py::"
            "test_scores_are_counts_and_numbers_of_the_declared_n[False]",
        ),
    ),
    Mutant(
        "types of what stands in names of folders are guessed",
        "data/read.py",
        "            return _folders(system, names)",
        '            return __import__("pyarrow.dataset").dataset.dataset(names, partitioning="hive")',
        "",
        ("tests/unit/data/test_table_files.py::test_a_record_whose_cell_names_a_folder_changes_no_other",),
    ),
    Mutant(
        "model files hold addresses",
        "estimators/persistence.py",
        "    content = archive(_state(estimator))",
        '    content = __import__("skops.io").io.dumps(_state(estimator))',
        "",
        ("tests/unit/estimators/test_persistence.py::test_files_hold_no_addresses",),
    ),
    Mutant(
        "searches score by a matrix product",
        "algorithms/search/scores.py",
        "        blind = model._blind(by_row=True)",
        "        blind = model._blind()",
        "",
        ("tests/unit/estimators/test_private_search.py::test_a_user_s_rows_move_no_bit_of_other_users_scores",),
    ),
    Mutant(
        "Dask: one cell changes the types of its partition",
        "problems/data/sources/cluster.py",
        "part.astype(dict.fromkeys(others, object)) if len(others) else part",
        "part",
        "",
        (
            "tests/unit/problems/data/test_clusters.py::"
            "test_a_cell_that_changes_the_types_of_its_part_changes_no_other_cell",
        ),
    ),
    Mutant(
        "Dask: a missing label rounds the labels of its partition",
        "estimators/_streams.py",
        'kind.kind in "iu" and kind.itemsize == 8',
        "False",
        "",
        ("tests/unit/problems/data/test_clusters.py::test_users_labels_are_arrow_numbers",),
    ),
    Mutant(
        "a list without records raises where their number is private",
        "estimators/_matrices.py",
        "    if empty and isinstance(X, list | tuple):",
        "    if False:",
        "",
        ("tests/unit/estimators/test_neighbors.py::test_tables_of_every_kind[array]",),
    ),
    Mutant(
        "a column's type decides how its cells are read",
        "data/frames.py",
        "    if not is_float(values) and texts:\n        values = parse_numbers(values)",
        "    if not is_float(values) and texts:\n        values = parse_numbers(values).fill_null(1e9)",
        "",
        ("tests/unit/data/test_schema_encoding.py::test_one_text_among_numbers_changes_no_other_cell",),
    ),
    Mutant(
        "the indicator of a missing number is not counted in the bound",
        "data/columns.py",
        "out[:, 1] = np.where(np.isnan(cells), 0.5, 0.0)",
        "out[:, 1] = np.where(np.isnan(cells), 1.0, 0.0)",
        "",
        ("tests/unit/data/test_formulas.py::test_no_content_raises_and_every_record_is_read_by_itself",),
    ),
    Mutant(
        "a source of noise travels with tasks",
        "estimators/base.py",
        "return other.set_params(random_state=None)",
        "return other",
        "",
        (f"{SOURCES}::test_tasks_hold_no_source_of_noise_and_no_ledger",),
    ),
    Mutant(
        "after a private level a plan may need single records",
        "algorithms/erm/heavy_tailed/clipped_residuals.py",
        "options=Options(constants, sums=sums))[0]",
        "options=Options(constants))[0]",
        "",
        (f"{SOURCES}::test_what_follows_a_private_level_needs_sums_whatever_it_is",),
    ),
    Mutant(
        "a user of several portions is cut in each",
        "problems/data/users.py",
        "users, complete = own[firsts], whole.sizes == expected[firsts]",
        "users, complete = own[firsts], expected[firsts] > 0",
        "",
        (SOURCES, "-k", "users and gradient"),
    ),
    Mutant(
        "very unequal weights summed on one grid",
        "problems/data/summation.py",
        "return 2.0 ** (1 - _CLASS * k) if k else 1.0",
        "return 1.0",
        "",
        ("tests/unit/problems/data/test_summation.py", "-k", "weights"),
    ),
    Mutant(
        "every task gets what is held of all rows",
        "problems/data/sources/rows.py",
        "waiting.append(pool.submit(work, piece, first, held(first, stop)))",
        "waiting.append(pool.submit(work, piece, first, held(first, n)))",
        "",
        (f"{SOURCES}::test_what_the_driver_holds_goes_to_the_portion_it_is_of",),
    ),
    Mutant(
        "a search is fitted to its held-out rows elsewhere",
        "problems/data/sources/arrow.py",
        "return replace(self, n=len(index), read=some)",
        "return self",
        "",
        (SOURCES, "-k", "bits and search and not users"),
    ),
    Mutant(
        "extensions: planes steeper than C are not shrunk",
        "problems/linear/lipschitz_extension.py",
        "share = np.where(length > level, level / np.maximum(length, 1e-300) * (1 - 4e-16), 1.0)[:, None]",
        "share = np.ones((len(length), 1))",
        "",
        (
            "tests/unit/algorithms/erm/heavy_tailed/test_surrogates.py::test_t33_planes_never_exceed_the_extension_at_another_member",
        ),
    ),
    Mutant(
        "localization: the second stage is around what was not released",
        "algorithms/erm/heavy_tailed/localization.py",
        "region = self.near(point, stage)",
        "region = self.near(region.project(solved), stage)",
        "",
        (
            "tests/unit/algorithms/erm/heavy_tailed/test_surrogates.py::test_the_second_stage_is_around_the_release_and_not_around_the_data",
        ),
    ),
    Mutant(
        "extensions: the planned radius leaves no room for rounding",
        "algorithms/erm/heavy_tailed/surrogates.py",
        "return math.sqrt(32 * rounding / part.l2)  # rho <= alpha / 16",
        "return 0.0 * rounding",
        "",
        (
            "tests/unit/algorithms/erm/heavy_tailed/test_surrogates.py::test_planned_radii_leave_room_for_tolerance_and_rounding",
        ),
    ),
    Mutant(
        "evaluation: the second table of counts is free",
        "algorithms/queries/evaluation.py",
        "self._widened(2.0 * len(self.shapes))",
        "self._widened(2.0)",
        "private_evaluation/classes",
        ("tests/unit/algorithms/queries/test_evaluation.py::test_no_unit_moves_the_sums_by_more_than_the_sensitivity",),
    ),
    Mutant(
        "evaluation: a unit that changes its group is counted once",
        "algorithms/queries/evaluation.py",
        "Sensitivity(self._widened(1.0 if groups == 1 else 2.0),",
        "Sensitivity(self._widened(1.0),",
        "private_evaluation/numbers_of_users",
        ("tests/unit/algorithms/queries/test_evaluation.py::test_no_unit_moves_the_sums_by_more_than_the_sensitivity",),
    ),
    Mutant(
        "evaluation: every record of a user has weight 1",
        "algorithms/queries/evaluation.py",
        "users.spread(ONE // users.sizes.astype(float))",
        "users.spread(ONE * np.ones(users.n_users))",
        "private_evaluation/users",
        ("tests/unit/algorithms/queries/test_evaluation.py::test_users_share_one_weight_and_sizes_must_fit",),
    ),
    Mutant(
        "evaluation: numbers are not clipped",
        "algorithms/queries/evaluation.py",
        "inside = np.clip(np.nan_to_num(values, nan=0.0), 0.0, 1.0)",
        "inside = np.nan_to_num(values, nan=0.0)",
        "private_evaluation/numbers",
        ("tests/unit/algorithms/queries/test_evaluation.py::test_no_unit_moves_the_sums_by_more_than_the_sensitivity",),
    ),
    Mutant(
        "evaluation: scores of a matrix product",
        "estimators/_features.py",
        "_loops.predictions(inside, weights, out[first : first + PREDICTED])",
        "out[first : first + PREDICTED] = inside @ weights.T",
        "",
        ("tests/unit/estimators/test_private_metrics.py::test_scores_are_functions_of_their_rows_to_the_last_bit",),
    ),
    Mutant(
        "hold-out: the parts are the ends of the table",
        "estimators/evaluation.py",
        "order = source.generator().permutation(units)",
        "order = np.arange(units)",
        "",
        ("tests/unit/estimators/test_private_metrics.py::test_the_held_out_units_are_random_and_stored_nowhere",),
    ),
    Mutant(
        "hold-out: the order is the same every time",
        "estimators/evaluation.py",
        "order = source.generator().permutation(units)",
        "order = np.random.default_rng(0).permutation(units)",
        "",
        ("tests/unit/estimators/test_private_metrics.py::test_the_held_out_units_are_random_and_stored_nowhere",),
    ),
    Mutant(
        "hold-out: only the fit is charged",
        "estimators/evaluation.py",
        "PrivacyParams(max(plan.privacy.epsilon, epsilon), plan.privacy.delta, unit=unit)",
        "PrivacyParams(plan.privacy.epsilon, plan.privacy.delta, unit=unit)",
        "",
        ("tests/unit/estimators/test_private_metrics.py::test_a_hold_out_charges_the_larger_price_once",),
    ),
    Mutant(
        "joint histogram: counts plus the sampler's representative",
        "mechanisms/k_norm.py",
        "return real.add_noise(np.nan_to_num(value), self.norm, self.scale, self.step, source)",
        "noise = real.add_noise(np.zeros(self.norm.dim), self.norm, self.scale, self.step, source); "
        "return np.nan_to_num(value) + noise - noise[0]",
        "",
        (f"{HISTOGRAM}::test_columns_keep_their_sum_and_no_count_is_given_away",),
    ),
    Mutant(
        "joint histogram: one column's sensitivity for all of them",
        "mechanisms/k_norm.py",
        "_rounding.sum_up(self.norm.weights.tolist())",
        "_rounding.sum_up(self.norm.weights.tolist()) / len(self.cells)",
        "mechanism/joint_histogram",
        (f"{HISTOGRAM}::test_the_density_ratio_reaches_epsilon_and_never_more",),
    ),
    Mutant(
        "private ranges: the method spends all of epsilon",
        "algorithms/erm/two_stage/ranges.py",
        "return _rounding.difference_down(epsilon, _rounding.sum_up(shares))",
        "return epsilon",
        "",
        (f"{RANGES}::test_the_budget_is_split_before_the_run",),
    ),
    Mutant(
        "private ranges: looks at all that were found for the price of one",
        "algorithms/erm/two_stage/ranges.py",
        "CLOSER: self._open}",
        "CLOSER: 1}",
        "",
        (f"{RANGES}::test_parts_of_the_ranges_found_are_chosen_privately",),
    ),
    Mutant(
        "private ranges: each look at one that was found spends what all may",
        "algorithms/erm/two_stage/ranges.py",
        "of(_rounding.ratio_down(share, count)) if _closer",
        "of(share) if _closer",
        "",
        (f"{RANGES}::test_parts_of_the_ranges_found_are_chosen_privately",),
    ),
    Mutant(
        "private ranges: users' cells are rounded one by one",
        "problems/data/users.py",
        "units[largest] += np.arange(len(keys)) - starts[user] < left[user]",
        "units = np.rint(found * UNITS / sizes).astype(np.int64)",
        "",
        (f"{RANGES}::test_users_have_weights_that_add_up_to_exactly_one",),
    ),
    Mutant(
        "private ranges: knots from what was counted, not from what was released",
        "algorithms/erm/two_stage/ranges.py",
        "zip(outer, noisy, off, knots, strict=False))",
        "zip(outer, crowds.reshape(noisy.shape), off, knots, strict=False))",
        "",
        (f"{RANGES}::test_edges_are_read_off_what_was_released",),
    ),
    Mutant(
        "private knots: read off what was counted, not off what was released",
        "algorithms/erm/two_stage/ranges.py",
        "ranges.sought, noisy[self._open :]",
        "ranges.sought, crowds.reshape(noisy.shape)[self._open :]",
        "",
        (f"{RANGES}::test_knots_are_read_off_what_was_released",),
    ),
    Mutant(
        "private knots: the histogram is not in the ledger",
        "algorithms/erm/two_stage/ranges.py",
        'RANGES: "first", CROWDS: "second", ',
        'RANGES: "first", ',
        "",
        (f"{RANGES}::test_knots_are_found_in_declared_logarithmic_ranges",),
    ),
    Mutant(
        "private knots: the method spends all of epsilon",
        "algorithms/erm/two_stage/ranges.py",
        "shares = _shares(epsilon, n, columns, placed, target, knots) if columns or placed or target else [0.0]",
        "shares = _shares(epsilon, n, columns, placed, target, knots) if columns or target else [0.0]",
        "",
        (f"{RANGES}::test_knots_are_found_in_declared_logarithmic_ranges",),
    ),
    Mutant(
        "private ranges: missing cells are counted nowhere",
        "problems/data/ranges.py",
        "return np.where(np.isnan(values), MISSING,",
        "values = values[~np.isnan(values)]; levels = levels[-len(values) :]; "
        "return np.where(np.isnan(values), MISSING,",
        "",
        (f"{RANGES}::test_changing_a_record_changes_every_column_by_two_at_most",),
    ),
    Mutant(
        "recentering: a user's records are added up, not averaged",
        "algorithms/erm/two_stage/centering.py",
        "return int((np.add.reduceat(values[order], groups.starts[:-1]) // groups.sizes).sum())",
        "return int(values.sum() // max(1, len(values) // groups.n_users))",
        "",
        (f"{CENTERING}::test_a_replaced_user_moves_mean_and_shares_as_one_record_would",),
    ),
    Mutant(
        "recentering: users' records are taken in the order of the table",
        "algorithms/erm/two_stage/centering.py",
        "np.add.reduceat(values[order], groups",
        "np.add.reduceat(values, groups",
        "",
        (f"{CENTERING}::test_a_replaced_user_moves_mean_and_shares_as_one_record_would",),
    ),
    Mutant(
        "joint bound: entries are not clipped before records are shortened",
        "problems/data/domain.py",
        "np.clip(part, -largest, largest, out=part)",
        "pass",
        "",
        (f"{JOINT_BOUND}::test_no_record_is_longer_than_stated",),
    ),
    Mutant(
        "joint bound: a record is as long as its largest entry",
        "problems/data/domain.py",
        "return math.sqrt(self.bound) * math.sqrt(self.largest) * (1",
        "return self.largest * (1",
        "",
        (f"{JOINT_BOUND}::test_no_record_is_longer_than_stated",),
    ),
    Mutant(
        "joint bound: verification takes the largest entry for the bound",
        "_leverage.py",
        'longest = Fraction(block["bound"]) * Fraction(block.get("largest", block["bound"]))',
        'longest = Fraction(block["bound"]) ** 2',
        "",
        (f"{JOINT_BOUND}::test_verification_recomputes_the_length_from_the_largest_entry",),
    ),
    Mutant(
        "joint bound: users' records are counted, not their shares",
        "algorithms/erm/two_stage/joint_bound.py",
        "(within(sums(X), self.bounds, groups),)",
        "(within(sums(X), self.bounds, None),)",
        "",
        (f"{JOINT_BOUND}::test_a_replaced_user_moves_a_sum_of_shares_by_one_at_most",),
    ),
    Mutant(
        "joint bound: the best bound is taken without noise",
        "algorithms/erm/two_stage/joint_bound.py",
        "bound = float(self.bounds[self.first.release(kept + self.gains, BOUND, source, ledger)])",
        "self.first.charge(BOUND, ledger); bound = float(self.bounds[np.argmax(kept + self.gains)])",
        "joint_bound",
        (f"{JOINT_BOUND}::test_the_bound_is_drawn",),
    ),
    Mutant(
        "typical user: the method spends all of epsilon",
        "algorithms/erm/two_stage/typical_user.py",
        "rest = privacy.less(first.epsilon)",
        "rest = privacy",
        "",
        (f"{TYPICAL}::test_the_budget_is_split_before_the_run",),
    ),
    Mutant(
        "typical user: read off what was counted, not off what was released",
        "algorithms/erm/two_stage/typical_user.py",
        "self.informed(self.read_off(noisy))",
        "self.informed(self.read_off(counts))",
        "",
        (f"{TYPICAL}::test_only_released_counts_are_read",),
    ),
    Mutant(
        "typical user: a user counts once for every record",
        "algorithms/erm/two_stage/typical_user.py",
        "counts = np.bincount(cells, minlength=len(TYPICAL)).astype(np.float64)",
        "counts = np.bincount(cells, groups.sizes, len(TYPICAL))",
        "",
        (f"{TYPICAL}::test_a_replaced_user_moves_the_counts_by_two_at_most",),
    ),
    Mutant(
        "joint histogram: half the sensitivity",
        "mechanisms/k_norm.py",
        "value = _rounding.product_up(2.0, _rounding.sum_up(self.norm.weights.tolist()))",
        "value = _rounding.sum_up(self.norm.weights.tolist())",
        "mechanism/joint_histogram",
        (f"{HISTOGRAM}::test_the_density_ratio_reaches_epsilon_and_never_more",),
    ),
    Mutant(
        "private ranges: a digest without the ranges",
        "estimators/_digest.py",
        '**({"ranges": [astuple(each) for each in model.ranges_]} if model.ranges_ else {}),',
        "",
        "",
        (f"{RANGES}::test_one_certificate_for_ranges_and_model_that_verifies",),
    ),
    Mutant(
        "private ranges: users of portions are counted portion by portion",
        "algorithms/erm/two_stage/ranges.py",
        "if groups is None or not isinstance(X, EncodedRows):",
        "if True:",
        "",
        (f"{RANGES}::test_tables_read_by_portions_give_the_same_bits",),
    ),
    Mutant(
        "private ranges: the second histogram is not in the ledger",
        "algorithms/erm/two_stage/ranges.py",
        'RANGES: "first", CROWDS: "second", ',
        'RANGES: "first", ',
        "",
        (f"{RANGES}::test_one_certificate_for_ranges_and_model_that_verifies",),
    ),
    Mutant(
        "private ranges: the target's octaves are not in the ledger",
        "algorithms/erm/two_stage/ranges.py",
        'TARGET: "of_target", ',
        "",
        "",
        (f"{RANGES}::test_a_target_has_a_part_of_its_own",),
    ),
    Mutant(
        "private ranges: the target's octaves are counted twice for one price",
        "algorithms/erm/two_stage/ranges.py",
        "others = _rounding.difference_down(octaves[0], own)",
        "others = octaves[0]",
        "",
        (f"{RANGES}::test_a_target_has_a_part_of_its_own",),
    ),
    Mutant(
        "private ranges: the end of a range is the largest value",
        "algorithms/erm/two_stage/ranges.py",
        "plan = continued(self, outer=outer, edges=edges, target_cells=target, cells=cells)",
        "most = [float(np.nanmax(np.where(np.isfinite(X[:, k]), X[:, k], 0.0))) for k in self.columns]; "
        "outer = tuple(replace(o, upper=max(o.upper, m)) for o, m in zip(outer, most, strict=False)); "
        "plan = continued(self, outer=outer, edges=edges, target_cells=target, cells=cells)",
        "",
        (f"{RANGES}::test_found_ranges_are_functions_of_released_counts",),
    ),
    Mutant(
        "curvature: a number's square counts as half of its bound",
        MOMENTS,
        "(0.5 if a is b and len(a) == 1 else 1.0)",
        "(0.25 if a is b and len(a) == 1 else 1.0)",
        "",
        (BENT, "-k", "no_pair_of_records"),
    ),
    Mutant(
        "curvature: a level counts as a number in [0, 1]",
        MOMENTS,
        "return UP, np.repeat([*k, own], 2)",
        "return UP / 2, np.repeat([*k, own], 2)",
        "",
        (BENT, "-k", "no_pair_of_records"),
    ),
    Mutant(
        "curvature: sensitivity for one record instead of a difference of two",
        BENDS,
        "_rounding.product_up(2.0, length, rounding)",
        "_rounding.product_up(1.0, length, rounding)",
        "objective_perturbation_with_curvature",
        (BENT, "-k", "half_of_it_would_not"),
    ),
    Mutant(
        "curvature: cells without a level are left out of the layout",
        MOMENTS,
        "patterns[d][np.ix_(k, k)] = (1 - np.eye(d)) / (d * (d - 1))",
        "patterns[d][np.ix_(k, k)] = 0.0",
        "",
        (BENT, "-k", "tenth_of_the_cells"),
    ),
    Mutant(
        "curvature: taken where the solver stopped, before its noise",
        BENDS,
        "block.predict(result.point), block",
        "block.predict(np.round(result.point, 2)), block",
        "",
        (BENT, "-k", "at_the_released_point"),
    ),
    Mutant(
        "curvature: a Gaussian curvature beside the Gaussian objective, as if squares of two prices added up",
        "privacy/events/objective.py",
        "shift = math.hypot(mu, self.rho, self.curvature_mu)",
        "shift = math.hypot(mu, self.rho, self.curvature_mu * (mu * self.sigma > 1.5 * self.gradient_bound))",
        "",
        (CURVED, "-k", "chooses_the_slopes"),
    ),
    Mutant(
        "curvature: the vertex at which no slope differs is left without the shift of the curvature",
        "privacy/events/objective.py",
        "shift = math.hypot(mu, self.rho, self.curvature_mu)",
        "shift = math.hypot(mu, self.rho, self.curvature_mu * (mu > 0))",
        "",
        (CURVED, "-k", "written_down_again"),
    ),
    Mutant(
        "curvature: the tangent is moved, its value without slope is not",
        "privacy/events/objective.py",
        "_rounding.widen_up(value - t * slope) + slack",
        "_rounding.widen_up(value) + slack",
        "",
        (CURVED, "-k", "lines_lie_above"),
    ),
    Mutant(
        "curvature: a Gaussian block's length is that of two levels, whatever its columns are",
        MOMENTS,
        "(math.sqrt(0.5) * UP if np.isin(at, levels).all() else 1.0)",
        "math.sqrt(0.5) * UP",
        "",
        (BENT, "-k", "no_pair_of_records"),
    ),
    Mutant(
        "curvature: more of it is released than the minimizer's event says",
        "mechanisms/objective_noise.py",
        "if Fraction(one.sensitivity) > Fraction(mu) * Fraction(one.sigma):",
        "if one.sensitivity < 0:",
        "",
        ("tests/unit/mechanisms/test_objective_noise.py", "-k", "curvature_noise"),
    ),
    Mutant(
        "curvature: both stages are given the whole epsilon",
        BENDS,
        "first = replace(privacy, epsilon=_rounding.difference_down(privacy.epsilon, second))",
        "first = privacy",
        "",
        (BENT, "-k", "costs_add_up"),
    ),
    Mutant(
        "curvature: squared slopes are taken for slopes",
        BENDS,
        'blocks.append(Block(1, "l1", square / 2 * UP))',
        'blocks.append(Block(1, "l1", math.sqrt(square) / 8 * UP))',
        "",
        (BENT, "-k", "half_of_it_would_not"),
    ),
    Mutant(
        "curvature of shapes: products of vertices count half",
        MOMENTS,
        "return UP, places, patterns",
        "return UP / 2, places, patterns",
        "",
        (BENT, "-k", "products_of_vertices"),
    ),
    Mutant(
        "curvature of shapes: missing cells that stand in the middle of all knots are read as neighbors alone",
        MOMENTS,
        "if not knots.own or i == j or",
        "if i == j or",
        "",
        (BENT, "-k", "products_of_vertices"),
    ),
    Mutant(
        "curvature of users: every record counts 1",
        BENDS,
        "weights = None if groups is None else record_weights(groups)",
        "weights = None if groups is None else np.ones(groups.n_records)",
        "objective_perturbation_with_curvature/users",
        (BENT, "-k", "share_its_weight"),
    ),
    Mutant(
        "curvature of users: a mean gradient's levels count half, as if one of them stood in it",
        MOMENTS,
        "(0.5 if a is b and len(a) == 1 else 1.0)",
        "(0.5 if a is b else 1.0)",
        "",
        (BENT, "-k", "no_pair_of_users"),
    ),
    Mutant(
        "curvature of users: gradients are not cut to what their slopes allow",
        BENDS,
        "G = np.clip(np.nan_to_num(G), -most * layout.widths, most * layout.widths)",
        "G = np.nan_to_num(G)",
        "",
        (BENT, "-k", "no_pair_of_users"),
    ),
    Mutant(
        "curvature of users: sensitivity of half a replacement",
        BENDS,
        "_rounding.product_up(2.0, length, rounding)",
        "_rounding.product_up(1.0 if problem.grouped else 2.0, length, rounding)",
        "objective_perturbation_with_curvature/users",
        (BENT, "-k", "no_pair_of_users"),
    ),
    Mutant(
        "intervals: robust variances are not lifted where noise hides them",
        PIVOT,
        "seen + TUNING.lifted * noise",
        "seen",
        "",
        (PIVOTS, "-k", "robust_variances"),
    ),
    Mutant(
        "intervals: what the ridge shrinks is left out",
        PIVOT,
        "shift = l2 * (inverse @ v)",
        "shift = 0 * (inverse @ v)",
        "",
        (PIVOTS, "-k", "large_ridge"),
    ),
    Mutant(
        "intervals: the linear term's noise is divided by n once",
        INTERVALS,
        "center = given.linear / n**2",
        "center = given.linear / n",
        "",
        (PIVOTS, "-k", "scatter_as"),
    ),
    Mutant(
        "intervals: a level that noise hides is printed like any other",
        INTERVALS,
        "return seen & ~(c[:, self._repaired.unresolved] != 0).any(1)",
        "return seen | (c != 0).any(1)",
        "",
        (PIVOTS, "-k", "nobody_has"),
    ),
    Mutant(
        "look: a share of labels at half its sensitivity",
        INFORMED,
        '_mechanism(problem, (1.0, 0.5), "absolute"',
        '_mechanism(problem, (0.5, 0.5), "absolute"',
        "informed_gradient",
        (f"{LOOKS}::test_each_release_moves_by_its_sensitivity_at_most_and_nearly_that",),
    ),
    Mutant(
        "look: two bins counted as one",
        INFORMED,
        '(math.sqrt(2), 1.0), "l2", LENGTHS_LEMMA',
        '(1.0, 1.0), "l2", LENGTHS_LEMMA',
        "informed_gradient",
        (f"{LOOKS}::test_each_release_moves_by_its_sensitivity_at_most_and_nearly_that",),
    ),
    Mutant(
        "look: a gradient at half its sensitivity",
        INFORMED,
        'VECTOR, "l2", VECTORS_LEMMA, of_gradient',
        '(1.0, 1.0), "l2", VECTORS_LEMMA, of_gradient',
        "informed_gradient",
        (f"{LOOKS}::test_each_release_moves_by_its_sensitivity_at_most_and_nearly_that",),
    ),
    Mutant(
        "look: steps at half their sensitivity",
        INFORMED,
        'VECTOR, "l2", VECTORS_LEMMA, of_steps',
        '(1.0, 1.0), "l2", VECTORS_LEMMA, of_steps',
        "informed_gradient",
        (f"{LOOKS}::test_each_release_moves_by_its_sensitivity_at_most_and_nearly_that",),
    ),
    Mutant(
        "look: the last slope at half its sensitivity",
        INFORMED,
        'VECTOR, "absolute", VECTORS_LEMMA, of_last[0]',
        '(1.0, 1.0), "absolute", VECTORS_LEMMA, of_last[0]',
        "informed_gradient",
        (f"{LOOKS}::test_each_release_moves_by_its_sensitivity_at_most_and_nearly_that",),
    ),
    Mutant(
        "look: the last slope not charged beside the rest",
        INFORMED,
        " - columns_too - sum(last), *last",
        " - columns_too - last[1], *last",
        "informed_gradient",
        (f"{LOOKS}::test_shares_of_the_budget_add_up_to_it",),
    ),
    Mutant(
        "look: last slopes that are not cut",
        INFORMED,
        "return np.clip(np.nan_to_num(slopes, nan=0.0), -1.0, 1.0)[:, None]",
        "return np.clip(np.nan_to_num(slopes, nan=0.0), -2.0, 2.0)[:, None]",
        "informed_gradient",
        (LOOKS, "-k", "change_of_the_constants_slope_moves"),
    ),
    Mutant(
        "look: the slope is read before its noise",
        INFORMED,
        "end = float(self.slope.release(along, SLOPE, source, ledger)[0])",
        "end = float(self.slope.release(along, SLOPE, source, ledger)[0] * 0 + along[0])",
        "",
        (f"{LOOKS}::test_all_that_follows_the_look_follows_from_what_was_released",),
    ),
    Mutant(
        "look: slopes at the start from data instead of the release",
        INFORMED,
        "* found @ way / unit",
        "* mean(w, partial(seen._cut, level=level), 1.0, least) @ way / unit",
        "",
        (f"{LOOKS}::test_all_that_follows_the_look_follows_from_what_was_released",),
    ),
    Mutant(
        "look: the change of the constant's slope at half its sensitivity",
        INFORMED,
        'VECTOR, "absolute", VECTORS_LEMMA, of_last[1]',
        '(1.0, 1.0), "absolute", VECTORS_LEMMA, of_last[1]',
        "informed_gradient",
        (LOOKS, "-k", "change_of_the_constants_slope_moves"),
    ),
    Mutant(
        "look: the change of the constant's slope not charged beside the rest",
        INFORMED,
        "TUNING.slope_share, TUNING.constant_share * constant",
        "TUNING.slope_share, 0 * TUNING.constant_share * constant",
        "informed_gradient",
        (f"{LOOKS}::test_shares_of_the_budget_add_up_to_it",),
    ),
    Mutant(
        "look: the constant is moved by what its slope was before noise",
        INFORMED,
        "off = float(self.constant.release(moved, CONSTANT, source, ledger)[0])",
        "off = float(self.constant.release(moved, CONSTANT, source, ledger)[0] * 0 + moved[0])",
        "",
        (f"{LOOKS}::test_all_that_follows_the_look_follows_from_what_was_released",),
    ),
    Mutant(
        "look: gradients cut to twice the level",
        INFORMED,
        'shorten(scaled, "l2", 1.0)',
        'shorten(scaled, "l2", 2.0)',
        "informed_gradient",
        (f"{LOOKS}::test_each_release_moves_by_its_sensitivity_at_most_and_nearly_that",),
    ),
    Mutant(
        "look: not charged beside the steps",
        INFORMED,
        "(*before, 1 - sum(before)",
        "(*before, 1.0",
        "informed_gradient",
        (f"{LOOKS}::test_shares_of_the_budget_add_up_to_it",),
    ),
    Mutant(
        "look: centers of columns at half their sensitivity",
        INFORMED,
        '(2 * root, root), "l2", CENTERS_LEMMA',
        '(root, root), "l2", CENTERS_LEMMA',
        "",
        (f"{LOOKS}::test_each_release_moves_by_its_sensitivity_at_most_and_nearly_that",),
    ),
    Mutant(
        "look: widths of all columns as if they were one",
        INFORMED,
        '(root, root), "l2", WIDTHS_LEMMA',
        '(1.0, 1.0), "l2", WIDTHS_LEMMA',
        "",
        (f"{LOOKS}::test_each_release_moves_by_its_sensitivity_at_most_and_nearly_that",),
    ),
    Mutant(
        "look: widths around centers that were not released",
        INFORMED,
        "self.look.centers(center)",
        "self.look.centers(sums(integer_means(X, partial(units, same), groups)))",
        "",
        (f"{LOOKS}::test_each_release_moves_by_its_sensitivity_at_most_and_nearly_that",),
    ),
    Mutant(
        "look: widths that are not cut",
        INFORMED,
        "np.minimum(2 * np.sqrt(square), 1.0)",
        "2 * np.sqrt(square)",
        "",
        (f"{LOOKS}::test_each_release_moves_by_its_sensitivity_at_most_and_nearly_that",),
    ),
    Mutant(
        "look: a user's records are added up",
        USERS_OF,
        "return sums(X, codes, groups.n_users) // groups.sizes[:, None]",
        "return sums(X, codes, groups.n_users)",
        "",
        (f"{LOOKS}::test_each_release_moves_by_its_sensitivity_at_most_and_nearly_that",),
    ),
    Mutant(
        "look: what a user counts as at least follows from all users",
        INFORMED,
        "most * np.sqrt(mean)",
        "most * np.sqrt(mean.mean())",
        "",
        (f"{LOOKS}::test_what_a_user_counts_as_at_least_follows_from_its_own_records",),
    ),
    Mutant(
        "look: columns not charged beside the rest",
        INFORMED,
        " - columns_too",
        "",
        "informed_gradient",
        (f"{LOOKS}::test_shares_of_the_budget_add_up_to_it",),
    ),
    Mutant(
        "look: releases read without limits",
        LOOK,
        "shares = float(np.clip(share, -FARTHEST, FARTHEST)), np.clip(shares, -FARTHEST, FARTHEST)",
        "shares = float(share), np.asarray(shares)",
        "",
        (f"{LOOKS}::test_extreme_releases_lead_to_a_run",),
    ),
    Mutant(
        "look: an intercept that is off is taken for signal",
        LOOK,
        " + (unknown * block.l2) ** 2 / block.size",
        " + 0 * (unknown * block.l2) ** 2 / block.size",
        "",
        (f"{LOOKS}::test_an_intercept_that_is_off_is_no_signal",),
    ),
    Mutant(
        "look: a quiet gradient makes the run timid",
        LOOK,
        "max(self._risked(length), self._seen",
        "min(self._risked(length), self._seen",
        "",
        (f"{LOOKS}::test_a_look_may_only_make_the_run_bolder",),
    ),
    Mutant(
        "look: points in other units of the constant than gradients",
        LOOK,
        "self.moved_parts(point).sum()) * self.unit",
        "self.moved_parts(point).sum())",
        "",
        (f"{LOOKS}::test_gradients_and_points_change_coordinates_together",),
    ),
    Mutant(
        "a budget whose noise grows too slowly with its uses",
        COUNTED,
        'math.sqrt(_validate.integer("uses", uses, at_least=1))',
        '_validate.integer("uses", uses, at_least=1) ** 0.25',
        "informed_gradient",
        (f"{USES}::test_the_price_does_not_depend_on_the_number_of_uses",),
    ),
    Mutant(
        "a budget that may be used beyond its number",
        COUNTED,
        "self._each is None or self._done >= self._uses",
        "self._each is None",
        "",
        (f"{USES}::test_no_use_before_the_number_is_set_and_none_beyond_it",),
    ),
    Mutant(
        "clipping sums in the order of the memory, so other records change last bits",
        "problems/data/domain.py",
        'dtype=np.float64, order="C")',
        "dtype=np.float64)",
        "",
        ("tests/unit/problems/data/test_domain.py::test_no_record_changes_the_bits_of_another",),
    ),
    Mutant(
        "users: the grid of a user's sums follows from how many records others have",
        USERS_OF,
        "self.size = _reach(loss, records, w)",
        "self.size = _reach(loss, records, w) * float(1.0 if weights is None else weights.max(initial=0.0))",
        "",
        ("tests/unit/problems/data/test_user_gradients.py",),
    ),
    Mutant(
        "a budget whose number may be set again",
        COUNTED,
        "if self._each is not None:",
        "if self._done > 0:",
        "",
        (f"{USES}::test_the_number_is_set_once",),
    ),
    Mutant(
        "a budget that is recorded at its end",
        COUNTED,
        "        ledger.record(self.planned(label))\n",
        "",
        "",
        (f"{USES}::test_the_budget_is_recorded_once_and_before_the_first_use",),
    ),
    Mutant(
        "added records: half the noise (Laplace)",
        TABLES,
        '"l1": (1.0, ADDED_LEMMA)',
        '"l1": (0.5, ADDED_LEMMA)',
        "queries/noisy_tables/added_pure",
        (f"{NOISY}::test_an_added_record_costs_what_is_charged_whatever_was_declared",),
    ),
    Mutant(
        "added records: half the noise (Gaussian)",
        TABLES,
        '"l2": (1.0, ADDED_LEMMA)',
        '"l2": (0.5, ADDED_LEMMA)',
        "queries/noisy_tables/added",
        (f"{NOISY}::test_an_added_record_costs_what_is_charged_whatever_was_declared",),
    ),
    Mutant(
        "added records: shares of the true number of records",
        TABLES,
        "n = self.n if total is None else total.value",
        "n = self.n if total is None else max(1, len(codes))",
        "",
        (f"{NOISY}::test_all_that_leaves_is_a_function_of_noisy_counts",),
    ),
    Mutant(
        "added records: planned for the true number of records",
        "estimators/synthetic.py",
        "public = rows if self._relation.fixes_size else None",
        "public = rows",
        "",
        ("tests/unit/estimators/test_synthetic_estimator.py::test_nothing_public_tells_how_many_records_there_are",),
    ),
    Mutant(
        "added records: an error tells how many records there are",
        "algorithms/queries/base.py",
        'f"records have {cells.ndim} axes and dtype {cells.dtype}: integers of shape (records,)"',
        'f"records have shape {cells.shape} and dtype {cells.dtype}: integers of shape (records,)"',
        "",
        (f"{NOISY}::test_refusals_do_not_tell_how_many_records_there_are",),
    ),
    Mutant(
        "added records: intervals that take the estimated number for the true one",
        "algorithms/queries/released_tables.py",
        "off = 0.0 if self.total is None else self.total.reach(missed) / self.total.value",
        "off = 0.0",
        "",
        (f"{NOISY}::test_the_interval_of_a_large_share_allows_for_the_estimated_number",),
    ),
    Mutant(
        "users of noisy tables: every record counts 1",
        USERS_OF,
        "np.floor(unit / groups.sizes) / unit",
        "np.ones(groups.n_users)",
        "queries/noisy_tables/users_pure",
        (f"{NOISY}::test_a_replaced_user_costs_what_is_charged_and_no_more",),
    ),
    Mutant(
        "users of noisy tables: weights in units that the sensitivity does not know",
        USERS_OF,
        "np.floor(unit / groups.sizes) / unit",
        "np.floor(840 / groups.sizes)",
        "queries/noisy_tables/users",
        (f"{NOISY}::test_a_replaced_user_costs_what_is_charged_and_no_more",),
    ),
    Mutant(
        "users of noisy tables: weights rounded up",
        USERS_OF,
        "np.floor(unit / groups.sizes) / unit",
        "np.ceil(unit / groups.sizes) / unit",
        "",
        (f"{NOISY}::test_a_replaced_user_costs_what_is_charged_and_no_more",),
    ),
    Mutant(
        "users of noisy tables: one record each, the first after a shuffle of all rows from one seeded stream",
        USERS_OF,
        "return groups.spread(np.floor(unit / groups.sizes) / unit)",
        "owner, shuffled = groups.spread(np.arange(unit * 0, groups.n_users)), np.random.default_rng(0).permutation; "
        "first = np.lexsort((shuffled(groups.n_records), owner))[groups.starts[:-1]]; "
        "return np.bincount(first, minlength=groups.n_records).astype(np.float64)",
        "queries/noisy_tables/users_pure",
        (f"{NOISY}::test_a_replaced_user_costs_what_is_charged_and_no_more",),
    ),
    Mutant(
        "users of noisy tables: the sensitivity says nothing of users",
        TABLES,
        "Sensitivity(moved, norm, lemma, privacy.neighboring, privacy.unit)",
        "Sensitivity(moved, norm, lemma, privacy.neighboring)",
        "queries/noisy_tables/users_pure",
        (f"{NOISY}::test_a_replaced_user_costs_what_is_charged_and_no_more",),
    ),
    Mutant(
        "users of noisy tables: planned for the number of records",
        "estimators/synthetic.py",
        "public, unit = users.n_users",
        "public, unit = users.n_records",
        "",
        ("tests/unit/estimators/test_synthetic_estimator.py::test_whose_rows_they_are_never_speaks",),
    ),
    Mutant(
        "users of noisy tables: every portion gets the weights of the first",
        "problems/data/sources/rows.py",
        "own[i:j]",
        "own[: j - i]",
        "",
        (
            "tests/unit/estimators/test_synthetic_estimator.py::"
            "test_portion_by_portion_users_are_protected_and_added_records_are_not",
        ),
    ),
    Mutant(
        "Gaussian noise for users: as many pairs of vertices as vertices",
        OBJECTIVE_EVENTS,
        "return ((m**2, epsilon - cost, 2.0), (m,",
        "return ((m, epsilon - cost, 2.0), (m,",
        "",
        (f"{CAPPED}::test_the_event_is_the_formula",),
    ),
    Mutant(
        "Gaussian noise for users: what curvature costs at slope 0 is forgotten",
        OBJECTIVE_EVENTS,
        "_rounding.widen_up(self.curvature * self.tau if free else cost)",
        "_rounding.widen_up(0.0 if free else cost)",
        "",
        (f"{CAPPED}::test_the_event_is_the_formula",),
    ),
    Mutant(
        "Gaussian noise for users: rows are those that a user is guessed to have",
        f"{PERTURBED}/planner.py",
        "else (rows, problem.dim)",
        "else (problem.records_per_user or 1, problem.dim)",
        "",
        (f"{CAPPED}::test_plans_rest_on_the_cap_and_never_on_a_guess",),
    ),
    Mutant(
        "Gaussian noise for users: the rank of a record",
        f"{PERTURBED}/planner.py",
        "else (rows, problem.dim)",
        "else (rows, 1)",
        "",
        (f"{CAPPED}::test_plans_rest_on_the_cap_and_never_on_a_guess",),
    ),
    Mutant(
        "Gaussian noise for users: the cap is stated and not applied",
        f"{PERTURBED}/plan.py",
        "if self.most_rows is not None:  #",
        "if self.most_rows is None:  #",
        "",
        (f"{CAPPED}::test_a_run_caps_before_it_weighs",),
    ),
    Mutant(
        "samples of users: two in the order of labels share a coin",
        GRADIENTS,
        "pick_users(groups, sample)",
        "pick_users(groups, np.unique(sample // 2 * 2))",
        "noisy_gradient/user_samples",
        ("tests/unit/algorithms/erm/test_sampled_gradient.py", "-k", "a_user_takes_part or a_new_label"),
    ),
    Mutant(
        "samples of users: divided by how many take part",
        GRADIENTS,
        "mean * (len(sample) / (rate * clipping.problem.n))",
        "mean / rate",
        "noisy_gradient/user_samples",
        ("tests/unit/algorithms/erm/test_sampled_gradient.py", "-k", "a_user_takes_part"),
    ),
    Mutant(
        "Gaussian noise for users: rows that differ in their targets count as one",
        USERS_OF,
        "np.column_stack([users[many], targets[many], records[many]])",
        "np.column_stack([users[many], records[many]])",
        "",
        (f"{CAPPED}::test_the_cap_keeps_whole_distinct_rows",),
    ),
    Mutant(
        "look at the target: the best part of its range, whatever was released",
        "algorithms/erm/two_stage/ranges.py",
        "chosen = parts[[look.release(each, label, source, ledger) for each in scores]]",
        "chosen = parts[[int(np.argmax(each)) + 0 * look.release(each, label, source, ledger) for each in scores]]",
        "",
        (f"{TARGET_RANGE}::test_the_part_is_the_one_that_was_released",),
    ),
    Mutant(
        "look at the target: weights are dropped after it",
        "algorithms/erm/two_stage/ranges.py",
        "return loss.packed(inside, weights) if isinstance(loss, WeightedLoss) else inside",
        "return loss.packed(inside, np.ones(len(inside))) if isinstance(loss, WeightedLoss) else inside",
        "",
        ("tests/unit/estimators/test_weights.py::test_weights_travel_through_a_look_at_the_target",),
    ),
    Mutant(
        "look at the target: weighted targets are counted as they are packed",
        "algorithms/erm/two_stage/ranges.py",
        "ranges.parts(SCALED, self._weighed(y)[0])[None]",
        "ranges.parts(SCALED, y)[None]",
        "",
        ("tests/unit/estimators/test_weights.py", "-k", "weights_of_one and Linear and records"),
    ),
    Mutant(
        "objective perturbation: curvature that saturates costs nothing",
        "privacy/events/objective.py",
        "short = min(max(1 / rate - 1 / (tau * q), 0.0), 1 / q, 1.0)",
        "short = 0.0",
        "objective_perturbation/saturating",
        ("tests/statistical/test_objective_perturbation_density.py", "-k", "saturating_slopes"),
    ),
    Mutant(
        "objective perturbation: a loss that is said to saturate bends up to its largest slope",
        "losses/base.py",
        "t = bent + np.copysign(self._reach / Q * np.expm1(-Q * self._past(t)), t)",
        "t = np.clip(t, -self._reach, self._reach)",
        "objective_perturbation/saturating",
        ("tests/contracts/test_losses.py", "-k", "derivative"),
    ),
    Mutant(
        "objective perturbation for users: shares of noise tried at floats of the noise alone",
        "algorithms/erm/objective_perturbation/regularization.py",
        "spent = (min(rank * Fraction(x), Fraction(epsilon)) for x in tried)",
        "spent = (Fraction(x) for x in (epsilon, math.nextafter(epsilon, 0), epsilon * (1 - 2**-52)))",
        "",
        ("tests/unit/algorithms/erm/test_objective_planner.py", "-k", "rounded_scale and users"),
    ),
    Mutant(
        "look at the target: half the sensitivity",
        "algorithms/erm/two_stage/ranges.py",
        'Sensitivity(1.0, "linf", LEMMA',
        'Sensitivity(0.5, "linf", LEMMA',
        "target_range",
        (f"{TARGET_RANGE}::test_scores_are_counts_and_public_numbers_on_a_grid",),
    ),
    Mutant(
        "look at the target: what narrow ranges score follows the data",
        "algorithms/erm/two_stage/ranges.py",
        "np.floor(STEPS * halved * np.log2",
        "np.floor(STEPS * halved * counts.max() / counts.mean() * np.log2",
        "",
        (f"{TARGET_RANGE}::test_scores_are_counts_and_public_numbers_on_a_grid",),
    ),
    Mutant(
        "look at columns: the best parts of their ranges, whatever was released",
        "algorithms/erm/two_stage/ranges.py",
        "chosen = parts[[look.release(each, label, source, ledger) for each in scores]]",
        "chosen = parts[[int(np.argmax(each)) + 0 * look.release(each, label, source, ledger) for each in scores]]",
        "",
        (f"{COLUMN_RANGES}::test_the_parts_are_those_that_were_released",),
    ),
    Mutant(
        "look at columns: all of them for the price of one",
        "algorithms/erm/two_stage/ranges.py",
        "times = {LOOKS: len(self.looked), CLOSER",
        "times = {LOOKS: 1, CLOSER",
        "",
        (f"{COLUMN_RANGES}::test_one_certificate_for_looks_and_model_that_verifies",),
    ),
    Mutant(
        "look at columns: half the sensitivity",
        "algorithms/erm/two_stage/ranges.py",
        'Sensitivity(1.0, "linf", LEMMA',
        'Sensitivity(0.5, "linf", LEMMA',
        "column_ranges",
        (f"{COLUMN_RANGES}::test_scores_move_by_no_more_than_counts",),
    ),
    Mutant(
        "look at columns: their means are taken off without noise",
        "algorithms/erm/two_stage/ranges.py",
        "ranges.keep(inside, self.looked, [ranges.kept(SCALED, *each) for each in self.cells])",
        "ranges.keep(inside, self.looked, [ranges.kept(SCALED, *each) for each in self.cells]); "
        "inside -= inside.mean(0)",
        "",
        (f"{COLUMN_RANGES}::test_fits_see_what_predictions_see",),
    ),
    Mutant(
        "look at columns: the method spends what they take",
        "estimators/_ranges.py",
        "looks = _rounding.sum_up(self._look_costs(features, privacy, n))",
        "looks = self._look_costs(features, privacy, n)[0]",
        "",
        (f"{COLUMN_RANGES}::test_one_certificate_for_looks_and_model_that_verifies",),
    ),
    Mutant(
        "private ranges: a user counts once for every record",
        "algorithms/erm/two_stage/ranges.py",
        "np.concatenate([histogram(each, count, groups) for each in found])",
        "np.concatenate([histogram(each, count, None) for each in found])",
        "",
        (f"{TARGET_RANGE}::test_a_replaced_user_moves_every_score_by_one_at_most",),
    ),
    Mutant(
        "added units: half of a unit's length is what one more moves",
        "algorithms/erm/gradient_descent/planner.py",
        "value = problem.differing * clip / self.least_batch",
        "value = 0.5 * clip / self.least_batch",
        "noisy_gradient/added",
        (f"{ADDED}::test_one_more_moves_a_sum_by_its_sensitivity_at_most_however_many_there_are",),
    ),
    Mutant(
        "added units: records are averaged over their own number",
        GRADIENTS,
        "within_reach(total(w) / problem.n / scales, clipping.level)",
        "within_reach(total(w) / records.n / scales, clipping.level)",
        "noisy_gradient/added",
        (f"{ADDED}::test_one_more_moves_a_sum_by_its_sensitivity_at_most_however_many_there_are",),
        3.0,
    ),
    Mutant(
        "added units: users are averaged over their own number",
        GRADIENTS,
        "n, facts = problem.n if problem.private_n else None, (",
        "n, facts = None, (",
        "noisy_gradient/added_users",
        (f"{ADDED}::test_one_more_moves_a_sum_by_its_sensitivity_at_most_however_many_there_are",),
        3.0,
    ),
    Mutant(
        "noisy gradient: users' gradients are cut before they are divided by the scales of blocks",
        USERS_OF,
        """            G /= 1.0 if scales is None else scales
            shorten(G, "l2", clip)""",
        """            shorten(G, "l2", clip)
            G /= 1.0 if scales is None else scales""",
        "noisy_gradient/user_samples",
        ("tests/unit/algorithms/erm/test_sampled_gradient.py", "-k", "as_far_as_charged"),
        3.0,
    ),
    Mutant(
        "added units: sums are not cut, however many there are",
        GRADIENTS,
        'shorten(cut, "l2", MOST_TIMES * level)',
        "pass",
        "",
        (f"{ADDED}::test_sums_of_far_more_units_than_declared_are_cut",),
    ),
    Mutant(
        "added units: shares of labels are not centered",
        INFORMED,
        "middle = 0.5 * problem.private_n",
        "middle = 0.0",
        "informed_gradient/added",
        (f"{ADDED}::test_no_user_more_moves_a_release_of_a_look_further_than_its_sensitivity_and_some_do_nearly",),
        2.0,
    ),
    Mutant(
        "added units: the last look is averaged over the users there are",
        INFORMED,
        "moved = self._mean(alike, point, change, 1.0)",
        "moved = alike(point, change, 1.0)",
        "",
        (f"{ADDED}::test_no_user_more_moves_a_release_of_a_look_further_than_its_sensitivity_and_some_do_nearly",),
    ),
    Mutant(
        "added units: curvature is free from half the ridge on",
        OBJECTIVE_EVENTS,
        "Fraction(self.tau) * self.pulls > self.noise_epsilon",
        "Fraction(self.tau) * (self.pulls - 1) > self.noise_epsilon",
        "",
        (f"{ADDED}::test_a_unit_more_costs_half_the_noise_and_needs_half_the_ridge",),
    ),
    Mutant(
        "added units: half of a gradient is what one more moves",
        f"{PERTURBED}/planner.py",
        "reach = _rounding.product_up(float(pulls), problem.loss.slope_bound_l1,",
        "reach = _rounding.product_up(float(pulls) / 2, problem.loss.slope_bound_l1,",
        "",
        (f"{ADDED}::test_the_density_of_a_minimizer_keeps_the_promise_and_uses_it",),
    ),
    Mutant(
        "added units: objective averages over the records there are",
        "problems/linear/objective.py",
        "float(self.counted[1] if self.counted else self.records.n)",
        "float(self.records.n)",
        "",
        (f"{ADDED}::test_the_minimum_is_that_of_a_sum_over_the_declared_number",),
    ),
    Mutant(
        "added units: plans are for the number that the data hold",
        "estimators/base.py",
        "n = self._public_count(None if declared else n)",
        "n = self._public_count(n)",
        "",
        ("tests/unit/estimators/test_neighbors.py",),
    ),
    Mutant(
        "capped softmax: only the pull of a record's own class is counted",
        "losses/classification.py",
        "return 2.0 * self.cap",
        "return (1.0 + (self.cap == 1)) * self.cap",
        "",
        ("tests/unit/algorithms/erm/test_objective_planner.py", "-k", "three_classes"),
    ),
    Mutant(
        "capped softmax: curvature as if the cap were that of two classes",
        "losses/classification.py",
        "2 * A - A * A * self.n_classes / (self.n_classes - 1)",
        "A - A * A",
        "",
        ("tests/unit/estimators/test_slope_cap.py", "-k", "trace_of_capped"),
    ),
    Mutant(
        "capped softmax: Gaussian noise for half of the cap",
        f"{PERTURBED}/planner.py",
        "slope = loss.slope_bound_l1 / 2 if copies > 1",
        "slope = loss.slope_bound_l1 / 2 * (loss.usual == loss or 0.5) if copies > 1",
        "",
        ("tests/unit/algorithms/erm/test_objective_planner.py", "-k", "gaussian_constants"),
    ),
    Mutant(
        "added looks: a quarter in the place of a half is what one more moves",
        "algorithms/erm/two_stage/ranges.py",
        'Sensitivity(0.5, "linf", ADDED_LEMMA)',
        'Sensitivity(0.25, "linf", ADDED_LEMMA)',
        "column_ranges/added",
        (f"{ADDED_LOOKS}::test_the_law_of_a_part_keeps_the_promise_and_uses_it",),
    ),
    Mutant(
        "added looks: what narrow ranges score follows the number of units",
        "algorithms/erm/two_stage/ranges.py",
        "np.floor(STEPS * halved * np.log2",
        "np.floor(STEPS * counts.sum() / 50 * np.log2",
        "",
        (f"{ADDED_LOOKS}::test_scores_are_counts_and_numbers_of_the_declared_n",),
    ),
    Mutant(
        "added looks: a part scores its share of the units",
        "algorithms/erm/two_stage/ranges.py",
        "np.cumsum(np.minimum(counts[: ranges.PARTS], FULL))",
        "50 * np.cumsum(counts[: ranges.PARTS] / max(counts.sum(), 1.0))",
        "",
        (f"{ADDED_LOOKS}::test_the_law_of_a_part_keeps_the_promise_and_uses_it",),
    ),
    Mutant(
        "added looks: cells are not cut, however full they are",
        "algorithms/erm/two_stage/ranges.py",
        "np.cumsum(np.minimum(counts[: ranges.PARTS], FULL))",
        "np.cumsum(counts[: ranges.PARTS])",
        "",
        (f"{ADDED_LOOKS}::test_scores_of_any_number_of_units_are_exact",),
    ),
    Mutant(
        "added looks: private histograms, too, as if they were proved",
        "algorithms/erm/two_stage/ranges.py",
        "hidden = not (columns or placed or target)",
        "hidden = True",
        "",
        (f"{ADDED_LOOKS}::test_private_histograms_are_for_replaced_units_alone",),
    ),
    Mutant(
        "looks: ends go to multiples of a step only where records are",
        "algorithms/erm/two_stage/ranges.py",
        "        if self.steps:\n",
        "        if self.steps and counts[5] > 0:\n",
        "",
        (TARGET_RANGE, "-k", "released_alone"),
    ),
    Mutant(
        "looks: one before a constant is not charged beside it",
        "estimators/_ranges.py",
        "own = _rounding.difference_down(privacy.epsilon, alone)",
        "own = _rounding.difference_down(privacy.epsilon, alone / 2)",
        "",
        (TARGET_RANGE, "-k", "few_units"),
    ),
    Mutant(
        "intervals: half the bound of a number and its mark of missing values",
        BENDS,
        '[Block(1, "linf", block.bound, block.name)] * 2',
        '[Block(1, "linf", block.bound / 2, block.name)] * 2',
        "",
        ("tests/unit/estimators/test_intervals.py", "-k", "mark_of_missing"),
    ),
)


def main() -> int:
    """Run the mutants that are asked for, write their rows."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", nargs="+", default=[""], metavar="WORD", help="mutants whose name holds one of these")
    parser.add_argument("--quick", action="store_true", help="tests only")
    parser.add_argument("--out", type=Path, help="Markdown file whose table is updated")
    options = parser.parse_args()
    rows = {}
    with tempfile.TemporaryDirectory() as folder:
        copy = Path(folder) / "src"
        shutil.copytree(SOURCE, copy)  # with its caches: they stay valid, as copies keep their times
        for mutant in MUTANTS:
            if any(word in mutant.name for word in options.only):
                rows[mutant.name] = detected(mutant, copy, options.quick)
                print(row(mutant.name, rows[mutant.name]), flush=True)
    if options.out:
        options.out.write_text(updated(options.out.read_text(encoding="utf-8"), rows), encoding="utf-8")
    return int(any(not any("caught" in verdict for verdict in verdicts) for verdicts in rows.values()))


def detected(mutant: Mutant, copy: Path, quick: bool) -> tuple[str, ...]:
    """Return what each detector says of a copy of the package, which is left as it was."""
    file, original = copy / "dpconvex" / mutant.file, SOURCE / "dpconvex" / mutant.file
    text = original.read_text(encoding="utf-8")
    if text.count(mutant.old) != 1:
        raise SystemExit(f"{mutant.name}: {mutant.file} holds {mutant.old!r} {text.count(mutant.old)} times, not once")
    file.write_text(text.replace(mutant.old, mutant.new), encoding="utf-8")
    try:
        if quick or not mutant.target:
            return "not run", "not run", _tests(mutant, copy), "not run"
        audit = ["-m", "dpconvex", "audit", mutant.target, "--epsilon", str(mutant.epsilon), "--json"]
        audit += ["--feature-norm", str(mutant.bound)]
        exact, counting = (_verdict(run(copy, *audit, *more)) for more in EXACT_THEN_COUNTING)
        return exact, counting, _tests(mutant, copy), _verified(mutant, copy)
    finally:
        shutil.copy2(original, file)


def _tests(mutant: Mutant, copy: Path) -> str:
    code = run(copy, *PYTEST, *mutant.tests).returncode
    if code == TOO_LONG:
        return "too long"
    if code != 1:
        return "-" if code == 0 else "?"
    return "caught" if passes(mutant.tests) else "fails without it"


@functools.lru_cache
def passes(tests: tuple[str, ...]) -> bool:
    """Whether tests pass on the unchanged package."""
    return run(SOURCE, *PYTEST, *tests).returncode == 0


def _verified(mutant: Mutant, copy: Path) -> str:
    script = CERTIFICATE.format(target=mutant.target, epsilon=mutant.epsilon, bound=mutant.bound)
    written = run(copy, "-c", script)
    if written.returncode or mutant.target.startswith("mechanism/"):
        return "no certificate"
    path = copy.parent / "certificate.json"
    path.write_text(written.stdout, encoding="utf-8")
    return "caught" if run(SOURCE, "-m", "dpconvex", "verify", str(path)).returncode else "-"


LONGEST, TOO_LONG = 300, 124
"""Time limit of one detector, in seconds, and the exit code that stands for a detector that exceeds it."""
PYTEST = ("-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", "-m", "not slow")  # full forms as well
EXACT_THEN_COUNTING = (
    ("--runs", "0", "--transcripts", "40", "--seconds", "8"),
    ("--transcripts", "0", "--runs", "800", "--seconds", "8"),
)


def _verdict(done: subprocess.CompletedProcess[str]) -> str:
    if done.returncode in (0, TOO_LONG):
        return "-" if done.returncode == 0 else "too long"
    if done.returncode == 2 and "error:" in done.stderr:
        return "caught: run refused"
    return "caught" if '"passed": false' in done.stdout else "caught: run fails"


def run(source: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run Python with this copy of the package before all others."""
    threads = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "NUMBA_NUM_THREADS", "POLARS_MAX_THREADS"), "1")
    environment = {**os.environ, **threads, "PYTHONPATH": str(source), "PYTHONDONTWRITEBYTECODE": "1"}
    command = [sys.executable, *arguments]
    try:
        return subprocess.run(
            command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False, timeout=LONGEST
        )
    except subprocess.TimeoutExpired:
        return subprocess.CompletedProcess(command, TOO_LONG, "", "")


def row(name: str, verdicts: tuple[str, ...]) -> str:
    """Return a line of the table, with today's date."""
    return f"| {name} | " + " | ".join(verdicts) + f" | {datetime.date.today().isoformat()} |"


def updated(text: str, rows: dict[str, tuple[str, ...]]) -> str:
    """Return a page whose table has these rows, and its other rows as they were, in the order of `MUTANTS`."""
    before, found, rest = text.partition(HEADER + "\n")
    if not found:
        raise SystemExit(f"the page has no table that begins with {HEADER}")
    lines = rest.split("\n")
    end = next(k for k, line in enumerate(lines) if not line.startswith("|"))
    kept = {line.split("|")[1].strip(): line for line in lines[1:end]}
    kept |= {name: row(name, verdicts) for name, verdicts in rows.items()}
    table = [kept[mutant.name] for mutant in MUTANTS if mutant.name in kept]
    return before + found + "\n".join([lines[0], *table, *lines[end:]])


if __name__ == "__main__":
    sys.exit(main())
