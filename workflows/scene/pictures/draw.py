"""The picture of an explanation: both dates, maps, and the caption word by word, drawn with Pillow."""

import io
from collections.abc import Iterable, Sequence
from pathlib import Path

import numpy as np
from PIL import Image, ImageFont

from rscc.evaluation.drawing import INK, PAPER, drawn_lines, wrapped
from workflows.errors import FormatUnsupported
from workflows.files import check_free, write_together
from workflows.scene.pictures.explain import ExplainedPair

FORMATS = {".png": "PNG", ".webp": "WEBP"}
Color = tuple[int, int, int]

WIDTH, MARGIN, GAP = 1064, 16, 12
PANELS_IN_ROW, WORDS_IN_ROW = 4, 8
FAINT = (110, 110, 110)
# From no heat to most, laid over a dark gray picture.
HEAT = np.array([(120, 20, 60), (225, 70, 35), (255, 190, 60), (255, 250, 190)], np.float32)
GROUND_LIGHT = 0.55


def check_picture(path: str | Path, overwrite: bool = False, inputs: Iterable[str | Path] = ()) -> Path:
    """Check that a picture can be written, without writing it; it must not be one of ``inputs``."""
    path = Path(path)
    if path.suffix.lower() not in FORMATS:
        raise FormatUnsupported(
            f"{path}: pictures are written as {', '.join(FORMATS)}; give the output such a name"
        )
    check_free([path], overwrite, inputs)
    return path


def write_picture(explained: ExplainedPair, path: str | Path, overwrite: bool = False) -> None:
    """Draw an explanation and write it in the format of the suffix; a PNG has a palette of 128 colours."""
    path = check_picture(path, overwrite)
    picture, content = draw(explained), io.BytesIO()
    if path.suffix.lower() == ".png":
        picture.quantize(128, dither=Image.Dither.NONE).save(content, "PNG", optimize=True)
    else:
        picture.save(content, FORMATS[path.suffix.lower()], quality=82)
    write_together({path: [content.getvalue()]})


def draw(explained: ExplainedPair) -> Image.Image:
    """Draw header, panels and words below each other."""
    parts = [_header(explained), *_panels(explained), *_words(explained)]
    height = 2 * MARGIN + sum(part.height for part in parts) + GAP * (len(parts) - 1)
    page = Image.new("RGB", (WIDTH + 2 * MARGIN, height), PAPER)
    top = MARGIN
    for part in parts:
        page.paste(part, (MARGIN, top))
        top += part.height + GAP
    return page


def heat_over(ground: np.ndarray, values: np.ndarray, span: tuple[float, float], side: int) -> Image.Image:
    """Draw a map over a dark gray copy of a picture.

    Args:
        span: the value that leaves the picture as it is, and the one that gets the brightest colour.
        side: of the result in pixels.
    """
    gray = np.asarray(_image(ground, side).convert("L"), np.float32)[..., None] * GROUND_LIGHT
    small = Image.fromarray(np.ascontiguousarray(values, np.float32))
    large = np.asarray(small.resize((side, side), Image.Resampling.BICUBIC))
    heat = np.clip((large - span[0]) / max(span[1] - span[0], 1e-9), 0, 1)
    steps = np.linspace(0, 1, len(HEAT))
    color = np.stack([np.interp(heat, steps, HEAT[:, channel]) for channel in range(3)], axis=-1)
    share = 0.85 * (heat**0.7)[..., None]
    return Image.fromarray((gray * (1 - share) + color * share).astype(np.uint8))


def _span(maps: Sequence[np.ndarray]) -> tuple[float, float]:
    return min(float(values.min()) for values in maps), max(float(values.max()) for values in maps)


def _image(pixels: np.ndarray, side: int) -> Image.Image:
    image = Image.fromarray(np.ascontiguousarray(pixels.transpose(1, 2, 0)))
    return image.resize((side, side), Image.Resampling.LANCZOS)


def _header(explained: ExplainedPair) -> Image.Image:
    explanation, card = explained.explanation, explained.card
    facts = [
        f"P(changed) {explanation.changed_probability:.2f}",
        f"score {explanation.caption.score:.2f}",
        f"model {card.name} {card.version} ({card.paper})",
        f"place: {explained.crop.place}",
    ]
    lines = [*_lines(explanation.caption.text, 26, INK), *_lines(" · ".join(facts), 15, FAINT)]
    if explanation.entities:
        lines += _lines("retrieved entities: " + ", ".join(explanation.entities), 15, INK)
    return drawn_lines(lines, WIDTH)


