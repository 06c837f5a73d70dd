"""An archive that is nearly done, made without working through it: what a restart finds."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

from stub_pairs import stub_card

from workflows.archive.plan import ArchiveOptions, with_keys
from workflows.layers.stac import stac_item
from workflows.options import SceneOptions
from workflows.pairs.rows import PairRow
from workflows.report.qgis import qgis_style
from workflows.store.folder import ITEM, REPORT, STYLE, ArchiveFolder
from workflows.store.ledger import Ledger


def make_finished(path: Path, rows: Sequence[PairRow], share: float, report: Path) -> None:
    """Make an archive in which the first ``share`` of the pairs is done, each with the same report."""
    folder = ArchiveFolder(path, durable=False)
    folder.create()
    content = report.read_bytes()
    known = json.loads(content)
    changes = [change["properties"]["area_m2"] for change in known["features"]]
    with Ledger.open(path) as ledger:
        ledger.plan(
            with_keys(rows, ledger, SceneOptions(), stub_card(), ArchiveOptions()), retry_failed=False
        )
        for row in ledger.next(round(share * len(rows))):
            item = json.dumps(stac_item(row, known), ensure_ascii=False, indent=1)
            folder.install(
                row.pair, {REPORT: content, STYLE: qgis_style().encode(), ITEM: f"{item}\n".encode()}
            )
            ledger.start(row.pair, 1)
            ledger.done(
                row.pair,
                worker="made",
                seconds=1.0,
                changes=len(changes),
                area_m2=sum(changes),
                tiles=known["rscc"]["tiling"]["tiles"],
                warnings=(),
            )
    folder.tidy()
