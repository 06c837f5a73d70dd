"""Tables of scores in Markdown."""

from collections.abc import Sequence


def percent(value: float | None) -> str:
    """Return a score in percent with one decimal, a dash for None."""
    return "–" if value is None else f"{value:.1f}"


def unit(value: float | None) -> str:
    """Return a score in 0..1 with three decimals, a dash for None."""
    return "–" if value is None else f"{value:.3f}"


def table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Return a table whose columns line up: the first to the left, the others to the right."""
    widths = [max(len(line[column]) for line in (head, *rows)) for column in range(len(head))]

    def draw(line: Sequence[str]) -> str:
        padded = [line[0].ljust(widths[0]), *(c.rjust(w) for c, w in zip(line[1:], widths[1:], strict=True))]
        return f"| {' | '.join(padded)} |"

    rule = ["-" * widths[0], *("-" * (width - 1) + ":" for width in widths[1:])]
    return "\n".join(draw(line) for line in (head, rule, *rows))
