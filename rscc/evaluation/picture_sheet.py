"""A picture sheet of a captioner's predictions, for a person who judges them right, partly right or wrong.

Pairs are not selected by hand: every k-th of the changed and every k-th of the unchanged ones, in the order
of the data set. A table beside the sheet has an empty column for the verdicts.
"""

import csv
import io
import re
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from PIL import Image, ImageDraw, ImageFilter

from rscc.data.pairs import PairRecord, read_pair, truly_changed
from rscc.errors import ConfigInvalid
from rscc.evaluation.drawing import INK, PAPER, drawn_lines, wrapped
from rscc.evaluation.predictions import PairPrediction
from rscc.files import guarded_cell
from rscc.sequences import evenly

CHANGED, UNCHANGED = 60, 40
"""Largest number of pairs of either kind on a sheet."""

FORMATS = {".png": "PNG", ".jpg": "JPEG", ".jpeg": "JPEG", ".webp": "WEBP"}
PAGE = "{page}"
ON_PAGE = 10

TABLE_HEAD = (
    "number",
    "id",
    "truly_changed",
    "called_changed",
    "p_changed",
    "caption",
    "references",
    "verdict",
)

_SIDE, _TEXT, _GAP, _MARGIN = 256, 620, 12, 16
_WIDTH = 2 * _SIDE + _TEXT + 2 * _GAP
_FAINT, _RULE = (105, 105, 105), (210, 210, 210)
_PREDICTED, _TRUE = (255, 60, 40), (60, 225, 255)
_TALLEST = 60_000  # a JPEG ends at 65,535 pixels
_LEGEND = (
    "Left before, right after. Outlined in red: predicted change; in blue: true change (if there is a mask)."
)

Predicted = tuple[PairRecord, PairPrediction]
"""A pair and the prediction for it."""


def chosen(pairs: Sequence[Predicted]) -> list[Predicted]:
    """Return the pairs on a sheet, in their order: :data:`CHANGED` and :data:`UNCHANGED`, or all.

    They are evenly spaced among those of their kind, see :func:`rscc.sequences.evenly`.
    """
    places: list[int] = []
    for kind, most in ((True, CHANGED), (False, UNCHANGED)):
        members = [place for place, (record, _) in enumerate(pairs) if truly_changed(record) == kind]
        places += evenly(members, most)
    return [pairs[place] for place in sorted(places)]


def sheet_files(pairs: Sequence[Predicted], path: Path, title: str) -> dict[Path, bytes]:
    """Draw some pairs of a split; return the content of every file by its path, the table last.

    Args:
        path: of the picture. With ``{page}`` in its name there is a picture for every :data:`ON_PAGE` pairs,
            ``{page}`` replaced by 1, 2 ...; otherwise one tall picture holds all pairs.

    Raises:
        ConfigInvalid: a suffix that is not in :data:`FORMATS`, or too many pairs for one picture.
    """
    check_sheet(path)
    shown = chosen(pairs)
    size = ON_PAGE if PAGE in path.name else max(1, len(shown))
    files: dict[Path, bytes] = {}
    for number, start in enumerate(range(0, len(shown), size), start=1):
        page = _draw_page(title, shown[start : start + size], 1 + start)
        files[path.with_name(path.name.replace(PAGE, str(number)))] = _encode(page, path)
    return {**files, table_path(path): _table(shown).encode()}


def check_sheet(path: Path) -> None:
    """Check the name of a sheet."""
    if path.suffix.lower() not in FORMATS:
        raise ConfigInvalid(f"{path}: sheets are written as {', '.join(FORMATS)}; give the sheet such a name")


def sheet_paths(path: Path) -> list[Path]:
    """Return the files of a sheet that are known before it is drawn.

    These are its first page, its table, and existing files with the name of a further page.
    """
    page = re.compile(re.escape(path.name).replace(re.escape(PAGE), r"[1-9]\d*"))
    first = path.with_name(path.name.replace(PAGE, "1"))
    existing = sorted(path.parent.iterdir()) if path.parent.is_dir() else ()
    return [
        first,
        table_path(path),
        *(file for file in existing if page.fullmatch(file.name) and file != first),
    ]


def table_path(path: Path) -> Path:
    """Return the path of the table of a sheet: the same name without page, ending in .csv."""
    stem = path.stem.replace(PAGE, "").rstrip("-_. ") or "sheet"
    return path.with_name(f"{stem}.csv")


