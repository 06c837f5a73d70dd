"""The command ``rscc review``."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from rscc.config import MOST_SEED
from workflows.cli.options import Debug, JsonOption, ProgressForm, QuietOption
from workflows.texts import counted, shown_lines

if TYPE_CHECKING:
    from workflows.inspection.precision import Precision
    from workflows.progress import Progress

Layout = StrEnum("Layout", {"levir_cc": "levir-cc"})
MOST_DRAWN = 1_000_000
"""Changes of a sample; nobody marks more."""


def review(
    report: Annotated[
        Path,
        typer.Argument(
            metavar="REPORT",
            help="A report: .geojson, .gpkg or .parquet; with --sample an archive, with --export a folder to "
            "make.",
        ),
    ],
    marks: Annotated[
        list[Path] | None,
        typer.Argument(
            metavar="MARKS",
            help="Files of marks that the page of the report gave out; with --export reports that have them.",
        ),
    ] = None,
    sample: Annotated[
        int | None,
        typer.Option(
            "--sample",
            metavar="N",
            min=1,
            max=MOST_DRAWN,
            help="Draw N changes of an archive into --output, to be marked.",
        ),
    ] = None,
    export: Annotated[
        Layout | None,
        typer.Option(
            "--export", help="Write reviewed changes as training pairs: --export levir-cc FOLDER REPORT ..."
        ),
    ] = None,
    seed: Annotated[
        int,
        typer.Option(
            min=0, max=MOST_SEED, help="Of what --sample draws, and of what --export keeps for validation."
        ),
    ] = 0,
    output: Annotated[
        Path | None,
        typer.Option(
            "--output",
            "-o",
            help="Report to write, in any format, a sample as .geojson; default: REPORT, with the marks.",
        ),
    ] = None,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace an existing output.")] = False,
    quiet: QuietOption = False,
    as_json: JsonOption = False,
    debug: Debug = False,
) -> None:
    """Merge marks of reviewers into REPORT: what they confirmed, and what is in the wrong place or words.

    Of several marks of one change the latest holds. Captions, outlines and scores stay as they are. Of a
    sample (--sample N ARCHIVE) it says how many changes of the whole archive are right.
    """
    from workflows.cli.terminal import show_result, shown_progress
    from workflows.errors import OptionInvalid

    if export is not None:
        if sample is not None or output is not None or overwrite or not marks:
            raise OptionInvalid(
                "--export: give a new folder to write, then reports, without --sample, -o and --overwrite"
            )
        with shown_progress(ProgressForm.auto, quiet) as update:
            text, facts = _exported(report, marks, seed, update)
    elif sample is not None:
        text, facts = _sampled(report, marks, sample, seed, output, overwrite)
    else:
        text, facts = _reviewed(report, marks or [], output, overwrite)
    show_result(text, facts, ProgressForm.auto, quiet=quiet, as_json=as_json)


def _sampled(
    archive: Path, marks: list[Path] | None, count: int, seed: int, output: Path | None, overwrite: bool
) -> tuple[str, dict[str, Any]]:
    from workflows.archive.sample import draw_sample
    from workflows.errors import OptionInvalid
    from workflows.report.report import check_report

    if output is None or output.suffix.lower() != ".geojson" or marks:
        raise OptionInvalid("--sample: give one archive, and with -o the .geojson to write")
    check_report(output, overwrite)
    drawn = draw_sample(archive, count, seed)
    drawn.write(output, overwrite)
    total = drawn.run["sample"]["changes"]
    text = f"{output}: {len(drawn.changes):,} of {total:,} changes, to be marked"
    facts = {"output": str(output), "drawn": len(drawn.changes), "changes": total, "seed": seed}
    return shown_lines([text]), facts


def _exported(
    folder: Path, reports: list[Path], seed: int, progress: Progress | None
) -> tuple[str, dict[str, Any]]:
    from workflows.files import check_folder
    from workflows.inspection.training_pairs import export_pairs

    check_folder(folder)
    made = export_pairs(reports, folder, seed=seed, progress=progress)
    lines = [f"{folder}: pairs of {counted(made.places, 'place')}"]
    for split, (changed, same) in made.splits.items():
        lines.append(f"{split:<9}{changed:,} changed, {same:,} unchanged")
    lines += [f"left out {count:,} {reason}" for reason, count in made.left_out.items()]
    return shown_lines(lines), made.as_dict()


def _reviewed(
    report: Path, marks: list[Path], output: Path | None, overwrite: bool
) -> tuple[str, dict[str, Any]]:
    from workflows.errors import OptionInvalid
    from workflows.inspection.event import read_report
    from workflows.inspection.precision import precision_of, verdicts_of
    from workflows.inspection.review import read_marks, reviewed, write_marks
    from workflows.report.change import VERDICTS
    from workflows.report.reading import LAYER_FORMATS, chips_in
    from workflows.report.report import check_report

    if output is not None:
        check_report(output, overwrite, (report, *marks))
    elif marks and report.suffix.lower() in LAYER_FORMATS:
        raise OptionInvalid(f"{report}: marks are written into a .geojson alone; give -o with another file")
    read = read_report(report)
    said = [mark for path in marks for mark in read_marks(path, read)]
    merged = reviewed(read, said)
    deleted = len({mark.id for mark in said} - {change.id for change in read.changes})
    counts, precision = verdicts_of(merged), precision_of(merged, report)
    if output is not None:
        merged.write(output, overwrite, chips_in(report))
    elif marks:
        write_marks(report, merged)
    told = ", ".join(f"{counts[verdict]:,} {verdict}" for verdict in VERDICTS)
    text = f"{output or report}: {told}, {counts[None]:,} without a verdict"
    if deleted:
        text += f"; {deleted:,} marked {'change is' if deleted == 1 else 'changes are'} not in it any more"
    facts = {
        "report": str(output or report),
        "verdicts": {verdict: counts[verdict] for verdict in VERDICTS},
        "without": counts[None],
        "deleted": deleted,
        "precision": precision and precision.as_dict(),
    }
    return shown_lines([text, *(_lines(precision) if precision else [])]), facts


def _lines(found: Precision) -> list[str]:
    """Say what a sample tells of its archive."""
    number, low, high = found.true_changes
    lines = [
        f"precision    {found.precision.share:.3f} {_interval(found.precision.interval)}",
        f"true changes about {number:,} of {found.changes:,} ({low:,} to {high:,})",
    ]
    if found.right_words is not None:
        share = found.right_words
        lines.append(f"right words  {share.share:.3f} of the true changes {_interval(share.interval)}")
    if found.marked < found.drawn:
        lines.append(f"not final    {found.drawn - found.marked:,} of the sample have no verdict yet")
    return lines


def _interval(interval: tuple[float, float]) -> str:
    return f"(95 percent: {interval[0]:.3f} to {interval[1]:.3f})"
