"""Words for what changed on the ground: captioned change layers from two satellite scenes.

Importing this package is cheap: a public name brings its module, and torch with it, on first use.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from rscc import torchvision_compat

if TYPE_CHECKING:
    from rscc.captioner import Captioner
    from rscc.errors import RsccError
    from rscc.model_folder import ModelCard, available_models
    from rscc.structures import Caption, ChangePrediction

torchvision_compat.install()

__version__ = "0.1.0"

_HOME_OF = {
    "Caption": "rscc.structures",
    "Captioner": "rscc.captioner",
    "ChangePrediction": "rscc.structures",
    "ModelCard": "rscc.model_folder",
    "RsccError": "rscc.errors",
    "available_models": "rscc.model_folder",
}

__all__ = [
    "Caption",
    "Captioner",
    "ChangePrediction",
    "ModelCard",
    "RsccError",
    "__version__",
    "available_models",
]


def __getattr__(name: str) -> Any:
    if name not in _HOME_OF:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(importlib.import_module(_HOME_OF[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
