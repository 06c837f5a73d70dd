"""How long the page of a report with many changes takes to be of use in Chromium, and how large it is.

    python benchmarks/page_start.py BEFORE AFTER [--changes 2000] [--rounds 5]

Makes a report of squares with invented words all over the ground that both scenes show, and its page;
opens the page anew each round and prints the milliseconds until the list answers a click and until both
pictures are there, and the megabytes.
Needs playwright (extra ``dev``) and Chromium.
"""

from __future__ import annotations

import math
import shutil
import statistics
import tempfile
import time
from pathlib import Path

import shapely
from playwright.sync_api import Browser, sync_playwright
from shapely.geometry import box
from turns import pair_parser

from rscc.text.facts import DIRECTIONS
from tiling import ScenePair, on_map, transformer
from workflows.page.page import write_page
from workflows.report.change import Change
from workflows.report.report import ChangeReport

FLAGS = (
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
)


def invented(before: Path, after: Path, count: int) -> ChangeReport:
    """Return a report of so many squares in rows over the common ground, each with words of its own."""
    with ScenePair.open(before, after) as pair:
        grid, crs = pair.grid, pair.grid.crs
        to_degrees = transformer(crs, "EPSG:4326")
        columns = math.ceil(math.sqrt(count * grid.width / grid.height))
        step = grid.width / columns
        changes = []
        for number in range(count):
            left, top = (number % columns + 0.2) * step, (number // columns + 0.2) * step
            corners = [on_map(grid.transform, left + by, top + by) for by in (0, step / 2)]
            square = shapely.transform(box(*corners[0], *corners[1]), to_degrees.transform, interleaved=False)
            direction = DIRECTIONS[number % 3]
            area = (step / 2 * grid.gsd) ** 2
            changes.append(
                Change(
                    geometry=square, id=number + 1, caption=f"house {number + 1} is built beside the road",
                    alternatives=(), score=0.5 + number % 50 / 100, change_probability=0.9, area_m2=area,
                    date_before=None, date_after=None, before=before.name, after=after.name,
                    model="none", model_version="0", direction=direction,
                    came=("building",), count=1 + number % 9,
                )
            )  # fmt: skip
    run = {
        "inputs": {"before": {"path": str(before)}, "after": {"path": str(after)}},
        "model": {"name": "none", "version": "0"}, "settings": {}, "tiling": {"gsd": grid.gsd},
        "warnings": [], "versions": {}, "started": "2026-01-01T00:00:00+00:00",
    }  # fmt: skip
    return ChangeReport(changes, run)


def opened(browser: Browser, page: Path) -> tuple[float, float]:
    """Return the milliseconds until a click in the list opens a change, and until the pictures are there."""
    tab = browser.new_page()
    start = time.perf_counter()
    tab.goto(page.as_uri(), wait_until="commit")
    tab.locator("#list button").first.click()
    tab.locator("#card h2").wait_for()
    usable = time.perf_counter()
    tab.wait_for_selector("html[data-ready]", state="attached")
    shown = time.perf_counter()
    tab.close()
    return 1000 * (usable - start), 1000 * (shown - start)


def main() -> None:
    """Make the page, open it, print the medians."""
    parser = pair_parser(__doc__)
    parser.add_argument("--changes", type=int, default=2000)
    parser.add_argument("--rounds", type=int, default=5)
    arguments = parser.parse_args()
    chromium = shutil.which("chromium") or shutil.which("google-chrome")
    if chromium is None:
        raise SystemExit("there is no Chromium on the PATH; install it")
    with tempfile.TemporaryDirectory() as place, sync_playwright() as playwright:
        page = Path(place) / "page.html"
        report = invented(arguments.before, arguments.after, arguments.changes)
        scenes = (str(arguments.before), str(arguments.after))
        write_page(report, Path(place) / "report.geojson", page, scenes=scenes)
        browser = playwright.chromium.launch(executable_path=chromium, args=list(FLAGS))
        times = [opened(browser, page) for _ in range(arguments.rounds)]
        browser.close()
        usable, shown = (statistics.median(column) for column in zip(*times, strict=True))
        size = page.stat().st_size / 1e6
    print(f"{arguments.changes:,} changes, {size:.1f} MB")
    print(f"a click is answered after {usable:.0f} ms, both pictures are there after {shown:.0f} ms")


if __name__ == "__main__":
    main()
