"""The command ``rscc verify``."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from workflows.cli.options import Debug, JsonOption

if TYPE_CHECKING:
    from workflows.inspection.verify import Verification


def verify(
    report: Annotated[
        Path, typer.Argument(metavar="REPORT", help="Report, layer of an archive, or folder of an archive.")
    ],
    before: Annotated[
        str | None, typer.Option(metavar="FILE", help="Where BEFORE is now; default: as the report says.")
    ] = None,
    after: Annotated[
        str | None, typer.Option(metavar="FILE", help="Where AFTER is now; default: as the report says.")
    ] = None,
    model: Annotated[
        str | None,
        typer.Option(help="Name of a shipped model, or a model folder; default: the name in the report."),
    ] = None,
    as_json: JsonOption = False,
    debug: Debug = False,
) -> None:
    """Say whether scenes, model and settings are still those that REPORT was made of.

    Exit codes: 0 all is the same; 1 something changed or is missing; 2 no report; 3 something could not be
    checked.
    """
    from workflows.cli.terminal import say, say_json
    from workflows.errors import OptionInvalid
    from workflows.inspection.verify import CHANGED, UNCHECKED, Verifier

    if report.is_dir() and (before or after):
        raise OptionInvalid(f"{report}: an archive has many scenes; leave --before and --after away")
    files, states = [], Counter[str]()
    for verified in Verifier(before, after, model).verify(report):
        states[verified.state] += 1
        if as_json:
            files.append(verified.as_dict())
        else:
            say(_text(verified, alone=verified.path == report))
    code = 1 if states[CHANGED] else 3 if states[UNCHECKED] else 0
    if as_json:
        say_json({"files": files, "exit_code": code})
    elif report.is_dir():
        counts = ", ".join(f"{count:,} {state}" for state, count in sorted(states.items()))
        say(f"{states.total():,} files: {counts}")
    raise typer.Exit(code)


def _text(verified: Verification, *, alone: bool) -> str:
    """Return a line for each finding; of a file of an archive, its name and what is not the same."""
    from workflows.inspection.verify import SAME
    from workflows.texts import shown

    lines = [
        f"{finding.state:<10}{finding.subject:<9} {finding.detail}"
        for finding in verified.findings
        if alone or finding.state != SAME
    ]
    if alone:
        return "\n".join(lines)
    return "\n".join([f"{verified.state:<10}{shown(verified.path)}", *(f"  {line}" for line in lines)])
