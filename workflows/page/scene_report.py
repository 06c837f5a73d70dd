"""Two scenes captioned from Python, and the report that still knows them: saved, drawn, shown as a page."""

from __future__ import annotations

import textwrap
import warnings
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rscc.errors import ExtraNotInstalled
from rscc.shipped import DEFAULT_MODEL
from tiling import TilingError
from workflows.options import SceneOptions
from workflows.page.chips import chips_of
from workflows.page.page import SIZE, check_page, write_page
from workflows.page.template import SUFFIX
from workflows.progress import Progress
from workflows.report.report import ChangeReport
from workflows.report.summary import summary_of
from workflows.scene.opening import Scene, read_headers
from workflows.scene.run import caption_scene

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from rscc.captioner import Captioner

OUTLINE = "#d1495b"
TITLE_LETTERS = 72
"""Letters of a line of a plot's title."""


@dataclass(frozen=True, kw_only=True, repr=False)
class SceneReport(ChangeReport):
    """A report beside the scenes that it is about.

    Attributes:
        scenes: before and after, which a page reads again.
        options: how they were read.
    """

    scenes: tuple[Scene, Scene]
    options: SceneOptions = field(default_factory=SceneOptions)

    def save(self, path: str | Path, overwrite: bool = False) -> Path:
        """Write the report, or with the suffix ``.html`` its page, and return the path.

        A GeoPackage has small pictures of the changes in it; a warning says where a scene is no longer as it
        was and so gives none.

        Raises:
            TilingError: a page was asked for, and a scene is no longer as it was.
            WorkflowError: as :meth:`write` and :meth:`page`.
        """
        path, chips = Path(path), None
        if path.suffix.lower() == SUFFIX:
            return self.page(path, overwrite=overwrite)
        if path.suffix.lower() == ".gpkg":
            try:
                chips = chips_of(self, path, self.scenes, self.options)
            except TilingError as error:
                # What was found is worth more than its pictures.
                warnings.warn(f"map tips have no pictures: {error}", stacklevel=2)
        return self.write(path, overwrite, chips)

    def page(self, path: str | Path, *, size: int = SIZE, overwrite: bool = False) -> Path:
        """Write the report as one HTML file for a browser and return its path; both scenes are read again.

        The page calls its report by its own name, with ``.geojson``: ``rscc review`` merges the page's marks
        into the report that was saved so.

        Args:
            path: the file, ``.html``.
            size: bytes that it may have, pictures and all.
            overwrite: a page that is there may be replaced.

        Raises:
            TilingError: a scene is no longer as it was.
            WorkflowError: see :func:`workflows.page.page.check_page`; nothing is left behind.
        """
        path = check_page(path, overwrite, [scene for scene in self.scenes if isinstance(scene, str | Path)])
        source = path.with_suffix(".geojson")
        write_page(
            self, source, path, scenes=self.scenes, servers=self.options, size=size, overwrite=overwrite
        )
        return path

    def plot(self, axes: Axes | None = None) -> Axes:
        """Draw the outlines of the changes with their ids, in degrees, under the summary; return the axes.

        Args:
            axes: of matplotlib, to draw on; None makes new ones.

        Raises:
            ExtraNotInstalled: matplotlib is not there.
        """
        try:
            from matplotlib import pyplot
        except ModuleNotFoundError as error:
            raise ExtraNotInstalled("plot() draws with matplotlib: pip install matplotlib") from error
        axes = axes or pyplot.subplots()[1]
        if self.changes:
            frame = self.to_geodataframe()
            frame.boundary.plot(ax=axes, color=OUTLINE, linewidth=1)
            for number, point in zip(frame["id"], frame.representative_point(), strict=True):
                axes.annotate(str(number), (point.x, point.y), ha="center", va="center", fontsize=8)
        title = textwrap.fill(summary_of(self.changes).text, TITLE_LETTERS)
        axes.set(title=title, xlabel="longitude", ylabel="latitude")
        return axes


def caption(
    before: str | Path,
    after: str | Path,
    *,
    model: str | Path = DEFAULT_MODEL,
    device: str = "auto",
    captioner: Captioner | None = None,
    progress: Progress | None = None,
    **options: Any,
) -> SceneReport:
    """Find what changed between two scenes and say it in words, as ``rscc caption`` does.

    Args:
        before, after: rasters of the earlier and the later date: files, archives, addresses.
        model, device: see :meth:`rscc.Captioner.load`.
        captioner: one that is loaded, in place of ``model`` and ``device``; for many pairs.
        progress: called as ``progress(stage, done, total)`` with the stages ``tiles`` and
            ``captions``, and ``outlines`` with ``refine``.
        options: fields of :class:`workflows.SceneOptions`, such as ``threshold=0.4`` or ``align=True``.

    Warns:
        UserWarning: for each of the report's ``run["warnings"]``, such as dates that seem swapped.

    Raises:
        TilingError: a scene cannot be read, or the two cannot be compared; the message names the file.
        TooCoarse: a scene is coarser than the model is meant for; ``force=True`` tries all the same.
        OptionInvalid: an option has a value out of its range.
        RsccError: there is no such model, or it cannot run here.
    """
    chosen = SceneOptions(**options)
    # What can be refused is refused before the model is loaded.
    scenes = read_headers(before, after, chosen)
    if captioner is None:
        from rscc.captioner import Captioner

        captioner = Captioner.load(model, device=device)
    report = caption_scene(*scenes, captioner, chosen, progress)
    for text in report.run["warnings"]:
        warnings.warn(text, stacklevel=2)
    return SceneReport(
        report.changes, report.run, report.finished, scenes=(str(before), str(after)), options=chosen
    )
