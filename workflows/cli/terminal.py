"""What the commands show while they work and at the end: to a person, or to the program that runs them."""

from __future__ import annotations

import math
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import typer

from workflows.cli.events import progress_events, tell_event
from workflows.cli.options import ProgressForm
from workflows.files import style_path
from workflows.inspection.text import light_words, shift_words
from workflows.progress import Progress
from workflows.texts import shown, shown_json, shown_lines

# Working pixels from which the summary tells of a shift.
NOTABLE_SHIFT = 0.5


def say(text: str, *, err: bool = False) -> None:
    """Print a text of one or more lines; what of it would steer the terminal is written out."""
    typer.echo(shown_lines(text.split("\n")), err=err)


def say_json(value: Any) -> None:
    """Print plain values as one line of JSON on stdout."""
    typer.echo(shown_json(value))


@contextmanager
def shown_progress(form: ProgressForm, quiet: bool = False) -> Iterator[Progress | None]:
    """Yield what takes (stage, done, total) and shows it on stderr; None when nobody would see it."""
    if form == ProgressForm.json and not quiet:
        yield progress_events()
        return
    if quiet or not sys.stderr.isatty():
        yield None
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeRemainingColumn
    from rich.progress import Progress as Bar

    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Bar(*columns, console=Console(stderr=True), transient=True) as bar:
        tasks = {}

        def update(stage: str, done: int, total: int) -> None:
            if stage not in tasks:
                tasks[stage] = bar.add_task(stage, total=total)
            bar.update(tasks[stage], completed=done)

        yield update


def show_result(
    text: str, facts: dict[str, Any], form: ProgressForm, *, quiet: bool = False, as_json: bool = False
) -> None:
    """Print what a command came to: ``text`` unless quiet, on stderr beside JSON; ``facts`` as JSON."""
    events = form == ProgressForm.json
    if events:
        tell_event("done", **facts)
    # Events are alone on stderr.
    if not quiet and not (as_json and events):
        say(text, err=as_json)
    if as_json:
        say_json(facts)


def show_notice(text: str, form: ProgressForm, *, err: bool = True) -> None:
    """Print what is good to know while the command works; ``err``: on stderr, where events always are."""
    if form == ProgressForm.json:
        tell_event("notice", message=text)
    else:
        say(text, err=err)


def show_warnings(warnings: Iterable[str], form: ProgressForm = ProgressForm.auto) -> None:
    """Print each as one line on stderr."""
    for warning in warnings:
        if form == ProgressForm.json:
            tell_event("warning", message=warning)
        else:
            typer.echo(f"rscc: warning: {shown(warning)}", err=True)


def summary(run: dict[str, Any], count: int, area: float, target: Path) -> str:
    """Say in a few lines what a run found; ``run`` is the run record, ``area`` in square metres."""
    grid, model, shift = run["tiling"], run["model"], run["registration"]
    inputs = (run["inputs"]["before"], run["inputs"]["after"])
    scenes = " -> ".join(f"{scene['path']} ({scene['date'] or 'no date'})" for scene in inputs)
    tiles = f"{grid['tiles']} tile{'' if grid['tiles'] == 1 else 's'}"
    lines = [
        f"{count} change{'' if count == 1 else 's'}, {area_words(area)}, in {run['seconds']:.1f} s",
        f"scenes  {scenes}",
        f"grid    {grid['width']} x {grid['height']} px at {grid['gsd']:.3g} m, {tiles}",
        f"model   {model['name']} {model['version']}",
    ]
    if shift["cols"] is not None and math.hypot(shift["cols"], shift["rows"]) >= NOTABLE_SHIFT:
        lines.append(f"shift   {shift_words(shift)}")
    if run["normalization"] is not None:
        lines.append(f"light   {light_words(run['normalization'])}")
    if run["resumed_tiles"]:
        lines.append(f"resumed {run['resumed_tiles']:,} of the tiles were finished by an earlier run")
    style = "in" if style_path(target) is None else "beside"
    return shown_lines([*lines, f"report  {target} (open it in QGIS; the style lies {style} it)"])


def explanation_summary(facts: dict[str, Any], target: Path) -> str:
    """Say in a few lines what an explanation found; ``facts`` is its plain form."""
    lines = [
        facts["caption"],
        f"P(changed) {facts['changed_probability']:.2f}, score {facts['score']:.2f}, place: {facts['place']}",
    ]
    if facts["entities"]:
        lines.append(f"entities {', '.join(facts['entities'])}")
    lines += [f"model    {facts['model']['name']} {facts['model']['version']}", f"picture  {target}"]
    return shown_lines(lines)


def area_words(area: float) -> str:
    """Say how large something is; ``area`` in square metres."""
    return f"{area:,.0f} m2 ({area / 10_000:,.2f} ha)"
