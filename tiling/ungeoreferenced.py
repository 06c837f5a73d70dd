"""Rasters without georeferencing may be opened in silence, by several threads at once."""

from __future__ import annotations

import threading
import warnings

from rasterio.errors import NotGeoreferencedWarning


class _Ungeoreferenced:
    """Within its block, missing georeferencing is no warning: it is an error of ours later.

    Filters of warnings belong to the process, and several threads open files at once: the first one that
    enters sets the filter, the last one that leaves takes it away.
    """

    def __init__(self) -> None:
        self._lock, self._inside = threading.Lock(), 0
        self._filters = warnings.catch_warnings()

    def __enter__(self) -> None:
        with self._lock:
            if self._inside == 0:
                self._filters = warnings.catch_warnings()
                self._filters.__enter__()
                warnings.simplefilter("ignore", NotGeoreferencedWarning)
            self._inside += 1

    def __exit__(self, *_: object) -> None:
        with self._lock:
            self._inside -= 1
            if self._inside == 0:
                self._filters.__exit__(None, None, None)


ungeoreferenced = _Ungeoreferenced()
