"""Independent Gaussian noise on the answers to many queries, and the histogram nearest to them."""

from dpconvex.algorithms.queries.noisy_answers.plan import QueryNoisePlan, expected_error, plan

__all__ = ["QueryNoisePlan", "expected_error", "plan"]
