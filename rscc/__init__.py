"""Find, outline and describe what changed between satellite or aerial images of one place.

Importing this package is cheap: a public name loads its module, with torch, on first use.
"""

from importlib import import_module
from typing import Any

from rscc import torchvision_compat

torchvision_compat.install()

__version__ = "0.1.0"

# Also listed in ``__init__.pyi``, for type checkers and editors.
_MODULES = {
    "Caption": "rscc.structures",
    "Captioner": "rscc.captioner",
    "Change": "workflows",
    "ChangePrediction": "rscc.structures",
    "ModelCard": "rscc.model_folder",
    "Report": "workflows",
    "RsccError": "rscc.errors",
    "available_models": "rscc.model_folder",
    "caption": "workflows",
    "monitor": "workflows.monitor.monitor",
    "open_report": "workflows",
}
__all__ = list(_MODULES)


def __getattr__(name: str) -> Any:
    if name not in _MODULES:
        raise AttributeError(f"module 'rscc' has no attribute {name!r}")
    return getattr(import_module(_MODULES[name]), name)


def __dir__() -> list[str]:
    return [*__all__, "__version__"]
