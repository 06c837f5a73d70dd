"""Text in pictures, in Pillow's own font."""

from collections.abc import Sequence

from PIL import Image, ImageDraw, ImageFont

PAPER, INK = (255, 255, 255), (28, 28, 28)


def drawn_lines(lines: Sequence[tuple[str, int, tuple[int, int, int]]], width: int) -> Image.Image:
    """Draw lines (text, size, colour) below each other on an image of ``width`` pixels."""
    heights = [round(size * 1.35) for _, size, _ in lines]
    image = Image.new("RGB", (width, sum(heights)), PAPER)
    pen, top = ImageDraw.Draw(image), 0
    for (line, size, color), height in zip(lines, heights, strict=True):
        pen.text((0, top), line, fill=color, font=ImageFont.load_default(size))
        top += height
    return image


def wrapped(text: str, size: int, width: int) -> list[str]:
    """Break a text at spaces into lines of at most ``width`` pixels; a longer word has its own line."""
    font, lines = ImageFont.load_default(size), [""]
    for word in text.split(" "):
        longer = f"{lines[-1]} {word}" if lines[-1] else word
        if lines[-1] and font.getlength(longer) > width:
            lines.append(word)
        else:
            lines[-1] = longer
    return lines