def _panels(explained: ExplainedPair) -> list[Image.Image]:
    crop, explanation = explained.crop, explained.explanation
    side = (WIDTH - (PANELS_IN_ROW - 1) * GAP) // PANELS_IN_ROW
    titles = [
        f"{name} ({date})" if date else name
        for name, date in zip(("before", "after"), crop.dates, strict=True)
    ]
    # Only the change head gives probabilities; other localisers rank pixels.
    localiser = explained.card.localiser
    change = "change probability" if localiser == "change_head" else f"change, by {localiser}"
    panels = [
        _titled(_image(crop.before, side), [(titles[0], INK)]),
        _titled(_image(crop.after, side), [(titles[1], INK)]),
        _titled(heat_over(crop.after, explanation.change, (0, 1), side), [(f"{change}, 0 to 1", INK)]),
    ]
    for title, values in {"feature difference": explanation.difference, **explanation.attention}.items():
        ground, span = crop.before if "before" in title else crop.after, _span([values])
        named = f"{title}, {span[0]:.2g} to {span[1]:.2g}"
        panels.append(_titled(heat_over(ground, values, span, side), [(named, INK)]))
    return _rows(panels, PANELS_IN_ROW)


def _words(explained: ExplainedPair) -> list[Image.Image]:
    crop, words = explained.crop, explained.explanation.words
    # Relative to the mean, so that a word with even attention has one tone.
    maps = [
        (
            word.text,
            f"{word.probability:.2f} · ground {word.ground.sum():.0%}",
            word.ground / word.ground.mean(),
        )
        for word in words
        if word.ground is not None
    ]
    if not maps:
        return [drawn_lines([("This model's decoder does not tell where its words look.", 15, FAINT)], WIDTH)]
    span = _span([relative for *_, relative in maps])
    rows, cols = maps[0][-1].shape
    note = (
        f"Where each word looks: attention to {cols} x {rows} positions, from {span[0]:.1f} (gray) to "
        f"{span[1]:.1f} (bright) times a word's mean, one scale for all words. Below a word: its "
        "probability, and the part of its attention that falls on the ground."
    )
    side = (WIDTH - (WORDS_IN_ROW - 1) * GAP) // WORDS_IN_ROW
    cells = [
        _titled(heat_over(crop.after, relative, span, side), [(text, INK), (below, FAINT)])
        for text, below, relative in maps
    ]
    return [drawn_lines(_lines(note, 15, FAINT), WIDTH), *_rows(cells, WORDS_IN_ROW)]


def _rows(cells: Sequence[Image.Image], most: int) -> list[Image.Image]:
    """Arrange cells of one size in rows of ``most``."""
    rows = []
    for start in range(0, len(cells), most):
        row = Image.new("RGB", (WIDTH, max(cell.height for cell in cells)), PAPER)
        for number, cell in enumerate(cells[start : start + most]):
            row.paste(cell, (number * (cell.width + GAP), 0))
        rows.append(row)
    return rows


def _titled(picture: Image.Image, lines: Sequence[tuple[str, Color]]) -> Image.Image:
    """Write lines under a picture, each shortened to its width."""
    text = drawn_lines(
        [(_shortened(line, 14, picture.width), 14, color) for line, color in lines], picture.width
    )
    whole = Image.new("RGB", (picture.width, picture.height + 3 + text.height), PAPER)
    whole.paste(picture, (0, 0))
    whole.paste(text, (0, picture.height + 3))
    return whole


def _lines(text: str, size: int, color: Color) -> list[tuple[str, int, Color]]:
    """Break a text into lines of the page's width; words that are longer are cut."""
    return [(_shortened(line, size, WIDTH), size, color) for line in wrapped(text, size, WIDTH)]


def _shortened(text: str, size: int, width: int) -> str:
    font = ImageFont.load_default(size)
    if font.getlength(text) <= width:
        return text
    while text and font.getlength(text + "...") > width:
        text = text[:-1]
    return text + "..."
