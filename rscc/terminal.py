"""What the commands show to a person: a progress bar while it works, a summary at the end."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import typer


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
    grid, model = run["tiling"], run["model"]
    scenes = " -> ".join(
        f"{scene['path']} ({scene['date'] or 'no date'})"
        for scene in (run["inputs"]["before"], run["inputs"]["after"])
    )
    return "\n".join(
        (
            f"{count} change{'' if count == 1 else 's'}, {area:,.0f} m2 ({area / 10_000:,.2f} ha), "
            f"in {run['seconds']:.1f} s",
            f"scenes  {scenes}",
            f"grid    {grid['width']} x {grid['height']} px at {grid['gsd']:.3g} m, {grid['tiles']} tiles",
            f"model   {model['name']} {model['version']}",
            f"report  {target} (open it in QGIS; the style lies beside it)",
        )
    )


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
