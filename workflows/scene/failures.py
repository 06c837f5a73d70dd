"""What a network failed on, told as a place in the scenes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from rscc.errors import NonFiniteOutput
from tiling import Window
from workflows.scene.carrier import OpenRun


@contextmanager
def naming_windows(run: OpenRun, windows: Sequence[Window]) -> Iterator[None]:
    """Say which of ``windows``, shown to the network together, it has no answer for.

    Raises:
        NonFiniteOutput: it answered NaN or infinity; the message names the scenes and the window.
    """
    try:
        yield
    except NonFiniteOutput as error:
        broken = [windows[number] for number in error.pairs]
        if not broken:
            raise
        at, more = broken[0], f" and {len(broken) - 1} more" if len(broken) > 1 else ""
        before, after = (info.path for info in run.infos)
        raise NonFiniteOutput(
            f"{before} and {after}: for the tile at column {at.col_off}, row {at.row_off} "
            f"({at.width} x {at.height} pixels of the working grid){more} {run.card.name} answers NaN or "
            "infinity; get a sound copy of the model, or try another --device",
            error.pairs,
        ) from error
