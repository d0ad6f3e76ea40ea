"""Fit the peers: diffprivlib (pure); with a delta Opacus, noisy descent, Newton and, for numbers, three more.

    PYTHONPATH=benchmarks python -m side_by_side.peers [--quick] [--tables adult ...] [--methods opacus ...]

One grid suits all tables: clipping norms are in units of the longest row, and a step is given by its longest possible
move, `move` times (longest row) / (largest curvature). Methods called "tuned" take the setting with the least training
loss, which is not private.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from itertools import product
from typing import Any

import numpy as np

from side_by_side.cells import Data, Fit, Job, Method, arguments, entries, run
from side_by_side.noise import gaussian_mu, sampled_noise, shipped_noise, sketch_ridge

Setting = Mapping[str, Any]
MANY = 100_000  # records times outputs beyond which a thousand steps over all of them take too long
HUGE = 100_000_000  # entries times outputs beyond which only some settings are tried
CLASSIFICATION, REGRESSION = ("binary", "multiclass"), ("regression",)


def radius(data: Data) -> float:
    """Return the largest Euclidean length of a row with its constant feature."""
    return float(np.hypot(data.facts["norm"], 1.0))


def curvature(data: Data) -> float:
    """Return a bound on the curvature of one record's loss: log-loss, softmax, half squared error."""
    return radius(data) ** 2 * {"binary": 0.25, "multiclass": 0.5, "regression": 1.0}[data.kind]


def one_by_one(fit: Callable[[Data, Job], Fit]) -> Callable[[Data, Sequence[Job]], list[Fit]]:
    """Return a method that makes one fit at a time."""
    return lambda data, jobs: [fit(data, job) for job in jobs]


# diffprivlib


@one_by_one
def logistic_valid(data: Data, job: Job) -> Fit:
    """Fit rows scaled with their constant into the unit ball, where the guarantee holds (up to solver error)."""
    from diffprivlib.models import LogisticRegression

    R = radius(data)
    X = np.column_stack([data.X, np.ones(len(data.X))]) / R
    model = LogisticRegression(
        epsilon=job.epsilon, data_norm=1.0, fit_intercept=False, random_state=job.seed, **job.setting
    )
    coef = model.fit(X, data.y).coef_ / R
    if 1 < len(coef) < data.facts["outputs"]:  # a class without a training record gets almost no probability
        seen, coef = coef, np.tile(np.append(np.zeros(data.X.shape[1]), -30.0), (data.facts["outputs"], 1))
        coef[model.classes_.astype(int)] = seen
    return Fit(coef[:, :-1], coef[:, -1], link="one_vs_rest")


@one_by_one
def logistic_shipped(data: Data, job: Job) -> Fit:
    """Fit rows as they are, with the true bound on their length: there is less noise than the claimed epsilon needs."""
    from diffprivlib.models import LogisticRegression

    model = LogisticRegression(epsilon=job.epsilon, data_norm=data.facts["norm"], random_state=job.seed).fit(
        data.X, data.y
    )
    return Fit(model.coef_, model.intercept_, link="one_vs_rest")


def _bounds(data: Data) -> tuple[np.ndarray, np.ndarray]:
    """Return the range of every column: categories lie in [0, 1], numbers in [-1/2, 1/2]."""
    category = np.concatenate([np.full(size, norm == "l1" and size > 1) for size, norm, *_ in data.facts["blocks"]])
    return np.where(category, 0.0, -0.5), np.where(category, 1.0, 0.5)


@one_by_one
def linear_valid(data: Data, job: Job) -> Fit:
    """Fit columns moved to [-1/2, 1/2], the constant one, too: in other ranges squares get too little noise."""
    from diffprivlib.models import LinearRegression

    lower, upper = _bounds(data)
    middle = (lower + upper) / 2
    X = np.column_stack([data.X - middle, np.full(len(data.X), 0.5)])
    model = LinearRegression(
        epsilon=job.epsilon, bounds_X=(-0.5, 0.5), bounds_y=(-0.5, 0.5), fit_intercept=False, random_state=job.seed
    )
    w = model.fit(X, data.y).coef_
    return Fit(w[None, :-1], np.array([w[-1] / 2 - w[:-1] @ middle]))


@one_by_one
def linear_shipped(data: Data, job: Job) -> Fit:
    from diffprivlib.models import LinearRegression

    model = LinearRegression(epsilon=job.epsilon, bounds_X=_bounds(data), bounds_y=(-0.5, 0.5), random_state=job.seed)
    model.fit(data.X, data.y)
    return Fit(model.coef_[None, :], np.array([model.intercept_]).ravel())


