"""Words for what changed on the ground: captioned change layers from two satellite scenes.

Importing this package is cheap: a name of ``__init__.pyi`` brings its module, with torch, on first use.
"""

import lazy_loader

from rscc import torchvision_compat

torchvision_compat.install()

__version__ = "0.1.0"

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
