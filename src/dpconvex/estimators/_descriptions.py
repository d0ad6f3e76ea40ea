"""Descriptions that several estimators share in their docstrings."""

from collections.abc import Callable
from inspect import cleandoc
from typing import TypeVar

T = TypeVar("T")
RELEASED = """
certificate_ : PrivacyCertificate
    What the fit costs and why.
plan_ : Plan
    The public constants that were used.
n_features_in_ : int
    Columns seen by `fit`.
"""
SEED = """
random_state : None, int or BitSource
    None, the default, draws noise from the operating system. A seed is for tests: the result is *not private*.
verbose : bool, default=False
    Show a bar of planned and done releases while a fit takes long, in a terminal or notebook.
"""
LINEAR = """
coef_ : array of shape (1, n_features)
    Released coefficients.
intercept_ : array of shape (1,)
    Released intercept.
classes_ : array of shape (2,)
    Labels.
"""


def with_shared(**texts: str) -> Callable[[type[T]], type[T]]:
    """Put descriptions that several classes share into a docstring, for ``{name}``; in them ``{class}`` is its name."""

    def filled(cls: type[T]) -> type[T]:
        cls.__doc__ = cleandoc(str(cls.__doc__))
        for name, text in texts.items():
            cls.__doc__ = cls.__doc__.replace(f"{{{name}}}", text.strip("\n").replace("{class}", cls.__name__))
        return cls

    return filled
