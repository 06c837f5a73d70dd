"""The command ``rscc verify``."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from workflows.cli.options import MovedAfterOption, MovedBeforeOption, argument, option, takes_options
from workflows.cli.terminal import Terminal

if TYPE_CHECKING:
    from workflows.archive.verify import Verification


@takes_options()
def verify(
    report: Annotated[Path, argument("REPORT", "Report, layer of an archive, or folder of an archive")],
    before: MovedBeforeOption = None,
    after: MovedAfterOption = None,
    model: Annotated[
        str | None, option("Shipped model or model folder; default: as in the report", "MODEL", panel="Input")
    ] = None,
    *,
    terminal: Terminal,
) -> None:
    """Check that scenes, model and settings are still those that REPORT was made from.

    Exit codes: 0 nothing changed; 1 something changed or is missing; 2 no report; 3 something could not be
    checked.
    """
    from workflows.archive.verify import CHANGED, UNCHECKED, Verifier
    from workflows.errors import OptionInvalid

    if report.is_dir() and (before or after):
        raise OptionInvalid(f"{report}: an archive has many scenes; leave --before and --after out")
    files, states = [], Counter[str]()
    for verified in Verifier(before, after, model).verify(report):
        states[verified.state] += 1
        files.append(verified.as_dict())
        if not terminal.as_json:
            terminal.notice(_verified_text(verified, is_single=verified.path == report), err=False)
    code = 1 if states[CHANGED] else 3 if states[UNCHECKED] else 0
    text = ""
    if report.is_dir() and not terminal.as_json:
        counts = ", ".join(f"{count:,} {state}" for state, count in sorted(states.items()))
        text = f"{states.total():,} files: {counts}"
    terminal.result(text, {"files": files, "exit_code": code})
    raise typer.Exit(code)


def _verified_text(verified: Verification, *, is_single: bool) -> str:
    """Return one line per finding; for a file of an archive, its name and what changed."""
    from workflows.archive.verify import SAME
    from workflows.printable import printable

    lines = [
        f"{finding.state:<10}{finding.subject:<9} {finding.detail}"
        for finding in verified.findings
        if is_single or finding.state != SAME
    ]
    if is_single:
        return "\n".join(lines)
    return "\n".join([f"{verified.state:<10}{printable(verified.path)}", *(f"  {line}" for line in lines)])
