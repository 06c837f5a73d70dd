"""Run the command on two files and hold its report against the change that was drawn."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import shapely
from captioners import BrightnessCaptioner
from ground import BRIGHT, DARK, FULL, Ground
from pyproj import Transformer
from report_checks import load_valid
from scene_pairs import run_here
from scenes import Date
from shapely.geometry import shape
from shapely.geometry.base import BaseGeometry

HALF_A_PIXEL = 0.5


@dataclass(frozen=True)
class Run:
    """What one run of the command left: exit code, lines on stderr, and the report if there is one."""

    code: int
    lines: list[str]
    out: str
    report: dict[str, Any] | None

    @property
    def warnings(self) -> list[str]:
        """The warnings on stderr, which are those of the record and nothing else."""
        assert self.report is not None, self.lines
        shown = [line.removeprefix("rscc: warning: ") for line in self.lines]
        assert shown == self.report["rscc"]["warnings"]
        return shown


def run_command(
    capfd: pytest.CaptureFixture[str],
    before: str | Path,
    after: str | Path,
    folder: Path,
    options: Sequence[str] = (),
    captioner: Callable[[], BrightnessCaptioner] = BrightnessCaptioner,
) -> Run:
    """Run ``rscc caption`` in this process; the report goes into ``folder``."""
    target = folder / "report.geojson"
    words = ("caption", before, after, "-o", target, "--quiet", "--overwrite", *options)
    code, out, err = run_here(capfd, *words, captioner_factory=lambda model, device: captioner())
    return Run(code, err.splitlines(), out, load_valid(target) if code == 0 else None)


def outlines(run: Run, ground: Ground) -> list[BaseGeometry]:
    """The polygons of the report in metres of the ground, those cut at 180 degrees put together again."""
    assert run.report is not None, run.lines
    to_metres = Transformer.from_crs("EPSG:4326", ground.crs, always_xy=True)

    def moved(xy: np.ndarray) -> np.ndarray:
        return np.column_stack(to_metres.transform(xy[:, 0], xy[:, 1]))

    found = []
    for feature in run.report["features"]:
        parts = shapely.get_parts(shape(feature["geometry"]))
        # A cut at the antimeridian leaves two edges that meet to within the seventh decimal of a degree.
        whole = shapely.union_all(
            [shapely.transform(part, moved).buffer(0.02, join_style="mitre") for part in parts]
        )
        found.append(whole.buffer(-0.02, join_style="mitre"))
    return found


def full_change(before: Date, after: Date) -> float:
    """What to add to the brightness so that it is a full change to the fake captioner after the stretch."""
    if "uint8" in (before.dtype, after.dtype):
        return FULL
    return FULL / 255 * (BRIGHT - DARK)


def assert_only_the_change(run: Run, ground: Ground, within: float = HALF_A_PIXEL) -> None:
    """One polygon; its centroid and, on average, its outline are within ``within`` working pixels."""
    assert run.code == 0, run.lines
    assert run.out == ""
    found = outlines(run, ground)
    assert len(found) == 1, [str(shapely.set_precision(one, 0.1)) for one in found]
    assert run.report is not None
    tolerance = within * run.report["rscc"]["tiling"]["gsd"]
    off = found[0].centroid.distance(ground.truth.centroid)
    assert off <= tolerance, f"the centroid is {off:.3f} m off"
    # What is between two outlines that run at this distance all along.
    between = found[0].symmetric_difference(ground.truth).area
    assert between <= tolerance * ground.truth.length, (
        f"{between / ground.truth.length:.3f} m between outlines"
    )
    properties = run.report["features"][0]["properties"]
    assert properties["area_m2"] == pytest.approx(found[0].area, rel=0.01)
    assert properties["caption"].startswith("brightness ")
