"""What the commands show to a person: a progress bar while it works, a summary at the end."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import typer

# Working pixels from which the summary tells of a shift.
NOTABLE_SHIFT = 0.5


@contextmanager
def progress_bar(shown: bool) -> Iterator[Callable[[str, int, int], None] | None]:
    """Yield what takes (stage, done, total) and draws a bar on stderr; None when nobody would see it."""
    if not shown:
        yield None
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        tasks = {}

        def update(stage: str, done: int, total: int) -> None:
            if stage not in tasks:
                tasks[stage] = bar.add_task(stage, total=total)
            bar.update(tasks[stage], completed=done)

        yield update


def show_warnings(warnings: Iterable[str]) -> None:
    """Print each as one line on stderr."""
    for warning in warnings:
        typer.echo(f"rscc: warning: {warning}", err=True)


def summary(run: dict[str, Any], count: int, area: float, target: Path) -> str:
    """Say in a few lines what a run found; ``run`` is the run record, ``area`` in square metres."""
    grid, model, shift = run["tiling"], run["model"], run["registration"]
    scenes = " -> ".join(
        f"{scene['path']} ({scene['date'] or 'no date'})"
        for scene in (run["inputs"]["before"], run["inputs"]["after"])
    )
    tiles = f"{grid['tiles']} tile{'' if grid['tiles'] == 1 else 's'}"
    lines = [
        f"{count} change{'' if count == 1 else 's'}, {area_words(area)}, in {run['seconds']:.1f} s",
        f"scenes  {scenes}",
        f"grid    {grid['width']} x {grid['height']} px at {grid['gsd']:.3g} m, {tiles}",
        f"model   {model['name']} {model['version']}",
    ]
    if shift["cols"] is not None and _length((shift["cols"], shift["rows"])) >= NOTABLE_SHIFT:
        lines.append(f"shift   {shift_words(shift)}")
    if run["normalization"] is not None:
        lines.append(f"light   {light_words(run['normalization'])}")
    if run["resumed_tiles"]:
        lines.append(f"resumed {run['resumed_tiles']:,} of the tiles were finished by an earlier run")
    return "\n".join([*lines, f"report  {target} (open it in QGIS; the style lies beside it)"])


def shift_words(registration: Mapping[str, Any]) -> str:
    """Say how far the dates lie off each other; ``registration`` as in the run record."""
    if registration["cols"] is None:
        return "cannot be told: the dates show too little alike"
    cols, rows = registration["cols"], registration["rows"]
    pixels = _length((cols, rows))
    across, along = "right" if cols > 0 else "left", "down" if rows > 0 else "up"
    text = f"after lies {pixels:.1f} pixels ({registration['metres']:.2g} m) off"
    text += f" ({abs(cols):.1f} {across}, {abs(rows):.1f} {along})" if pixels >= 0.05 else ""
    if registration["applied"] is None:
        return text
    rest = "" if registration["left"] is None else f", {_length(registration['left']):.1f} pixels are left"
    return f"{text}; moved back by --align{rest}"


def light_words(normalization: Mapping[str, Any]) -> str:
    """Say what was done to the light of the scene after; ``normalization`` as in the run record."""
    gains = ", ".join(f"{gain:.2f}" for gain in normalization["gain"])
    return f"after brought to the light of before by --normalize (gains {gains})"


def _length(shift: Sequence[float]) -> float:
    return math.hypot(*shift)


def explanation_summary(found: dict[str, Any], target: Path) -> str:
    """Say in a few lines what an explanation found; ``found`` is its plain form."""
    lines = [
        found["caption"],
        f"P(changed) {found['changed_probability']:.2f}, score {found['score']:.2f}, place: {found['place']}",
    ]
    if found["entities"]:
        lines.append(f"entities {', '.join(found['entities'])}")
    lines += [f"model    {found['model']['name']} {found['model']['version']}", f"picture  {target}"]
    return "\n".join(lines)


def area_words(area: float) -> str:
    """Say how large something is; ``area`` in square metres."""
    return f"{area:,.0f} m2 ({area / 10_000:,.2f} ha)"


def duration(seconds: float) -> str:
    """Say how long something takes, in the two units that matter."""
    seconds = round(seconds)
    for size, unit, smaller, low in ((86400, "d", 3600, "h"), (3600, "h", 60, "min"), (60, "min", 1, "s")):
        if seconds >= size:
            rest = seconds % size // smaller
            return f"{seconds // size} {unit}" + (f" {rest} {low}" if rest else "")
    return f"{seconds} s"