def _table(pairs: Sequence[Predicted]) -> str:
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(TABLE_HEAD)
    for number, (record, prediction) in enumerate(pairs, start=1):
        p = "" if prediction.probability is None else f"{prediction.probability:.4f}"
        flags = (int(truly_changed(record)), int(prediction.changed))
        texts = map(guarded_cell, (prediction.caption, " | ".join(record.captions)))
        writer.writerow((number, guarded_cell(record.id), *flags, p, *texts, ""))
    return text.getvalue()


def _draw_page(title: str, pairs: Sequence[Predicted], first: int) -> Image.Image:
    parts = [drawn_lines([(title, 18, INK), (_LEGEND, 14, _FAINT)], _WIDTH)]
    parts += [_draw_pair(number, *pair) for number, pair in enumerate(pairs, start=first)]
    height = 2 * _MARGIN + sum(part.height + _GAP for part in parts)
    if height > _TALLEST:
        raise ConfigInvalid(f"{len(pairs)} pairs are too many for one picture; put {PAGE} into its name")
    page = Image.new("RGB", (_WIDTH + 2 * _MARGIN, height), PAPER)
    pen, top = ImageDraw.Draw(page), _MARGIN
    for part in parts:
        page.paste(part, (_MARGIN, top))
        top += part.height + _GAP // 2
        pen.line([(_MARGIN, top), (_MARGIN + _WIDTH, top)], fill=_RULE)
        top += _GAP - _GAP // 2
    return page


def outline(mask: np.ndarray, side: int) -> Image.Image:
    """Return the edge of a mask (H, W) bool as a gray image of ``side`` x ``side``, two pixels wide."""
    large = Image.fromarray(mask.astype(np.uint8) * 255).resize((side, side), Image.Resampling.NEAREST)
    framed = Image.new("L", (side + 4, side + 4))  # a change that leaves the image has an edge there too
    framed.paste(large, (2, 2))
    inner = framed.filter(ImageFilter.MinFilter(3)).filter(ImageFilter.MinFilter(3))
    edge = np.asarray(framed).astype(np.int16) - np.asarray(inner)
    return Image.fromarray(edge[2:-2, 2:-2].astype(np.uint8))


def _draw_pair(number: int, record: PairRecord, prediction: PairPrediction) -> Image.Image:
    sample = read_pair(record)
    before, after = (_to_picture(image) for image in (sample.before, sample.after))
    for mask, color in ((sample.mask, _TRUE), (prediction.mask, _PREDICTED)):
        if mask is not None:
            after.paste(color, (0, 0), outline(mask, _SIDE))
    true, called = (
        "changed" if flag else "unchanged" for flag in (truly_changed(record), prediction.changed)
    )
    facts = [f"called {called}", f"truly {true}", record.id]
    if prediction.probability is not None:
        facts.insert(1, f"P(changed) {prediction.probability:.2f}")
    lines = [(line, 20, INK) for line in wrapped(f"{number}.  {prediction.caption}", 20, _TEXT)]
    color = _FAINT if called == true else _PREDICTED
    lines += [(line, 14, color) for line in wrapped(" · ".join(facts), 14, _TEXT)]
    for sentence in dict.fromkeys(record.captions):
        lines += [(line, 15, _FAINT) for line in wrapped(f"- {sentence}", 15, _TEXT)]
    text = drawn_lines(lines, _TEXT)
    row = Image.new("RGB", (_WIDTH, max(_SIDE, text.height)), PAPER)
    row.paste(before, (0, 0))
    row.paste(after, (_SIDE + _GAP // 2, 0))
    row.paste(text, (2 * _SIDE + 2 * _GAP, 0))
    return row


def _to_picture(pixels: np.ndarray) -> Image.Image:
    image = Image.fromarray(np.ascontiguousarray(pixels.transpose(1, 2, 0)))
    return image.resize((_SIDE, _SIDE), Image.Resampling.LANCZOS)


def _encode(picture: Image.Image, path: Path) -> bytes:
    content = io.BytesIO()
    kind = FORMATS[path.suffix.lower()]
    picture.save(content, kind, **({} if kind == "PNG" else {"quality": 88}))
    return content.getvalue()
