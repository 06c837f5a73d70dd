"""Errors of Python calls name keywords, where those of commands name options of the command line."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import wraps
from typing import ParamSpec, TypeVar

from rscc.errors import RsccError
from tiling import TilingError
from workflows.errors import WorkflowError

P = ParamSpec("P")
T = TypeVar("T")
# An option, perhaps after "add", and its value in capitals or of a model.
_OPTION = re.compile(r"(add )?--(no-)?([a-z][a-z-]*)(?:[ =]([A-Z][A-Z0-9,]*\b|rscc-[a-z]+))?")
_WITH_VALUE = ("bbox", "model", "scale", "bands", "band_names", "gsd", "memory", "keep_maps", "allow_host")


def in_python(text: str) -> str:
    """Return a message with keywords in the place of options: ``--overwrite`` becomes ``overwrite=True``."""

    def keyword(found: re.Match[str]) -> str:
        name, value = found[3].replace("-", "_"), found[4]
        verb = "pass " if found[1] else ""
        if value is None and name not in _WITH_VALUE:
            return f"{verb}{name}={found[2] is None}"
        if value is None:
            return f"{verb}{name}=..."
        return f'{verb}{name}="{value}"' if value.startswith("rscc-") else f"{verb}{name}=..."

    return _OPTION.sub(keyword, text)


def speaks_python(function: Callable[P, T]) -> Callable[P, T]:
    """Let the errors of a function name keywords."""

    @wraps(function)
    def call(*args: P.args, **kwargs: P.kwargs) -> T:
        try:
            return function(*args, **kwargs)
        except (RsccError, TilingError, WorkflowError) as error:
            if error.args and isinstance(error.args[0], str):
                error.args = (in_python(error.args[0]), *error.args[1:])
            raise

    return call
