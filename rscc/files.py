"""Files and folders that have their names only once they are complete."""

from __future__ import annotations

import json
import os
import re
import secrets
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

# How JSON names halves of letters; two that belong together are one letter.
_HALF = re.compile(r"\\u[dD][89a-fA-F]")


@contextmanager
def atomic_write(*targets: Path, alone: bool = False) -> Iterator[tuple[Path, ...]]:
    """Yield a name to write each of some files or folders under, beside it; at the end they are renamed.

    All are complete, the files on disk, before the first is renamed, in the order given: the last one there
    means that all are. A folder that is there gives way, whole. On any error, here or in the block, no target
    was touched before the first renaming, and what was written is removed.

    Args:
        targets: what is to be written.
        alone: no other process writes the same. What a killed one left behind is then taken away first.
    """
    marks = [".tmp" if alone else f".{secrets.token_hex(4)}.tmp" for _ in targets]
    drafts = tuple(path.with_name(f".{path.name}{mark}") for path, mark in zip(targets, marks, strict=True))
    try:
        for draft in drafts:
            _remove(draft)
        yield drafts
        for draft in drafts:
            if draft.is_file():
                with draft.open("rb+") as file:
                    os.fsync(file.fileno())
        for draft, target in zip(drafts, targets, strict=True):
            if target.is_dir() and draft.is_dir():
                _exchange(draft, target)
            else:
                draft.replace(target)
    finally:
        for draft in drafts:
            _remove(draft)


def parsed_json(text: str | bytes) -> Any:
    """Return what a text of JSON says, with numbers as JSON has them: no NaN, no infinity.

    Raises:
        ValueError: it is no JSON, no UTF-8, so deeply nested that nothing of ours wrote it, or has halves of
            letters, which JSON can name but no file takes.
    """
    try:
        text = text.decode() if isinstance(text, bytes) else text
        content = json.loads(text, parse_constant=_refused)
        if _HALF.search(text):
            json.dumps(content, ensure_ascii=False).encode()
    except RecursionError as error:
        raise ValueError("nested too deeply") from error
    return content


def _refused(constant: str) -> None:
    raise ValueError(f"{constant} is no number of JSON")


def _exchange(draft: Path, target: Path) -> None:
    """Put one folder in the place of another, which comes back where that fails."""
    old = draft.with_name(f"{draft.name}.old")
    _remove(old)
    target.replace(old)
    try:
        draft.replace(target)
    except BaseException:
        old.replace(target)
        raise
    _remove(old)


def _remove(path: Path) -> None:
    shutil.rmtree(path, ignore_errors=True)
    with suppress(OSError):
        path.unlink()
