"""A table of pairs run into an archive in this process, with an engine without processes."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

from archive_fakes import fake_card, load_fake
from archive_pairs import MadeArchive
from inline_engine import InlineEngine

from workflows import SceneOptions
from workflows.archive.plan import ArchiveOptions
from workflows.archive.run import ArchiveSummary, run_archive
from workflows.engines.tasks import ModelSource
from workflows.pairs.table import read_pairs
from workflows.store.ledger import Ledger


def run(
    made: MadeArchive,
    out: Path,
    engine: InlineEngine | None = None,
    scene: SceneOptions | None = None,
    notice: Callable[[str], None] | None = None,
    warn: Callable[[str], None] | None = None,
    **options,
) -> ArchiveSummary:
    """Run the table into ``out``; without an engine none may be started."""

    def start(source: ModelSource) -> InlineEngine:
        assert engine is not None, "there is nothing to do"
        return engine

    model = fake_card("fake"), ModelSource("fake", "cpu", load_fake)
    how = scene or SceneOptions(), ArchiveOptions(**options)
    return run_archive(read_pairs(made.table), out, *model, start, *how, notice=notice, warn=warn)


def begun(engine: InlineEngine) -> list[str]:
    """The pairs that an engine was given, in order."""
    return [task.partition("/")[0] for task in engine.begun]


def states(out: Path) -> dict[str, str]:
    with Ledger.reader(out) as ledger:
        return {row.pair: row.state for row in ledger.rows()}


def mark(report: Path) -> bytes:
    """Confirm the first change of a report, which has one, as a person does; returns its new bytes.

    It is left without its attribute ``id``, which GIS drop, and without one that earlier versions lack.
    """
    content = json.loads(report.read_bytes())
    properties = content["features"][0]["properties"]
    properties |= {"review_status": "confirmed", "reviewer": "Zoe"}
    del properties["id"], properties["changed_at_least"]
    # A new file, as rscc review and GIS make it.
    report.unlink()
    report.write_text(json.dumps(content)[:-2] + "\n]\n}\n")
    return report.read_bytes()
