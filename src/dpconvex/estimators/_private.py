"""Base class of all estimators: scikit-learn's conventions, budgets, and the neighbors that a promise is about."""

from contextlib import suppress
from typing import Any, ClassVar

from sklearn.base import BaseEstimator

from dpconvex import _validate
from dpconvex.errors import InvalidParameterError, SchemaError
from dpconvex.estimators import _features
from dpconvex.privacy import CarriesBudgets, Neighboring, PrivacyCertificate


class PrivateEstimator(CarriesBudgets, BaseEstimator):
    """Base class of all estimators; it has no parameters, so it is not a dataclass."""

    certificate_: PrivacyCertificate
    n_features_in_: int
    _sparse: ClassVar[bool] = False  #: Whether the model takes sparse matrices.
    _string: ClassVar[bool] = False  #: Whether the cells may be texts.

    def __setattr__(self, name: str, value: Any) -> None:
        if name == "schema":
            with suppress(SchemaError):  # a schema that cannot be read is refused by plan and fit
                value = _features.read_schema(value)
        super().__setattr__(name, value)

    def _repr_html_(self) -> str:
        found = vars(self).get("certificate_")
        return super()._repr_html_() + ("" if found is None else found._repr_html_())

    @property
    def _relation(self) -> Neighboring:
        """The neighboring relation of the promise: which data sets are neighbors."""
        given = getattr(self, "neighbors", Neighboring.REPLACE_ONE)
        return Neighboring(_validate.choice("neighbors", given, tuple(map(str, Neighboring))))

    def _public_count(self, n: int | None) -> int:
        """Return the number of units that plans are for: `n`, or `rows` if the number is private and `n` not given."""
        relation, rows = self._relation, getattr(self, "rows", None)
        if relation.fixes_size and rows is not None:
            what = "is for neighbors='add_or_remove_one': here the number of records is that of the data"
            raise InvalidParameterError("rows", rows, what, "Leave it out")
        if n is None:
            name, given = ("n", n) if relation.fixes_size else ("rows", rows)
            n = _validate.integer(name, given, at_least=1, remedy="Say about how many records there are, from no data")
        return _validate.records("n", n)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = tags.non_deterministic = True
        tags.input_tags.sparse, tags.input_tags.string = self._sparse, self._string
        return tags
