"""Differentially private convex optimization, with certificates that anybody can verify.

The names listed in ``__init__.pyi`` are the public interface; everything else may change. ``dpconvex.errors`` holds the
exceptions. Nothing is imported before it is used, so that ``dpconvex --help`` answers at once.
"""

import lazy_loader

__version__ = "0.1.0"

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
__all__ += ["__version__"]
