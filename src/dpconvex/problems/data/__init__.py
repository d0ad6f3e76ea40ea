"""Public domains of records, points and users, and the sanitized data in them."""

from typing import TYPE_CHECKING

from dpconvex._validate import Later

if TYPE_CHECKING:
    from dpconvex.problems.data import _loops as _loops
else:
    _loops = Later("dpconvex.problems.data._loops")  # numba loads slowly
