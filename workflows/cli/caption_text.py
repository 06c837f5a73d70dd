"""Summaries of ``rscc caption`` and of a picture by ``rscc explain``."""

import math
import shutil
import textwrap
from pathlib import Path, PurePath
from typing import Any

from workflows.cli.terminal import area_text
from workflows.files import style_path
from workflows.printable import counted, printable_lines
from workflows.progress import duration
from workflows.scene.inspect.text import light_words, shift_words

WIDTH = 72
"""Letters of a line of a summary; narrow terminals have less."""
NOTABLE_SHIFT = 0.5
"""Working pixels from which the summary mentions an offset between the scenes."""


def caption_summary(run: dict[str, Any], count: int, area: float, target: Path, seconds: float) -> str:
    """Return a few lines about a run of so many seconds; ``run`` is its record, ``area`` in square metres."""
    grid, model, shift = run["tiling"], run["model"], run["registration"]
    inputs = (run["inputs"]["before"], run["inputs"]["after"])
    names = [f"{PurePath(scene['path']).name}, {scene['date'] or 'no date'}" for scene in inputs]
    lines = [
        f"{counted(count, 'change')}, {area_text(area)}, in {duration(max(seconds, 1))}",
        *(f"{role:7} {name}" for role, name in zip(("before", "after"), names, strict=True)),
        f"grid    {grid['width']} x {grid['height']} px at {grid['gsd']:.3g} m, "
        + counted(grid["tiles"], "tile"),
        f"model   {model['name']} {model['version']}",
    ]
    if shift["cols"] is not None and math.hypot(shift["cols"], shift["rows"]) >= NOTABLE_SHIFT:
        lines.append(f"offset  {shift_words(shift)}")
    if run["normalization"] is not None:
        lines.append(f"colours {light_words(run['normalization'])}")
    if run["resumed_tiles"]:
        lines.append(f"resumed {run['resumed_tiles']:,} tiles were finished by an earlier run")
    return printable_lines([*lines, f"report  {target} ({_opened(target)})"])


def in_lines(text: str) -> str:
    """Return a summary in lines of the terminal, at most :data:`WIDTH` letters each."""
    return "\n".join(textwrap.wrap(text, min(WIDTH, shutil.get_terminal_size().columns)))


def _opened(target: Path) -> str:
    """Say what opens a report."""
    if target.suffix.lower() == ".parquet":
        return "QGIS 3.22 cannot open it: for that write .gpkg"
    if target.suffix.lower() in (".csv", ".kml"):
        return "without a style"
    return f"open it in QGIS; its style is {'in' if style_path(target) is None else 'beside'} it"


def picture_summary(facts: dict[str, Any], target: Path) -> str:
    """Return a few lines about an explained crop; ``facts`` is its plain form."""
    lines = [
        facts["caption"],
        f"P(changed) {facts['changed_probability']:.2f}, score {facts['score']:.2f}, place: {facts['place']}",
    ]
    if facts["entities"]:
        lines.append(f"entities {', '.join(facts['entities'])}")
    lines += [f"model    {facts['model']['name']} {facts['model']['version']}", f"picture  {target}"]
    return printable_lines(lines)
