"""Reviewed changes as training pairs in the layout of LEVIR-CC: what people confirmed, and what they refuted.

A crop becomes a pair only where a person has judged every change in it. Crops that show the same ground are
one place, and a place is trained on or validated on, never both.
"""

from __future__ import annotations

import random
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import shapely
from shapely.geometry import MultiPolygon, Polygon, box

from rscc.data.benchmarks.annotations import clean_captions
from rscc.data.pairs import PairSample
from rscc.data.synthesis.folder import PARTS, new_folder, write_annotations, write_pair
from rscc.text.no_change import NO_CHANGE_SENTENCES
from tiling.outlines import components
from workflows.errors import NothingToExport, ReportInvalid
from workflows.inspection.event import ReportedRun, outlines_on, read_report
from workflows.inspection.explain import window_ground
from workflows.options import ServerOptions
from workflows.progress import Progress, tell
from workflows.report.change import WRONG_PLACE, WRONG_WORDS, Change
from workflows.report.reading import no_report
from workflows.report.record import run_id
from workflows.report.report import ChangeReport
from workflows.scene.crops import CropPlanner, burnt
from workflows.scene.memory import bounded_cache
from workflows.texts import shown

VALIDATION_SHARE = 0.2
"""Of all crops, those of the places that are validated on; about."""
TRAIN, VAL = "train", "val"
# Pixels a side that a tile of a model can have.
_TILES = range(16, 4097)
# What a sentence says of the place in the scene.
_PLACE = re.compile(r",? in the (?:(?:north|south)(?:-(?:east|west))?|east|west|centre)(?![\w-]| of\b)")
# Why a reviewed change becomes no pair.
TOO_LARGE, NOT_MARKED, NOT_ALONE, NO_WORDS = LEFT_OUT = (
    "larger than a crop",
    "beside changes without a verdict",
    "in the wrong place, but beside true changes",
    "in the wrong words, without the right ones",
)


@dataclass(frozen=True)
class ExportSummary:
    """What was written.

    Attributes:
        splits: of ``train`` and ``val``, the numbers of changed and of unchanged pairs.
        places: how many places they show.
        left_out: reviewed changes that became no pair, by one of :data:`LEFT_OUT`.
    """

    folder: Path
    splits: dict[str, tuple[int, int]]
    places: int
    left_out: dict[str, int]

    def as_dict(self) -> dict[str, Any]:
        """Return plain values."""
        splits = {
            name: {"changed": changed, "unchanged": same} for name, (changed, same) in self.splits.items()
        }
        return {"output": str(self.folder), **splits, "places": self.places, "left_out": self.left_out}


def export_pairs(
    reports: Sequence[Path], folder: Path, *, seed: int = 0, progress: Progress | None = None
) -> ExportSummary:
    """Write a folder that ``rscc train --data`` takes; it appears under its name only when it is complete.

    A confirmed change, or one in the wrong words with the right ones beside it, is a changed pair: a crop of
    a tile of the model around it, its sentence, and as its mask the outlines of all true changes in the crop.
    A change in the wrong place is an unchanged pair. What a sentence says of the place in the scene is left
    out.

    Args:
        reports: their files, with their scenes where they say or beside them.
        folder: must not exist.
        seed: of which places are validated on.
        progress: told of the stage ``pairs``, in reports.

    Raises:
        ReportInvalid, MarksInvalid: a report is damaged, or a sample, which is there to measure by.
        TilingError: a scene cannot be read.
        NothingToExport: no reviewed change makes a pair, or all of them show one place.
        rscc.errors.OutputExists: the folder is there already.
    """
    left_out: Counter[str] = Counter()
    entries: list[dict[str, Any]] = []
    grounds: list[Polygon | MultiPolygon] = []
    origins = []
    with new_folder(folder, TRAIN, VAL) as partial, bounded_cache():
        for number, path in enumerate(dict.fromkeys(reports), start=1):
            report = _checked(path)
            origins.append({"name": path.name, "report": run_id(report.run)})
            for sample, ground, gsd in _samples(path, report, left_out):
                name = f"{len(entries):06d}.png"
                kind = "confirmed" if sample.changed else WRONG_PLACE
                entries.append(write_pair(partial, sample, name, split=TRAIN, kind=kind, gsd=gsd))
                grounds.append(ground)
            tell(progress, "pairs", number, len(reports))
        places = places_of(grounds)
        _split(partial, entries, places, validation_places(places, seed))
        counts = Counter((entry["split"], entry["changeflag"]) for entry in entries)
        splits = {split: (counts[split, 1], counts[split, 0]) for split in (TRAIN, VAL)}
        summary = ExportSummary(folder, splits, len(set(places)), dict(left_out))
        if not all(map(sum, summary.splits.values())):
            raise NothingToExport(f"{shown(folder)}: not written: {_too_few(summary)}")
        record = {"reports": origins, "seed": seed, **summary.as_dict()}
        content = {"dataset": "reviewed changes", "gsd": entries[0]["gsd"], "images": entries}
        write_annotations(partial, content, record)
    return summary


