"""Pairs of scenes that nobody looks at: tables of them, files of a kilobyte, and work that only takes time.

In a process in which :func:`install` was called, `workflows.engines.tasks` does a pair by waiting as long as
a pair of that name takes, and hands out a report that was made once. Some pairs are refused, some attempts
fail, and a poisoned pair takes its process with it. All else is the product's own.
"""

from __future__ import annotations

import json
import math
import os
import random
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import rasterio
from affine import Affine

from rscc.model_folder import ModelCard
from rscc.structures import Caption
from tiling import NoOverlap
from workflows.errors import MemoryExhausted
from workflows.options import SceneOptions
from workflows.pairs.rows import PairRow
from workflows.scene.run import caption_scene

PLAN = "RSCC_STUB_PLAN"
TILE = 64
SIDE = 256
HOUSE = 20


@dataclass(frozen=True)
class StubPlan:
    """How the stub behaves; it travels to the workers' processes in the environment.

    Attributes:
        report: file with the report that every pair gets.
        seconds: mean time of a pair, ``spread`` the standard deviation of its logarithm.
        refused: share of the pairs that are refused, by their names.
        failed: share of the attempts that fail, by chance.
        poisoned: names of pairs that end the process.
    """

    report: str
    seconds: float = 1.0
    spread: float = 0.5
    refused: float = 0.0
    failed: float = 0.0
    poisoned: tuple[str, ...] = ()

    def environment(self) -> dict[str, str]:
        """Return what a worker's process must have in its environment."""
        return {PLAN: json.dumps(asdict(self))}

    def is_refused(self, name: str) -> bool:
        """Tell whether a pair of this name is refused."""
        return random.Random(f"refused {name}").random() < self.refused

    def seconds_of(self, name: str) -> float:
        """Return how long a pair of this name takes: log-normal, the same every time."""
        deviate = random.Random(f"seconds {name}").gauss(0.0, 1.0)
        return self.seconds * math.exp(self.spread * deviate - self.spread**2 / 2)


class StubCaptioner:
    """Brighter is changed; the words are always the same. There are no weights."""

    def __init__(self) -> None:
        self.card = stub_card()

    def search(self, before: np.ndarray, after: np.ndarray) -> np.ndarray:
        """Take pixels that got brighter for changed: (N, 3, H, W) uint8 twice."""
        return (after.astype(np.int16).mean(1) - before.mean(1) > 50).astype(np.float32)

    def caption(self, before: np.ndarray, after: np.ndarray, **_: Any) -> list[Caption]:
        """Say the same of every crop."""
        words = "a house appears at the corner of the road"
        return [Caption(words, 0.7, True, ("some houses appear beside the road",)) for _ in after]


def stub_card() -> ModelCard:
    """Return the card of the stub."""
    return ModelCard(
        name="stub", version="1", description="Waits.", paper="none", weights_sha256="0" * 64, gsd=0.5,
        gsd_range=(0.2, 2.0), tile_size=TILE, threshold=0.5, changed_threshold=0.5, localisation="brightness",
        licence="Apache-2.0", data="none", trained="never",
    )  # fmt: skip


def load_stub(model: str, device: str) -> StubCaptioner:
    """Give the stub, whatever was asked for."""
    return StubCaptioner()


def write_report(folder: Path, houses: int) -> Path:
    """Make a pair of scenes with so many new houses, caption it by the stub, and write ``report.geojson``."""
    folder.mkdir(parents=True, exist_ok=True)
    across = math.ceil(math.sqrt(houses)) or 1
    side = max(SIDE, across * 2 * HOUSE)
    images = [np.full((3, side, side), 90, np.uint8) for _ in range(2)]
    for number in range(houses):
        row, col = (HOUSE // 2 + 2 * HOUSE * place for place in divmod(number, across))
        images[1][:, row : row + HOUSE, col : col + HOUSE] = 220
    scenes = [folder / name for name in ("before_2024-05-01.tif", "after_2025-05-03.tif")]
    for path, image in zip(scenes, images, strict=True):
        options = {"driver": "GTiff", "width": side, "height": side, "count": 3, "dtype": "uint8"}
        place = {"crs": "EPSG:32614", "transform": Affine(0.5, 0, 600_000, 0, -0.5, 3_380_000)}
        with rasterio.open(path, "w", **options, **place, photometric="RGB") as file:
            file.write(image)
    alone = SceneOptions(group_distance=0)
    report = caption_scene(scenes[0], scenes[1], StubCaptioner(), alone)  # type: ignore[arg-type]
    return report.write(folder / "report.geojson", overwrite=True)


def write_scenes(folder: Path, pairs: int) -> list[PairRow]:
    """Return pairs of scenes of one kilobyte each, a hundred pairs to a site; what is missing is made."""
    rows = []
    for number in range(pairs):
        site = folder / f"site-{number // 100:05d}"
        if number % 100 == 0:
            site.mkdir(parents=True, exist_ok=True)
            there = set(os.listdir(site))
        name = f"{site.name}_{number % 100:02d}"
        files = [f"{name}_{date}.tif" for date in ("2024-05-01", "2025-05-03")]
        for file in files:
            if file not in there:
                (site / file).write_bytes(file.encode().ljust(1024, b"\0"))
        before, after = (str(site / file) for file in files)
        rows.append(PairRow(name, before, after, "2024-05-01", "2025-05-03", site.name))
    return rows


def install() -> None:
    """Let `workflows.engines.tasks` of this process do pairs as the plan in the environment says."""
    import workflows.scene.run

    values = json.loads(os.environ[PLAN])
    plan = StubPlan(**{**values, "poisoned": tuple(values["poisoned"])})
    report = _CannedReport(Path(plan.report))
    chance = random.Random(os.getpid())

    def wait_for(before: str, after: str, captioner: StubCaptioner, options: SceneOptions) -> _CannedReport:
        name = Path(before).name.rsplit("_", 1)[0]
        if name in plan.poisoned:
            os._exit(1)
        if plan.is_refused(name):
            raise NoOverlap(f"{before} and {after}: the scenes do not overlap; choose scenes of one place")
        time.sleep(plan.seconds_of(name))
        if chance.random() < plan.failed:
            raise MemoryExhausted(
                f"{before}: memory ran out with a single tile; use a machine with more of it"
            )
        return report

    workflows.scene.run.caption_scene = wait_for  # type: ignore[assignment]


class _CannedReport:
    """What `workflows.engines.tasks` asks a report for, of a file that was read once."""

    def __init__(self, path: Path) -> None:
        self._bytes = path.read_bytes()
        content = json.loads(self._bytes)
        self.run: dict[str, Any] = content["rscc"]
        self.changes: list[Any] = content["features"]
        self.area_m2 = sum(change["properties"]["area_m2"] for change in self.changes)

    def encoded(self) -> bytes:
        return self._bytes
