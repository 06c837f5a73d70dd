"""Export reviewed changes as training pairs in the layout of LEVIR-CC.

A crop becomes a pair only where a person has judged every change in it. Crops that show the same ground form
one site; a site is used for training or for validation, never for both.
"""

import random
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import shapely
from affine import Affine
from rasterio.features import rasterize
from shapely.geometry import MultiPolygon, Polygon, box

from rscc.data.benchmarks.annotations import clean_captions
from rscc.data.pairs import PairSample
from rscc.data.synthesis.folder import PARTS, new_folder, write_annotations, write_pair
from rscc.text.no_change import NO_CHANGE_SENTENCES
from tiling import Window
from tiling.outlines import components
from workflows.errors import NothingToExport, ReportInvalid
from workflows.printable import printable
from workflows.progress import Progress, report_progress
from workflows.report.change import WRONG_PLACE, WRONG_WORDS, Change
from workflows.report.reading import no_report, open_report
from workflows.report.record import run_id
from workflows.report.report import Report
from workflows.report.scenes import open_scenes, outlines_on, window_ground
from workflows.scenes import centred

VALIDATION_SHARE = 0.2
"""Share of all crops whose sites are used for validation, about."""
TRAIN, VAL = "train", "val"
# Sides that a model's tile can have, in pixels.
_TILES = range(16, 4097)
# The part of a sentence that says where in the scene a change lies.
_PLACE = re.compile(r",? in the (?:(?:north|south)(?:-(?:east|west))?|east|west|centre)(?![\w-]| of\b)")
# Why a reviewed change becomes no pair.
TOO_LARGE = "larger than a crop"
NOT_MARKED = "beside changes without a verdict"
NOT_ALONE = "in the wrong place, but beside true changes"
NO_WORDS = "in the wrong words, without the right ones"