def places_of(grounds: Sequence[Polygon | MultiPolygon]) -> list[int]:
    """Return the number of the place of each crop: crops that overlap, also by way of others, are of one."""
    if not grounds:
        return []
    near = shapely.STRtree(grounds).query(grounds, predicate="intersects")
    places: list[int] = components(len(grounds), near.T)[1].tolist()
    return places


def validation_places(places: Sequence[int], seed: int) -> set[int]:
    """Return the places that are validated on: about a fifth of all crops, and at least one place of two."""
    sizes = Counter(places)
    room = VALIDATION_SHARE * len(places)
    chosen = set()
    for place in random.Random(seed).sample(sorted(sizes), len(sizes)):
        if sizes[place] <= room:
            chosen.add(place)
            room -= sizes[place]
    return chosen or ({min(sizes, key=lambda place: (sizes[place], place))} if len(sizes) > 1 else set())


def _checked(path: Path) -> ChangeReport:
    report = read_report(path)
    if "sample" in report.run:
        raise ReportInvalid(
            f"{shown(path)}: it is a sample, which is there to measure by and lacks what lies beside its "
            "changes; give reports of pairs"
        )
    return report


def _samples(
    path: Path, report: ChangeReport, left_out: Counter[str]
) -> Iterator[tuple[PairSample, Polygon | MultiPolygon, float]]:
    """Yield the pairs of a report, the ground that each shows, and its metres per pixel."""
    if not any(change.review_status for change in report.changes):
        return
    run = ReportedRun(path, report.run)
    tile = report.run["tiling"].get("tile")
    if type(tile) is not int or tile not in _TILES:
        raise no_report(path, "it does not say how large a tile of its model is")
    with run.opened(run.scenes(), ServerOptions().for_others()) as pair:
        outlines = outlines_on(pair, report, path)
        tree = shapely.STRtree(outlines)
        for change, outline in zip(report.changes, outlines, strict=True):
            if not change.review_status:
                continue
            left, top, right, bottom = outline.bounds
            if max(right - left, bottom - top) > tile:
                left_out[TOO_LARGE] += 1
                continue
            window = CropPlanner(pair.grid.width, pair.grid.height, tile).around(outline.bounds)
            crop = box(window.col_off, window.row_off, window.col_end, window.row_end)
            seen = tree.query(crop, predicate="intersects")
            captions = _captions(change)
            reason = _obstacle(change, captions, [report.changes[one] for one in seen])
            if reason is not None:
                left_out[reason] += 1
                continue
            is_true = change.review_status != WRONG_PLACE
            true = [outlines[one] for one in seen if report.changes[one].review_status != WRONG_PLACE]
            before, after, _ = pair.read(window)
            mask = burnt(true, window, all_touched=False)
            sample = PairSample(str(change.id), before, after, mask, captions, is_true)
            yield sample, window_ground(pair, window), round(float(pair.grid.gsd), 4)


def _captions(change: Change) -> tuple[str, ...]:
    """Return what is true of the crop of a reviewed change; nothing where that is not known."""
    if change.review_status == WRONG_PLACE:
        return NO_CHANGE_SENTENCES
    if change.review_status == WRONG_WORDS and not change.reviewer_caption:
        return ()
    # Of what a person has seen there is no perhaps any more.
    text = change.reviewer_caption or change.caption.replace("perhaps ", "")
    return clean_captions([_PLACE.sub("", text)])


def _obstacle(change: Change, captions: tuple[str, ...], seen: Sequence[Change]) -> str | None:
    """Return why a change becomes no pair; ``seen`` are all changes in its crop."""
    if not captions:
        return NO_WORDS
    if not all(one.review_status for one in seen):
        return NOT_MARKED
    is_wrong = change.review_status == WRONG_PLACE
    return NOT_ALONE if is_wrong and any(one.review_status != WRONG_PLACE for one in seen) else None


def _split(folder: Path, entries: list[dict[str, Any]], places: Sequence[int], validated: set[int]) -> None:
    """Say of each pair which place it shows, and move those that are validated on."""
    for entry, place in zip(entries, places, strict=True):
        entry["levir_cd"] = {"image": f"place {place}"}
        if place in validated:
            entry["filepath"] = entry["split"] = VAL
            for part in PARTS:
                file = folder / "images" / TRAIN / part / entry["filename"]
                file.rename(folder / "images" / VAL / part / entry["filename"])


def _too_few(summary: ExportSummary) -> str:
    if summary.places:
        return (
            "all pairs show one place, and what is trained on must not be validated on; give reports of more "
            "places, or mark changes farther apart"
        )
    reasons = ", ".join(f"{count:,} {reason}" for reason, count in summary.left_out.items())
    return f"no reviewed change makes a pair ({reasons or 'there are none'}); mark changes of these reports"
