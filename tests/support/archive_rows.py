"""Pairs of an archive and their reports, made up without any scene."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from shapely.geometry import Polygon, box

from tiling import geodesic_area_m2
from workflows.archive.archive import Archive, ArchiveOptions
from workflows.archive.claim import Claim
from workflows.archive.folder import ITEM, REPORT, STYLE, ArchiveFolder
from workflows.archive.index import PairState
from workflows.archive.layers.stac import stac_item
from workflows.archive.workers.tasks import Outcome
from workflows.pairs.rows import PairRow
from workflows.report.change import Change
from workflows.report.qgis import qgis_style
from workflows.report.record import hash_of
from workflows.report.report import Report


def pair_state(pair: str, state: str = "done", **values: Any) -> PairState:
    """A row of the index; ``values`` replace what it has by default."""
    done = {"changes": 1, "area_m2": 100.0, "tiles": 4} if state == "done" else {}
    return PairState(
        **{
            "pair": pair, "number": 0, "before": "/scenes/before.tif", "after": "/scenes/after.tif",
            "key": f"key of {pair}", "state": state, "worker": "worker-1", "finished": 1.7e9 + 2,
            "seconds": 1.25, **done, **values,
        }
    )  # fmt: skip


def failed_state(pair: str, **values: Any) -> PairState:
    """A row of a pair that failed."""
    failure = {"kind": "refused", "error": "SceneUnreadable", "line": f"{pair}.tif: no raster"}
    return pair_state(pair, "failed", **{**failure, **values})


def square_of(west: float, south: float, area_m2: float) -> Polygon:
    """A square in degrees with that area, to a hundredth of it."""
    unit = box(west, south, west + 0.001, south + 0.001)
    side = 0.001 * (area_m2 / geodesic_area_m2(unit)) ** 0.5
    return box(west, south, west + side, south + side)


def change(number: int = 1, west: float = 12.5, south: float = 41.9, **values: Any) -> Change:
    """A change whose outline has its area, by default 100.25 m2; ``values`` replace what else it has."""
    outline = values.get("geometry") or square_of(west, south, values.get("area_m2", 100.25))
    fields: dict[str, Any] = {
        "geometry": outline,
        "id": number,
        "caption": f"house {number} appears",
        "alternatives": ("a villa is built", "more houses"),
        "score": 0.75,
        "change_probability": 0.9,
        "area_m2": round(geodesic_area_m2(outline), 2),
        "date_before": "2019-08",
        "date_after": "2020",
        "before": "before.tif",
        "after": "after.tif",
        "model": "brightness",
        "model_version": "1.2.3",
    }
    return Change(**{**fields, **values})


def report(
    *changes: Change, dates: tuple[str | None, str | None] = ("2019-08", "2020"), **run: Any
) -> Report:
    """A report with as much of a run record as the layers look at; ``run`` adds to it."""
    record = {
        "inputs": {
            role: {"path": f"/scenes/{role}.tif", "date": day}
            for role, day in zip(("before", "after"), dates, strict=True)
        },
        "model": {"name": "brightness", "version": "1.2.3", "weights_sha256": "0" * 64},
        "settings": {"threshold": 0.5},
        "tiling": {"gsd": 0.5},
        "versions": {"rscc": "0.1.0"},
        **run,
    }
    return Report(list(changes), {"settings_sha256": hash_of(record["settings"]), **record})


def install(claim: Claim, row: PairState, found: Report) -> None:
    """Install a pair as a run does."""
    content = found.encoded()
    item = json.dumps(stac_item(row, json.loads(content), row.key)).encode()
    claim.install(row.pair, {REPORT: content, STYLE: qgis_style().encode(), ITEM: item})


def new_claim(path: Path) -> Claim:
    """Make an archive and return the right to write into it, which nobody else asks for."""
    path.parent.mkdir(parents=True, exist_ok=True)
    folder = ArchiveFolder(path)
    folder.create()
    return Claim(folder, folder.work / "1-of-1")


def fill(path: Path, rows: Mapping[PairRow, Report | str | None]) -> ArchiveFolder:
    """Make an archive of pairs: a report is done, a text the line of a failure, None is left to do."""
    path.parent.mkdir(parents=True, exist_ok=True)
    folder = ArchiveFolder(path)
    with Archive.open(folder, ArchiveOptions(overwrite=True)) as archive:
        archive.plan((row, "k") for row in rows)
        for row, end in rows.items():
            state = archive.index.one(row.pair)
            outcome = Outcome(
                row.pair, "refused", error="SceneNotFound", line=str(end), worker="w1", seconds=1.0
            )
            if isinstance(end, str):
                archive.fail(state, outcome)
            elif end is not None:
                archive.done(state, outcome, *archive.install(state, end.encoded()))
    return folder