@dataclass(frozen=True)
class ExportSummary:
    """What was written.

    Attributes:
        splits: for ``train`` and ``val``, the numbers of changed and of unchanged pairs.
        left_out: numbers of reviewed changes that became no pair, by the reason.
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
    """Write a folder for ``rscc train --data``; it appears under its name once it is complete.

    A confirmed change, or one in the wrong words with the right ones beside it, is a changed pair: the crop
    of a tile of the model around it, its sentence without its place in the scene, and as mask the outlines
    of all true changes in the crop. A change in the wrong place is an unchanged pair.

    Args:
        reports: their files; the scenes lie where they say, or beside them.
        folder: must not exist.

    Raises:
        ReportInvalid: a report is damaged, or a sample, which serves to measure the precision.
        NothingToExport: no reviewed change makes a pair, or all of them show one site.
    """
    left_out: Counter[str] = Counter()
    entries: list[dict[str, Any]] = []
    grounds: list[Polygon | MultiPolygon] = []
    origins = []
    with new_folder(folder, TRAIN, VAL) as partial:
        for number, path in enumerate(dict.fromkeys(reports), start=1):
            report = _checked(path)
            origins.append({"name": path.name, "report": run_id(report.run)})
            for sample, ground, gsd in _samples(report, left_out):
                name = f"{len(entries):06d}.png"
                kind = "confirmed" if sample.changed else WRONG_PLACE
                entries.append(write_pair(partial, sample, name, split=TRAIN, kind=kind, gsd=gsd))
                grounds.append(ground)
            report_progress(progress, "pairs", number, len(reports))
        sites = sites_of(grounds)
        _split(partial, entries, sites, validation_sites(sites, seed))
        counts = Counter((entry["split"], entry["changeflag"]) for entry in entries)
        splits = {split: (counts[split, 1], counts[split, 0]) for split in (TRAIN, VAL)}
        summary = ExportSummary(folder, splits, len(set(sites)), dict(left_out))
        if not all(map(sum, summary.splits.values())):
            raise NothingToExport(f"{printable(folder)}: not written: {_reason_for_too_few(summary)}")
        record = {"reports": origins, "seed": seed, **summary.as_dict()}
        content = {"dataset": "reviewed changes", "gsd": entries[0]["gsd"], "images": entries}
        write_annotations(partial, content, record)
    return summary


def sites_of(grounds: Sequence[Polygon | MultiPolygon]) -> list[int]:
    """Return the number of the site of each crop; crops that overlap, also through others, share one."""
    if not grounds:
        return []
    near = shapely.STRtree(grounds).query(grounds, predicate="intersects")
    sites: list[int] = components(len(grounds), near.T)[1].tolist()
    return sites


def validation_sites(sites: Sequence[int], seed: int) -> set[int]:
    """Return the sites for validation: about a fifth of all crops, and at least one of two sites."""
    sizes = Counter(sites)
    room = VALIDATION_SHARE * len(sites)
    chosen = set()
    for site in random.Random(seed).sample(sorted(sizes), len(sizes)):
        if sizes[site] <= room:
            chosen.add(site)
            room -= sizes[site]
    return chosen or ({min(sizes, key=lambda site: (sizes[site], site))} if len(sizes) > 1 else set())


def _checked(path: Path) -> Report:
    report = open_report(path)
    if "sample" in report.run:
        raise ReportInvalid(
            f"{printable(path)}: it is a sample, which serves to measure and lacks what lies beside its "
            "changes; give reports of pairs"
        )
    return report


def _samples(
    report: Report, left_out: Counter[str]
) -> Iterator[tuple[PairSample, Polygon | MultiPolygon, float]]:
    """Yield the pairs of a report, the ground that each shows, and its metres per pixel."""
    changes = report.changes
    if not any(change.review_status for change in changes):
        return
    tile = report.run["tiling"].get("tile")
    if type(tile) is not int or tile not in _TILES:
        raise no_report(report.source, "it does not say how large a tile of its model is")
    with open_scenes(report) as pair:
        outlines = outlines_on(pair, report)
        tree = shapely.STRtree(outlines)
        for change, outline in zip(changes, outlines, strict=True):
            if not change.review_status:
                continue
            left, top, right, bottom = outline.bounds
            if max(right - left, bottom - top) > tile:
                left_out[TOO_LARGE] += 1
                continue
            col = centred(left, right, tile, pair.grid.width)
            window = Window(col, centred(top, bottom, tile, pair.grid.height), tile, tile)
            crop = box(*window.bounds)
            seen = tree.query(crop, predicate="intersects")
            captions = _captions(change)
            reason = _obstacle(change, captions, [changes[number] for number in seen])
            if reason is not None:
                left_out[reason] += 1
                continue
            true = [outlines[number] for number in seen if changes[number].review_status != WRONG_PLACE]
            before, after, _ = pair.read(window)
            is_true = change.review_status != WRONG_PLACE
            sample = PairSample(str(change.id), before, after, _mask(true, window), captions, is_true)
            yield sample, window_ground(pair, window), round(float(pair.grid.gsd), 4)


def _mask(outlines: Sequence[MultiPolygon], window: Window) -> np.ndarray:
    """Return the pixels (h, w) bool of a window whose centre lies in one of the outlines."""
    size, corner = (window.height, window.width), Affine.translation(window.col_off, window.row_off)
    if not outlines:
        return np.zeros(size, bool)
    return rasterize(outlines, out_shape=size, transform=corner, dtype=np.uint8).astype(bool)


def _captions(change: Change) -> tuple[str, ...]:
    """Return the true sentences about the crop of a reviewed change; none where they are not known."""
    if change.review_status == WRONG_PLACE:
        return NO_CHANGE_SENTENCES
    if change.review_status == WRONG_WORDS and not change.reviewer_caption:
        return ()
    text = change.reviewer_caption or change.caption
    # A reviewer has confirmed what was uncertain.
    return clean_captions([_PLACE.sub("", text.lower().replace("perhaps ", ""))])


def _obstacle(change: Change, captions: tuple[str, ...], seen: Sequence[Change]) -> str | None:
    """Return why a change becomes no pair; ``seen`` are all changes in its crop."""
    if not captions:
        return NO_WORDS
    if not all(one.review_status for one in seen):
        return NOT_MARKED
    is_wrong = change.review_status == WRONG_PLACE
    return NOT_ALONE if is_wrong and any(one.review_status != WRONG_PLACE for one in seen) else None


def _split(folder: Path, entries: list[dict[str, Any]], sites: Sequence[int], validation: set[int]) -> None:
    """Write into each entry which site it shows, and move those for validation."""
    for entry, site in zip(entries, sites, strict=True):
        entry["levir_cd"] = {"image": f"place {site}"}
        if site in validation:
            entry["filepath"] = entry["split"] = VAL
            for part in PARTS:
                file = folder / "images" / TRAIN / part / entry["filename"]
                file.rename(folder / "images" / VAL / part / entry["filename"])


def _reason_for_too_few(summary: ExportSummary) -> str:
    if summary.places:
        return (
            "all pairs show one site, which cannot serve training and validation; give reports of more "
            "sites, or mark changes farther apart"
        )
    reasons = ", ".join(f"{count:,} {reason}" for reason, count in summary.left_out.items())
    return f"no reviewed change makes a pair ({reasons or 'there are none'}); mark changes of these reports"
