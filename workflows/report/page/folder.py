"""Write a report as a folder: the page, and both scenes at full detail as tiles that it loads when needed."""

import os
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from tiling import ScenePair, Window, open_regular
from workflows.errors import OutputExists
from workflows.files import check_folder, write_together
from workflows.progress import Progress, report_progress
from workflows.report.page.content import placed
from workflows.report.page.imagery import (
    Dates,
    Picture,
    blocks_of,
    empty_dates,
    finer_than,
    picture_of,
    read_dates,
    read_whole,
)
from workflows.report.page.page import TEMPLATE, shown_report
from workflows.report.page.template import data_text
from workflows.report.scenes import Pictured, open_scenes

PAGE, PICTURES = "index.html", "tiles"
TILE = 512
"""Side of a tile in pixels."""
_TEMPLATE = replace(TEMPLATE, pictures="'self'")
# A page of rscc has this near its beginning.
_MARK, _HEAD = b'<meta name="generator" content="rscc">', 4096


def check_page_folder(folder: str | Path, overwrite: bool = False, others: Iterable[str | Path] = ()) -> Path:
    """Make sure that a page can be written as a folder, leaving nothing there.

    Args:
        others: files that are read or written in the same run; none may lie in the folder.

    Raises:
        OutputExists: the name is taken by something else than such a folder, or ``overwrite`` is False.
    """
    folder = Path(os.path.abspath(folder))
    for other in others:
        if folder in Path(os.path.abspath(other)).parents:
            raise OutputExists(f"{folder}: {Path(other).name} lies in it; a page has its folder for itself")
    if os.path.lexists(folder):
        if not overwrite and folder.is_dir():
            raise OutputExists(f"{folder}: exists already; add --overwrite or choose another folder")
        if (reason := _obstacle(folder)) is not None:
            raise OutputExists(f"{folder}: {reason}, so it is not replaced; choose another folder")
    check_folder(folder)
    return folder


def _obstacle(folder: Path) -> str | None:
    """Return why a folder may not be replaced: it is no page that rscc wrote, or holds other files, too."""
    if folder.is_symlink() or not folder.is_dir():
        return "is no folder"
    page = folder / PAGE
    try:
        with open(page, "rb", opener=open_regular) as file:
            is_ours = _MARK in file.read(_HEAD) and not page.is_symlink()
    except OSError:
        is_ours = False
    if not is_ours:
        return f"has no {PAGE} that rscc wrote"
    for path in folder.rglob("*"):
        known = path in (page, folder / PICTURES) or path.match(f"{PICTURES}/*.webp")
        if not known or path.is_symlink():
            return f"holds {path.relative_to(folder)}, too"
    return None


def write_page_folder(
    report: Pictured, folder: str | Path, *, overwrite: bool = False, progress: Progress | None = None
) -> Path:
    """Write a report as a folder, see :meth:`workflows.report.report.Report.page_folder`; return the page."""
    folder = check_page_folder(folder, overwrite, (report.source,))
    with open_scenes(report) as pair:
        window, _, texts = shown_report(report, pair)

        def write(draft: Path) -> None:
            (draft / PICTURES).mkdir(parents=True)
            imagery = _Pictures(pair, window, draft).write(progress)
            with (draft / PAGE).open("x", encoding="utf-8", newline="") as file:
                file.writelines(_TEMPLATE.joined(data=texts, imagery=data_text(imagery)))

        write_together({folder: write})
    return folder / PAGE


@dataclass(frozen=True)
class _Pictures:
    """Both dates as files in a folder: one of the whole ground, and tiles in more and more detail."""

    pair: ScenePair
    window: Window
    folder: Path
    tiles: list[dict[str, Any]] = field(default_factory=list)

    def write(self, progress: Progress | None) -> dict[str, Any]:
        """Write them all, and return what the page knows of them."""
        dates, reduced = read_whole(self.pair, self.window, progress)
        whole = self._save(picture_of(self.window, dates, reduced), "whole")
        by = max(finer_than(reduced), default=0)
        blocks = blocks_of(self.window, TILE * by) if by else []
        for done, block in enumerate(blocks, start=1):
            self._write_tile(block, by)
            report_progress(progress, "pictures", done, len(blocks))
        return {"whole": whole, "parts": self.tiles, "reduced": 1}

    def _write_tile(self, block: Window, by: int) -> Dates:
        """Write and return a tile after the finer ones that it is made of: the scenes are read once."""
        if by == 1:
            dates = read_dates(self.pair, block, 1)
        else:
            dates = empty_dates(block, by)
            for quarter in blocks_of(block, TILE * by // 2):
                corner = ((quarter.col_off - block.col_off) // by, (quarter.row_off - block.row_off) // by)
                for date, finer in zip(dates, self._write_tile(quarter, by // 2), strict=True):
                    date.paste(finer.reduce(2), corner)
        # A tile without data on both dates is left out.
        if any(date.getchannel("A").getbbox() for date in dates):
            row, col = (block.row_off - self.window.row_off, block.col_off - self.window.col_off)
            name = f"{by}_{row // (TILE * by)}_{col // (TILE * by)}"
            self.tiles.append(self._save(picture_of(block, dates, by), name))
        return dates

    def _save(self, picture: Picture, name: str) -> dict[str, Any]:
        before, after = (f"{PICTURES}/{name}_{role}.webp" for role in ("before", "after"))
        (self.folder / before).write_bytes(picture.before)
        (self.folder / after).write_bytes(picture.after)
        return placed(picture, self.window, before, after)
