"""Lets torchvision be imported beside a torch whose build does not fit torchvision's compiled library.

A torchvision built for CUDA cannot load its library on the CPU build of torch. It carries on without it,
and then fails on import because two operators that its Python code refers to were never declared. What
this project needs of it (models, transforms) uses neither. ``install`` puts a finder in front of the import
system that waits for ``torchvision``: only if the library really cannot be loaded does it declare the two
operators, without any kernel, so that calling them still fails with a clear error.

Nothing is imported before somebody imports torchvision, and a sound torchvision is left as it is.
"""

from __future__ import annotations

import importlib.machinery
import os
import sys
from collections.abc import Sequence
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import ModuleType
from typing import Any

PACKAGE = "torchvision"
MISSING_OPERATORS = ("nms", "qnms")
_SIGNATURE = "(Tensor dets, Tensor scores, float iou_threshold) -> Tensor"

# The declarations live as long as the object that made them.
_declarations: list[Any] = []


class TorchvisionFinder(MetaPathFinder):
    """Finds ``torchvision`` by the other finders, and has its operators looked after before it runs."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Return the real spec of ``torchvision``, its operators seen to; None for every other module."""
        if fullname != PACKAGE:
            return None
        for finder in sys.meta_path:
            if isinstance(finder, TorchvisionFinder) or not hasattr(finder, "find_spec"):
                continue
            spec = finder.find_spec(fullname, path, target)
            if spec is not None:
                if spec.loader is not None:
                    _declare_before_running(spec.loader)
                return spec
        return None


def _declare_before_running(loader: Loader) -> None:
    run = loader.exec_module

    def declare_then_run(module: ModuleType) -> None:
        loader.exec_module = run  # type: ignore[method-assign]  # as if nobody had been in between
        folders = list(getattr(module, "__path__", []))
        if folders:
            declare_missing_operators(Path(folders[0]))
        run(module)

    loader.exec_module = declare_then_run  # type: ignore[method-assign]


def install() -> None:
    """Put the finder in front of the import system, once; nothing happens if torchvision is there already."""
    if PACKAGE in sys.modules or any(isinstance(finder, TorchvisionFinder) for finder in sys.meta_path):
        return
    sys.meta_path.insert(0, TorchvisionFinder())


def declare_missing_operators(package_folder: Path) -> tuple[str, ...]:
    """Declare the operators that torchvision's Python refers to, if its compiled library cannot be loaded.

    Args:
        package_folder: the folder of the ``torchvision`` package.

    Returns:
        The names that were declared; empty on a sound install and on a second call.
    """
    import torch

    if _load_compiled_library(package_folder):
        return ()
    missing = tuple(name for name in MISSING_OPERATORS if not hasattr(torch.ops.torchvision, name))
    if missing:
        library = torch.library.Library(PACKAGE, "FRAGMENT")
        for name in missing:
            library.define(name + _SIGNATURE)
        _declarations.append(library)
    return missing


def _load_compiled_library(package_folder: Path) -> bool:
    """Load the library where torchvision will look for it; loading it again costs torchvision nothing."""
    import torch

    details = (importlib.machinery.ExtensionFileLoader, importlib.machinery.EXTENSION_SUFFIXES)
    spec = importlib.machinery.FileFinder(str(package_folder), details).find_spec("_C")
    if spec is None or spec.origin is None:
        return False
    if sys.platform == "win32":
        # Its neighbours are found only in folders that were named.
        os.add_dll_directory(str(package_folder))
    try:
        torch.ops.load_library(spec.origin)
    except (ImportError, OSError):
        return False
    return True
