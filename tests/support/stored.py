"""Whole results, compared with what ``tests/stored`` holds of them.

``RSCC_STORE=1 pytest ...`` writes the files anew; read their difference before you commit it.
"""

from __future__ import annotations

import json
import math
import os
import re
import zipfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

import rscc

STORED = Path(__file__).resolve().parents[1] / "stored"
# What differs from run to run, or from one installation to the next.
_UNSTABLE = (
    # Scenes of tests are of earlier years than runs.
    (re.compile(r"20(2[6-9]|[3-9]\d)-\d\d-\d\dT\d\d:\d\d(:\d\d(\.\d+)?)?(Z|\+00:00)"), "TIME"),
    (re.compile(r'("(?:seconds|finished)": )[\d.e-]+'), r"\g<1>0"),
    (re.compile(r"\b(in|about) \d+ s\b"), r"\1 N s"),
    (re.compile(r'("versions": )\{[^}]*\}'), r"\g<1>{}"),
    (re.compile(r"\b([0-9a-f]{32}){1,2}\b"), "HASH"),
    (re.compile(r"\b1\d{18}\b"), "0"),  # when a file was written
    (re.compile(rf"(?<![\d.]){re.escape(rscc.__version__)}(?![\d.])"), "VERSION"),
)


def assert_as_stored(
    name: str, found: Mapping[str, Any], folder: Path | None = None, *, rel: float = 1e-6
) -> None:
    """Compare plain values with those of a file; in texts, without times, hashes, versions and ``folder``."""
    path = STORED / f"{name}.json"
    lines = (f"{json.dumps(key)}: {json.dumps(one, default=str)}" for key, one in found.items())
    text = ",\n".join(lines).join(("{", "\n}"))
    for unstable, word in _UNSTABLE:
        text = unstable.sub(word, text)
    text = text if folder is None else text.replace(str(folder), "FOLDER")
    if os.environ.get("RSCC_STORE"):
        path.parent.mkdir(exist_ok=True)
        path.write_text(f"{text}\n", encoding="utf-8")
    now, then = (dict(_leaves(one)) for one in (json.loads(text), stored(name)))
    places = now.keys() | then.keys()
    different = {place: (now.get(place), then.get(place)) for place in places}
    changed = [
        f"{place}: {was} -> {is_}" for place, (is_, was) in different.items() if not _is_same(is_, was, rel)
    ]
    assert not changed, "\n".join(changed[:40])


def stored(name: str) -> dict[str, Any]:
    """Return what a file holds."""
    return json.loads((STORED / f"{name}.json").read_bytes())


def _is_same(one: Any, other: Any, rel: float) -> bool:
    both = isinstance(one, float | int) and isinstance(other, float | int)
    return math.isclose(one, other, rel_tol=rel, abs_tol=1e-9) if both else one == other


def _leaves(value: Any, place: str = "") -> Iterator[tuple[str, Any]]:
    if isinstance(value, Mapping | Sequence) and value and not isinstance(value, str):
        items = value.items() if isinstance(value, Mapping) else enumerate(value)
        for key, one in items:
            yield from _leaves(one, f"{place}/{key}")
    else:
        yield place, value if isinstance(value, int | float | str) else repr(value)


def contents(folder: Path) -> dict[str, Any]:
    """Return the contents of all files of a folder that hold values: JSON, tables, and the data of pages."""
    readers: dict[str, Callable[[Path], Any]] = {
        ".json": lambda path: json.loads(path.read_bytes()),
        ".geojson": lambda path: json.loads(path.read_bytes()),
        ".html": _page_data,
        ".parquet": lambda path: pq.read_table(path).drop_columns("geometry").to_pylist(),
        ".qgz": _project,
        **dict.fromkeys((".csv", ".xml", ".qgs"), lambda path: path.read_text(encoding="utf-8").splitlines()),
    }
    files = [path for path in sorted(folder.rglob("*")) if path.is_file() and path.suffix in readers]
    return {path.relative_to(folder).as_posix(): readers[path.suffix](path) for path in files}


def _project(path: Path) -> list[str]:
    with zipfile.ZipFile(path) as archive:
        return archive.read(archive.namelist()[0]).decode().splitlines()


def _page_data(path: Path) -> Any:
    data = re.search(r'<script[^>]* id="data"[^>]*>(.*?)</script>', path.read_text(encoding="utf-8"), re.S)
    return None if data is None else json.loads(data[1])
