"""Where random bits come from: the operating system; a seed only for tests and benchmarks."""

import numbers
import os
from abc import ABC, abstractmethod
from typing import Any, ClassVar, TypeAlias, final

import numpy as np

from dpconvex import _validate
from dpconvex._types import final_dataclass
from dpconvex.errors import InvalidParameterError


class BitSource(ABC):
    """A source of private randomness."""

    name: ClassVar[str]  #: name that certificates state
    #: Whether nobody can predict the bits. A release made with any other source is stamped *not private*.
    private: ClassVar[bool] = False
    #: Whether integer noise comes from OpenDP's exact samplers, which draw from the operating system themselves.
    exact: ClassVar[bool] = False
    reals: ClassVar[bool] = False  #: Whether real-valued noise is exact although `exact` is False

    @abstractmethod
    def generator(self) -> np.random.Generator:
        """Return a generator whose stream is independent of every other call's."""


RandomState: TypeAlias = BitSource | int | None  #: What users may pass: nothing, a seed (not private) or a source.


@final_dataclass
class SystemSource(BitSource):
    """ChaCha with 20 rounds, keyed anew on every call with 32 bytes of the operating system's entropy.

    No state is kept between calls. So threads, forked processes, joblib workers, and pickled or copied estimators
    never repeat noise, as they would if they inherited a copy of one generator's state; and a key that leaked would
    expose one release only.
    """

    name: ClassVar[str] = "operating system entropy; ChaCha20 for real numbers, OpenDP for integers"
    private: ClassVar[bool] = True
    exact: ClassVar[bool] = True

    def generator(self) -> np.random.Generator:
        """Return a generator over a freshly keyed ChaCha20 stream."""
        from randomgen import ChaCha

        bits: Any = ChaCha(key=int.from_bytes(os.urandom(32), "little"), rounds=20)
        return np.random.Generator(bits)


@final
class OwnSamplers(BitSource):
    """A stand-in that draws nothing: plans are asked whether this package's own exact samplers suffice for them."""

    name: ClassVar[str] = "none"
    reals: ClassVar[bool] = True

    def generator(self) -> np.random.Generator:
        raise NotImplementedError


@final
class SeededSource(BitSource):
    """A reproducible PCG64 stream, for tests and benchmarks. *Not private.*

    Successive `generator` calls give independent streams; two sources of the same seed give the same sequence.
    """

    name: ClassVar[str] = "seeded PCG64 (not private)"

    def __init__(self, seed: int) -> None:
        self.seed = _validate.integer("seed", seed, at_least=0)
        self._sequence = np.random.SeedSequence(self.seed)

    def __repr__(self) -> str:
        return f"SeededSource({self.seed})"

    def generator(self) -> np.random.Generator:
        return np.random.Generator(np.random.PCG64(self._sequence.spawn(1)[0]))


def source_from(random_state: RandomState) -> BitSource:
    """Return the source for `random_state`: None means the operating system, an int a seed, a source itself.

    Anything else is refused, NumPy generators included: their state can be copied, so noise could repeat.
    """
    _validate.installed("numba", "flint", "randomgen", "pyarrow")  # checked here, as every fit begins here
    if random_state is None:
        return SystemSource()
    if isinstance(random_state, BitSource):
        return random_state
    if isinstance(random_state, numbers.Integral) and not isinstance(random_state, bool):
        return SeededSource(int(random_state))
    what = "must be None, an integer seed or a BitSource"
    raise InvalidParameterError("random_state", random_state, what, "Use None for private releases")
