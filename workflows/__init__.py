"""Whole jobs: a pair of scenes in, a report of captioned changes out.

Importing this package is cheap: a name of ``__init__.pyi`` brings its module on first use.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
