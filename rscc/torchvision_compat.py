"""Lets torchvision be imported beside a torch whose build does not fit torchvision's compiled library.

A torchvision built for CUDA cannot load its library on the CPU build of torch. Its import then fails because
two operators that its Python code refers to were never declared. What this project uses of it (models,
transforms) needs neither. ``install`` puts a finder in front of the import system that waits for the first
import of ``torchvision``: only if the library cannot be loaded does it declare the two operators, without a
kernel, so that calling them still fails with a clear error.
"""

import importlib.util
import os
import sys
from collections.abc import Sequence
from importlib.abc import MetaPathFinder
from importlib.machinery import EXTENSION_SUFFIXES, ModuleSpec
from pathlib import Path
from types import ModuleType
from typing import Any

PACKAGE = "torchvision"
_SIGNATURE = "(Tensor dets, Tensor scores, float iou_threshold) -> Tensor"

# The declarations live as long as the object that made them.
_declarations: list[Any] = []


class TorchvisionFinder(MetaPathFinder):
    """Declares missing operators the first time that ``torchvision`` is looked for, then steps aside."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Return the spec of ``torchvision`` from the other finders; None for every other module."""
        if fullname != PACKAGE:
            return None
        sys.meta_path.remove(self)
        spec = importlib.util.find_spec(PACKAGE)
        if spec is not None and spec.submodule_search_locations:
            declare_missing_operators(Path(spec.submodule_search_locations[0]))
        return spec


def install() -> None:
    """Put the finder in front of the import system, unless torchvision is imported already."""
    if PACKAGE not in sys.modules:
        sys.meta_path.insert(0, TorchvisionFinder())


def declare_missing_operators(package_folder: Path) -> tuple[str, ...]:
    """Declare the operators that torchvision's Python refers to, if its compiled library cannot be loaded.

    Returns:
        The names that were declared; empty if the library loads, and on a second call.
    """
    import torch

    library = next(filter(Path.is_file, (package_folder / f"_C{end}" for end in EXTENSION_SUFFIXES)), None)
    if library is not None:
        if sys.platform == "win32":
            os.add_dll_directory(str(package_folder))  # where Windows finds the library's own dependencies
        try:
            torch.ops.load_library(library)
        except (ImportError, OSError):
            pass
        else:
            return ()
    missing = tuple(name for name in ("nms", "qnms") if not hasattr(torch.ops.torchvision, name))
    if missing:
        fragment = torch.library.Library(PACKAGE, "FRAGMENT")
        for name in missing:
            fragment.define(name + _SIGNATURE)
        _declarations.append(fragment)
    return missing