# Noisy gradient descent over all records, written independently of ours


def slopes(kind: str, z: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Return the derivative of every record's loss by its linear predictions, (n, fits, outputs)."""
    if kind == "regression":
        z -= y[:, None, None]
    elif kind == "binary":
        np.exp(-z, out=z)
        z += 1
        np.reciprocal(z, out=z)
        z -= y[:, None, None]
    else:
        z -= z.max(axis=2, keepdims=True)
        np.exp(z, out=z)
        z /= z.sum(axis=2, keepdims=True)
        z[np.arange(len(y)), :, y.astype(int)] -= 1
    return z


def noisy_descent(data: Data, jobs: Sequence[Job]) -> list[Fit]:
    """Run full-batch descent on clipped gradients, with Gaussian noise for one replaced record, composed exactly.

    All `jobs` have the same number of steps and read the records together.
    """
    X = np.column_stack([data.single, np.ones(len(data.X), np.float32)])
    y, n, steps = data.y.astype(np.float32), data.facts["n"], jobs[0].setting["steps"]
    clip = np.array([job.setting["clip"] for job in jobs], np.float32) * np.float32(radius(data))
    mu = np.array([gaussian_mu(job.epsilon, job.delta) for job in jobs])
    sigma = 2 * clip * np.sqrt(steps) / mu
    rate = np.array([job.setting["move"] / job.setting["clip"] for job in jobs]) / curvature(data) / n
    generators = [np.random.default_rng(job.seed) for job in jobs]
    length = np.sqrt(np.einsum("ij,ij->i", X, X))[:, None]
    shape = (X.shape[1], len(jobs), data.facts["outputs"])
    W = np.zeros(shape, np.float32)
    for _ in range(steps):
        slope = slopes(data.kind, (X @ W.reshape(len(W), -1)).reshape(n, *shape[1:]), y)
        norms = length * (np.abs(slope[:, :, 0]) if shape[2] == 1 else np.linalg.norm(slope, axis=2))
        slope *= np.minimum(1, clip / np.maximum(norms, 1e-12))[:, :, None]
        noise = np.stack([rng.standard_normal(shape[::2]) for rng in generators], axis=1) * sigma[:, None]
        W -= (rate[:, None] * ((X.T @ slope.reshape(n, -1)).reshape(shape) + noise)).astype(np.float32)
    return [Fit(W[:-1, i].T.astype(float), W[-1, i].astype(float)) for i in range(len(jobs))]


def equally_long(data: Data, jobs: Sequence[Job]) -> list[list[Job]]:
    """Return batches of jobs with the same number of steps, each as large as memory allows."""
    most = max(1, 25_000_000 // (data.facts["n"] * data.facts["outputs"]))
    batches = []
    for steps in sorted({job.setting["steps"] for job in jobs}):
        equal = [job for job in jobs if job.setting["steps"] == steps]
        batches += [equal[first : first + most] for first in range(0, len(equal), most)]
    return batches


# Boosted AdaSSP


@one_by_one
def boosted_adassp(data: Data, job: Job) -> Fit:
    """Repeat ridge regression on clipped residuals with one noisy Gram matrix (Tang et al. 2023, Algorithm 2).

    For one replaced record, mu^2 adds up: a third is for the Gram matrix (a change has Frobenius norm at most
    sqrt(2) R^2, R the longest row), a twentieth for its least eigenvalue (R^2), the rest for the rounds (2 R clip).
    """
    n, R, mu = data.facts["n"], radius(data), gaussian_mu(job.epsilon, job.delta)
    clip, rounds = job.setting["clip"], job.setting["rounds"]
    rng = np.random.default_rng(job.seed)
    X = np.column_stack([data.X, np.ones(n)])
    d = X.shape[1]
    sigma = np.sqrt(2) * R**2 / (mu * np.sqrt(1 / 3))
    noise = np.triu(rng.normal(0, sigma, (d, d)))
    gram = X.T @ X
    least = np.linalg.eigvalsh(gram)[0] + rng.normal(0, R**2 / (mu * np.sqrt(0.05)))
    tail = sigma * np.sqrt(d * np.log(2 * d**2 / 0.05))  # bounds the noise's largest eigenvalue with probability .95
    ridge = max(0.0, tail - max(0.0, least - 2 * R**2 / (mu * np.sqrt(0.05))))
    inverse = np.linalg.pinv(gram + noise + np.triu(noise, 1).T + ridge * np.eye(d))
    spread = 2 * R * clip * np.sqrt(rounds) / (mu * np.sqrt(1 - 1 / 3 - 0.05))
    w = np.zeros(d)
    for _ in range(rounds):
        residual = np.clip(data.y - X @ w, -clip, clip)
        w += inverse @ (X.T @ residual + rng.normal(0, spread, d))
    return Fit(w[None, :-1], w[-1:])


@one_by_one
def hessian_mixing(data: Data, job: Job) -> Fit:
    """Repeat ridge regression on clipped residuals, each time with a Gram matrix of Gaussian combinations of the
    records (Lev et al. 2026, Iterative Hessian Mixing).

    For one replaced record, `share` of epsilon and a third of delta are for all combinations, and another third for the
    event that the least eigenvalue is below its noisy bound. Of the rest of epsilon, in units of mu^2, a twentieth is
    for that eigenvalue (R^2), and what remains for the gradients (2 R clip). Combinations of the records and of noise
    are normal with the Gram matrix plus the ridge as covariance, and are drawn as such.
    """
    n, R, setting, delta = data.facts["n"], radius(data), job.setting, job.delta / 3
    rng, rounds, share = np.random.default_rng(job.seed), setting["rounds"], setting["share"]
    X = np.column_stack([data.X, np.ones(n)])
    d = X.shape[1]
    rows = int(setting["rows"] * max(d, np.log(4 * rounds / delta)))
    ridge = R**2 * sketch_ridge(share * job.epsilon, delta, rows * rounds)
    mu = gaussian_mu((1 - share) * job.epsilon, delta)
    gram, spread = X.T @ X, R**2 / (mu * np.sqrt(0.05))
    least = np.linalg.eigvalsh(gram)[0] + spread * (rng.normal() - np.sqrt(2 * np.log(1 / delta)))
    root = np.linalg.cholesky(gram + (max(0.0, ridge - max(0.0, least)) + 1e-9 * R**2) * np.eye(d))
    noise = 2 * R * setting["clip"] * np.sqrt(rounds) / (mu * np.sqrt(0.95))
    w = np.zeros(d)
    for _ in range(rounds):
        mixed = rng.normal(size=(rows, d)) @ root.T
        residual = np.clip(data.y - X @ w, -setting["clip"], setting["clip"])
        w += rows * np.linalg.solve(mixed.T @ mixed, X.T @ residual + rng.normal(0, noise, d))
    return Fit(w[None, :-1], w[-1:])


@one_by_one
def tukey_em(data: Data, job: Job) -> Fit:
    """Return a deep point among least-squares fits to parts of the records (Amin et al. 2022, Algorithm 2: TukeyEM).

    One replaced record changes one of the m models, so it moves depths by at most 1, and by at most 1 the distance to
    data on which the sampler would be unsafe. Half of epsilon and of delta is for the test of that distance, half for
    the exponential mechanism. If the test fails, 0 is released: the middle of the range.
    """
    rng, m, epsilon, delta = np.random.default_rng(job.seed), job.setting["models"], job.epsilon / 2, job.delta / 2
    X, middle = np.column_stack([data.X, np.ones(len(data.X))]), m // 4
    parts = rng.permutation(len(X))[: len(X) // m * m].reshape(m, -1)
    models = np.array([np.linalg.lstsq(X[own], data.y[own], rcond=None)[0] for own in parts])
    places = np.sort(models + 1e-10 * rng.uniform(size=models.shape), axis=0)
    low, high = places[: m // 2], places[::-1][: m // 2]  # row i - 1: ends of the box of the points of depth i or more
    volumes = np.log(high - low).sum(1)

    def safe(k: int) -> bool:
        inner = volumes[middle + k + 1 :]  # of depths t + k + g + 1 for g = 1, 2, ...
        lost = volumes[middle - k - 2] - inner - epsilon * np.arange(1, len(inner) + 1) / 2
        return bool((lost <= np.log(delta / 4) - epsilon).any())

    distance = next((k for k in range(middle - 1) if not safe(k)), middle - 1) - 1
    w = np.zeros(X.shape[1])
    if distance + rng.laplace(0, 1 / epsilon) > np.log(1 / (2 * delta)) / epsilon:
        deep = volumes[middle - 1 :]
        exact = deep[:-1] + np.log(-np.expm1(np.diff(deep)))
        chances = np.append(exact, deep[-1]) + epsilon * np.arange(len(deep)) / 2
        i = middle - 1 + int(np.argmax(chances + rng.gumbel(size=len(chances))))
        while True:  # in the box of that depth, outside of the next one
            tried = rng.uniform(low[i], high[i], (1000, len(w)))
            within = i + 1 < len(low) and ((tried > low[i + 1]) & (tried < high[i + 1])).all(1)
            if not np.all(within):
                w = tried[np.argmin(np.broadcast_to(within, len(tried)))]
                break
    return Fit(w[None, :-1], w[-1:])


@one_by_one
def double_noise_newton(data: Data, job: Job) -> Fit:
    """Run Newton steps with noise on the gradient and on the step (Ganesh et al. 2023, Algorithm 3, eigenvalues "add").

    mu^2 adds up over the steps. For one replaced record, with R the longest row, the mean gradient moves by 2 R / n. A
    record adds at most h = R^2 / (4 n) to the Hessian, in one direction, so with `least` on its diagonal the step of a
    released gradient g moves by at most twice ``|g| h / (least (least + h))``.
    """
    n, R, setting = data.facts["n"], radius(data), job.setting
    rng, mu = np.random.default_rng(job.seed), gaussian_mu(job.epsilon, job.delta) / np.sqrt(setting["steps"])
    X = np.column_stack([data.X, np.ones(n)])
    h, w = R**2 / (4 * n), np.zeros(X.shape[1])
    least = setting["least"] * R**2 / 4
    gradient_noise = 2 * R / n / (mu * np.sqrt(setting["share"]))
    for _ in range(setting["steps"]):
        p = 1 / (1 + np.exp(-np.clip(X @ w, -50, 50)))
        g = X.T @ (p - data.y) / n + rng.normal(0, gradient_noise, len(w))
        hessian = (X * (p * (1 - p))[:, None]).T @ X / n
        moved = 2 * np.linalg.norm(g) * h / (least * (least + h))
        step_noise = moved / (mu * np.sqrt(1 - setting["share"]))
        w = w - np.linalg.solve(hessian + least * np.eye(len(w)), g) + rng.normal(0, step_noise, len(w))
    return Fit(w[None, :-1], w[-1:])


# Opacus


def opacus(data: Data, setting: Setting, noise: float, seed: int) -> Fit:
    """Fit a linear layer by Opacus, with Poisson-sampled batches and `DPOptimizer`."""
    import torch
    from opacus.grad_sample import GradSampleModule
    from opacus.optimizers import DPOptimizer
    from torch import nn

    torch.manual_seed(seed)
    torch.set_num_threads(1)
    n, outputs = data.facts["n"], data.facts["outputs"]
    X = torch.from_numpy(data.single)
    y = torch.from_numpy(data.y.astype(np.int64) if outputs > 1 else data.y.astype(np.float32)[:, None])
    loss = {"binary": nn.BCEWithLogitsLoss(), "multiclass": nn.CrossEntropyLoss(), "regression": nn.MSELoss()}
    layer = nn.Linear(data.facts["d"], outputs)
    nn.init.zeros_(layer.weight)
    nn.init.zeros_(layer.bias)
    model = GradSampleModule(layer)
    optimizer = DPOptimizer(
        torch.optim.SGD(model.parameters(), lr=setting["rate"]),
        noise_multiplier=noise,
        max_grad_norm=setting["clip"],
        expected_batch_size=round(setting["share"] * n),
    )
    for _ in range(round(setting["epochs"] / setting["share"])):
        batch = torch.nonzero(torch.rand(n) < setting["share"])[:, 0]
        if len(batch) == 0:
            batch = batch.new_zeros(1)  # only in tables of a few hundred records; Opacus needs one record
        optimizer.zero_grad()
        loss[data.kind](model(X[batch]), y[batch]).backward()
        optimizer.step()
    return Fit(layer.weight.detach().numpy().astype(float), layer.bias.detach().numpy().astype(float))


@one_by_one
def opacus_tuned(data: Data, job: Job) -> Fit:
    return opacus(data, _scaled(data, job.setting), sampled_noise(*_composition(job)), job.seed)


@one_by_one
def opacus_shipped(data: Data, job: Job) -> Fit:
    return opacus(data, _scaled(data, job.setting), shipped_noise(*_composition(job)), job.seed)


@one_by_one
def opacus_untuned(data: Data, job: Job) -> Fit:
    """Run DP-SGD of Opacus with the rate and the clipping norm of the project's README."""
    return opacus(data, job.setting, sampled_noise(*_composition(job)), job.seed)


def _composition(job: Job) -> tuple[float, float, float, int]:
    share = job.setting["share"]
    return job.epsilon, job.delta, share, round(job.setting["epochs"] / share)


def _scaled(data: Data, setting: Setting) -> Setting:
    halves = 2 if data.kind == "regression" else 1  # torch's squared error has no factor 1/2
    rate = setting["move"] / setting["clip"] / halves / curvature(data)
    return {**setting, "clip": setting["clip"] * halves * radius(data), "rate": rate}


Facts = Mapping[str, Any]


def strengths(facts: Facts) -> list[Setting]:
    return [{"C": 10.0**power} for power in range(-5, 4)]


def descents(facts: Facts) -> list[Setting]:
    clips, moves, steps = (0.03, 0.1, 0.3, 1.0), (0.5, 2.0, 8.0, 32.0), (10, 30, 100, 300, 1000)
    if facts["n"] * facts["outputs"] > MANY:
        steps = steps[:-1]
    if entries(facts) > HUGE:
        clips, moves, steps = clips[1:], moves[1:], (30, 100, 300)
    return [{"clip": clip, "move": move, "steps": count} for clip, move, count in product(clips, moves, steps)]


def newtons(facts: Facts) -> list[Setting]:
    """Return settings of Newton's method; `least` is in units of the largest curvature."""
    grid = product((3, 5, 10, 20), (1e-3, 0.01, 0.03, 0.1, 0.3, 1.0, 3.0), (0.5, 0.8))
    return [{"steps": steps, "least": least, "share": share} for steps, least, share in grid]


def parts(facts: Facts) -> list[Setting]:
    """Return the numbers of models for TukeyEM: those that leave each model enough records, and always 100."""
    able = [m for m in (250, 500, 1000, 2000, 4000) if facts["n"] // m > facts["d"]]
    return [{"models": m} for m in (100, *able)]


def rounds(facts: Facts) -> list[Setting]:
    """Return settings of boosted AdaSSP; clips are for targets in [-1/2, 1/2]; one round without clipping is AdaSSP."""
    return [{"clip": clip, "rounds": count} for clip, count in product((0.02, 0.1, 0.5), (1, 3, 10, 100))]


def mixtures(facts: Facts) -> list[Setting]:
    """Return settings of Hessian mixing; `rows` is 2.5 or 6 times the number of columns, as in the paper."""
    grid = product((0.02, 0.1, 0.5), (1, 3, 10), (2.5, 6.0), (0.3, 0.6))
    return [{"clip": clip, "rounds": count, "rows": rows, "share": share} for clip, count, rows, share in grid]


def readme(facts: Facts) -> list[Setting]:
    return [{"clip": 1.0, "rate": 0.05, "epochs": 5, "share": 0.1}]


def batches(facts: Facts) -> list[Setting]:
    clips, moves, epochs = (0.1, 0.5), (0.5, 2.0, 8.0, 32.0), (5,) if entries(facts) > HUGE else (5, 20)
    grid = product(clips, moves, epochs)
    return [{"clip": clip, "move": move, "epochs": count, "share": 0.1} for clip, move, count in grid]


ALL = (*CLASSIFICATION, *REGRESSION)
TUNED_OPACUS = Method("Opacus tuned", "approximate", ALL, opacus_tuned, batches)
METHODS = (
    Method("diffprivlib", "pure", CLASSIFICATION, logistic_valid),
    Method("diffprivlib tuned", "pure", CLASSIFICATION, logistic_valid, strengths),
    Method("diffprivlib as shipped", "pure", CLASSIFICATION, logistic_shipped),
    Method("diffprivlib", "pure", REGRESSION, linear_valid),
    Method("diffprivlib as shipped", "pure", REGRESSION, linear_shipped),
    Method("Opacus", "approximate", ALL, opacus_untuned, readme),
    TUNED_OPACUS,
    Method("Opacus as shipped", "approximate", ALL, opacus_shipped, like=TUNED_OPACUS),
    Method("boosted AdaSSP tuned", "approximate", REGRESSION, boosted_adassp, rounds),
    Method("Hessian mixing tuned", "approximate", REGRESSION, hessian_mixing, mixtures),
    Method("TukeyEM tuned", "approximate", REGRESSION, tukey_em, parts),
    Method("double-noise Newton tuned", "approximate", ("binary",), double_noise_newton, newtons),
    Method("noisy descent tuned", "approximate", ALL, noisy_descent, descents, batches=equally_long),
)


if __name__ == "__main__":
    warnings.simplefilter("ignore")  # peers warn about random states and convergence
    run(
        METHODS,
        arguments("peers", __doc__),
        ("diffprivlib", "scikit-learn", "opacus", "torch", "dp-accounting", "numpy"),
    )
