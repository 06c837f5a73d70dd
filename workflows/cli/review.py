"""The command ``rscc review``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from workflows.cli.options import Debug, QuietOption


def review(
    report: Annotated[Path, typer.Argument(metavar="REPORT", help="A .geojson report, of any run.")],
    marks: Annotated[
        list[Path],
        typer.Argument(metavar="MARKS", help="Files of marks that the page of the report gave out."),
    ],
    output: Annotated[
        Path | None,
        typer.Option(
            "--output", "-o", help="Report to write, in any format; default: REPORT itself, with the marks."
        ),
    ] = None,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace an existing output.")] = False,
    quiet: QuietOption = False,
    debug: Debug = False,
) -> None:
    """Merge marks of reviewers into REPORT: what they confirmed, and what is in the wrong place or words.

    Of several marks of one change the latest holds. Captions, outlines and scores stay as they are.
    """
    from collections import Counter

    from workflows.cli.terminal import say
    from workflows.files import check_output
    from workflows.inspection.event import read_report
    from workflows.inspection.review import VERDICTS, read_marks, reviewed

    if output is not None:
        check_output(output, overwrite, (report, *marks))
    read = read_report(report)
    merged = reviewed(read, [mark for path in marks for mark in read_marks(path, read)])
    if output is None:
        merged.replace(report)
    else:
        merged.write(output, overwrite)
    if not quiet:
        counts = Counter(change.review_status for change in merged.changes)
        told = ", ".join(f"{counts[verdict]:,} {verdict}" for verdict in VERDICTS)
        say(f"{output or report}: {told}, {counts[None]:,} without a verdict")
