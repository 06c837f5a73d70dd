"""The command ``rscc review``."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from rscc.config import MOST_SEED
from workflows.cli.options import OverwriteOption, argument, option, takes_options
from workflows.cli.terminal import Terminal
from workflows.printable import counted, printable_lines

if TYPE_CHECKING:
    from workflows.report.review import Conflict, Precision

Layout = StrEnum("Layout", {"levir_cc": "levir-cc"})
MAX_SAMPLE = 1_000_000
MAX_CONFLICTS = 10
"""Conflicts that are printed; ``--json`` has all."""
Result = tuple[list[str], dict[str, Any]]
"""Lines for a person, and the same as plain values."""


@takes_options()
def review(
    report: Annotated[
        Path,
        argument(
            "REPORT",
            "Report: .geojson, .gpkg or .parquet; with --sample an archive, with --export a new folder",
        ),
    ],
    marks: Annotated[
        list[Path] | None,
        argument(
            "MARKS", "Files of marks that the web page of the report saved; with --export marked reports"
        ),
    ] = None,
    sample: Annotated[
        int | None,
        option("Draw N changes of an archive into --output, for marking", "N", min=1, max=MAX_SAMPLE),
    ] = None,
    export: Annotated[
        Layout | None,
        option("Write reviewed changes as training pairs: --export levir-cc FOLDER REPORT ...", "levir-cc"),
    ] = None,
    seed: Annotated[
        int, option("Random seed of --sample, and of the --export split", "N", min=0, max=MOST_SEED)
    ] = 0,
    output: Annotated[
        Path | None,
        option("Report to write, a sample as .geojson; default: REPORT is updated", "FILE", "--output", "-o"),
    ] = None,
    overwrite: OverwriteOption = False,
    *,
    terminal: Terminal,
) -> None:
    """Merge reviewers' marks into REPORT: which changes are right, and which outlines or words are wrong.

    The newest verdict on a change counts. Captions, outlines and scores stay as they are. For a sample
    (--sample N ARCHIVE), the precision of the whole archive is estimated.
    """
    from workflows.errors import OptionInvalid

    paths = marks or []
    if export is not None:
        if sample is not None or output is not None or overwrite or not paths:
            raise OptionInvalid(
                "--export: give a new folder and reports, without --sample, --output and --overwrite"
            )
        lines, facts = _export(report, paths, seed, terminal)
    elif sample is not None:
        if output is None or output.suffix.lower() != ".geojson" or paths:
            raise OptionInvalid("--sample: give one archive, and with -o the .geojson to write")
        lines, facts = _sample(report, sample, seed, output, overwrite)
    else:
        lines, facts = _merge(report, paths, output, overwrite)
    terminal.result(printable_lines(lines), facts)


def _sample(archive: Path, count: int, seed: int, output: Path, overwrite: bool) -> Result:
    from workflows.archive.sample import draw_sample
    from workflows.report.report import check_report

    check_report(output, overwrite)
    drawn = draw_sample(archive, count, seed)
    drawn.write(output, overwrite)
    total = drawn.run["sample"]["changes"]
    line = f"{output}: {len(drawn.changes):,} of {total:,} changes, for marking"
    return [line], {"output": str(output), "drawn": len(drawn.changes), "changes": total, "seed": seed}


def _export(folder: Path, reports: Sequence[Path], seed: int, terminal: Terminal) -> Result:
    from workflows.files import check_folder
    from workflows.report.training_pairs import export_pairs

    check_folder(folder)
    with terminal.progress() as update:
        made = export_pairs(reports, folder, seed=seed, progress=update)
    lines = [f"{folder}: pairs of {counted(made.places, 'place')}"]
    for split, (changed, same) in made.splits.items():
        lines.append(f"{split:<9}{changed:,} changed, {same:,} unchanged")
    lines += [f"left out {count:,} {reason}" for reason, count in made.left_out.items()]
    return lines, made.as_dict()


def _merge(report: Path, paths: Sequence[Path], output: Path | None, overwrite: bool) -> Result:
    from workflows.report.change import VERDICTS
    from workflows.report.review import review_report, verdicts_of

    review = review_report(report, paths, output, overwrite=overwrite)
    counts, precision, deleted = verdicts_of(review.report.changes), review.precision, review.deleted
    listed = ", ".join(f"{counts[verdict]:,} {verdict}" for verdict in VERDICTS)
    line = f"{output or report}: {listed}, {counts[None]:,} without a verdict"
    if deleted:
        line += f"; {deleted:,} marked {'change is' if deleted == 1 else 'changes are'} no longer in it"
    lines = [line, *(_precision_lines(precision) if precision else []), *_conflict_lines(review.conflicts)]
    facts = {
        "report": str(output or report),
        "verdicts": {verdict: counts[verdict] for verdict in VERDICTS},
        "without": counts[None],
        "deleted": deleted,
        "conflicts": [asdict(one) for one in review.conflicts],
        "precision": precision and asdict(precision),
    }
    return lines, facts


def _conflict_lines(conflicts: Sequence[Conflict]) -> list[str]:
    lines = []
    for one in conflicts[:MAX_CONFLICTS]:
        newer, older = one.reviewer or "a reviewer", one.other_reviewer or "a reviewer"
        lines.append(
            f"conflict     change {one.id}: {one.verdict} by {newer}, earlier {one.other_verdict} by {older}"
        )
    if len(conflicts) > MAX_CONFLICTS:
        lines.append(f"             and {len(conflicts) - MAX_CONFLICTS:,} more conflicts")
    return lines


def _precision_lines(found: Precision) -> list[str]:
    """Return what a marked sample says about its archive."""
    low, high = found.true_changes_interval
    lines = [
        f"precision    {found.precision:.3f} {_interval(found.precision_interval)}",
        f"true changes about {found.true_changes:,} of {found.changes:,} ({low:,} to {high:,})",
    ]
    if found.right_words is not None and found.right_words_interval is not None:
        interval = _interval(found.right_words_interval)
        lines.append(f"right words  {found.right_words:.3f} of the true changes {interval}")
    if found.marked < found.drawn:
        lines.append(f"not final    {found.drawn - found.marked:,} of the sample have no verdict yet")
    return lines


def _interval(interval: tuple[float, float]) -> str:
    return f"(95 percent: {interval[0]:.3f} to {interval[1]:.3f})"
