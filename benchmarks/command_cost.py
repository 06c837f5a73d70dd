"""Memory and time of the ``rscc caption`` command; prints Markdown.

    python benchmarks/command_cost.py memory --folder runs/large --side 4000 12000 24000
    OMP_NUM_THREADS=1 python benchmarks/command_cost.py host --folder runs/large --side 16000

``memory`` captions generated pairs of several sizes on the CPU, each in a process of its own, and records the
peak of its resident memory.
``host`` captions a pair as if all networks answered at once: trunk and heads answer from files, in which an
earlier run of the same command kept what they say of each tile, and the detector of veils finds none. It
shows the seconds of the clock and of the processor, and in a second run, which is slower for being watched,
the processor time of each stage, of all threads together.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import json
import os
import pickle
import resource
import subprocess
import sys
import threading
import time
import zlib
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import rasterio
from painted_pairs import BLOCK, Pair, large_pair, raster_options
from rasterio.windows import Window

from rscc.evaluation.markdown import table
from tiling import PairTile
from workflows.scene.network import detect
from workflows.scene.network.models import Network, TileAnswers
from workflows.scene.visibility.layer import BANDS

SIDES = (4000, 12_000, 24_000)
MIB = 2**20
REST = "answers from files, and the rest of the command"
STAGES = {
    "command_cost.answer": REST,
    "opening.open_pair": "open, look for fill and shift",
    "pair._read_shown": "decode both dates, twice",
    "survey.survey": "cells for the detector of veils",
    "mosaics.add": "blend, write maps",
    "map_folder.write": "blend, write maps",
    "polygons.polygonize": "outline",
    "polygons.add": "outline",
    "models.look": "batches",
    "identity.on_disk": "hash the scenes",
    "group.group": "group",
    "run.described": "facts and words",
    "run.caption_scene": "rest of the report",
    "report.write": "write the report",
}
"""What a thread does in these functions, where no other of them runs inside."""
PARTS = [*dict.fromkeys(STAGES.values())]
PERIOD = 3584
"""Pixels after which a repeated pair begins again: 8 steps from tile to tile."""
SAMPLED = 0.01
"""Seconds between two looks at the threads."""


@dataclass(frozen=True)
class Cost:
    """What a process used: seconds of the clock, and peak memory in bytes; and what it printed."""

    seconds: float
    peak: int
    printed: str


def caption_words(pair: Pair, output: Path, options: Sequence[str] = ()) -> list[str]:
    """Return the arguments of ``rscc`` that caption a pair and print the run as JSON."""
    written = ["-o", str(output.resolve()), "--overwrite", "-q", "--json"]
    return ["caption", str(pair.before.resolve()), str(pair.after.resolve()), *written, *options]


def in_process(
    pair: Pair, output: Path, factory: Callable[[str, str], Any], options: Sequence[str] = ()
) -> dict[str, Any]:
    """Run ``rscc caption`` in this process; return its JSON. ``factory(model, device)`` gives the captioner.

    Raises:
        RuntimeError: it failed.
    """
    from workflows.cli.app import main

    printed = io.StringIO()
    try:
        with contextlib.redirect_stdout(printed):
            main(caption_words(pair, output, options), captioner_factory=factory)
    except SystemExit as end:
        if end.code:
            raise RuntimeError(f"rscc caption ended with {end.code}") from end
    result: dict[str, Any] = json.loads(printed.getvalue())
    return result


def cost_of(command: Sequence[str]) -> Cost:
    """Run a command and measure its process.

    Raises:
        RuntimeError: it failed.
    """
    began = time.perf_counter()
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    with process.stdout as output:
        printed = output.read()
    _, status, used = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise RuntimeError(f"{' '.join(command)} ended with {process.returncode}")
    return Cost(time.perf_counter() - began, used.ru_maxrss * 1024, printed)


def memory_table(folder: Path, sides: Sequence[int], options: Sequence[str] = ()) -> str:
    """Caption a generated pair of each size; return a row for each, with its peak relative to the first."""
    rows, first = [], 0
    for side in sides:
        words = caption_words(large_pair(folder, side), folder / f"changes_{side}.geojson")
        cost = cost_of([sys.executable, "-m", "rscc", *words, "--device", "cpu", *options])
        run, first = json.loads(cost.printed), first or cost.peak
        row = [f"{side} x {side}", str(run["run"]["tiling"]["tiles"]), str(run["changes"])]
        row += [f"{cost.seconds:.0f}", f"{side**2 / 1e6 / cost.seconds:.2f}"]
        rows.append([*row, f"{cost.peak / MIB:.0f}", f"{100 * (cost.peak / first - 1):+.1f} %"])
        print(*rows[-1], sep=" | ", file=sys.stderr, flush=True)
    return table(["pixels", "tiles", "changes", "seconds", "Mpx/s", "peak, MiB", "relative to first"], rows)


def repeated_pair(folder: Path, side: int) -> Pair:
    """Return a generated pair of this size; what the network sees of it repeats, so it is asked but once."""
    small = large_pair(folder, PERIOD)
    paths = [folder / f"{date}_repeated_{side}.tif" for date in ("before", "after")]
    for source, path in zip((small.before, small.after), paths, strict=True):
        if path.exists():
            continue
        with (
            rasterio.open(source) as given,
            rasterio.open(path, "w", **raster_options(side, side), zlevel=1) as file,
        ):
            pixels, columns = given.read(), np.arange(side) % PERIOD
            for row in range(0, side, BLOCK):
                rows = np.arange(row, min(row + BLOCK, side)) % PERIOD
                file.write(pixels[:, rows[:, None], columns], window=Window(0, row, side, len(rows)))
    return Pair.of(*paths)


def kept_network(folder: Path) -> type[Network]:
    """Return a network whose answers are in a folder; it looks once at each tile that has none there."""

    class KeptNetwork(Network):
        def _answers(self, model: Any, tiles: Sequence[PairTile], weight: int) -> dict[int, TileAnswers]:
            return {tile.tile.index: self.answer(model, tile, weight) for tile in tiles}

        def answer(self, model: Any, tile: PairTile, weight: int) -> TileAnswers:
            sample = np.stack([tile.before, tile.after])[..., ::16, ::16]
            file = folder / f"{zlib.crc32(sample.tobytes())}.pickle"
            if not file.exists():
                answers = super()._answers(model, [tile], weight)[tile.tile.index]
                file.write_bytes(pickle.dumps(answers))
            with file.open("rb") as kept:
                answered: TileAnswers = pickle.load(kept)
            return answered

    return KeptNetwork


def clear(model: str, device: str) -> Any:
    """Load a captioner whose detector of veils finds none, at once."""
    from rscc.captioner import Captioner

    captioner: Any = Captioner.load(model, device=device)
    captioner.veils.layers = lambda before, after: np.zeros((len(BANDS), *before.shape[1:]), np.uint8)
    return captioner


def stages_of(call: Callable[[], Any]) -> dict[str, float]:
    """Return the processor seconds of a call by stage, of all threads together."""
    used, stages = dict[int, float](), dict[int, str]()
    seconds, done = Counter[str](), threading.Event()

    def look() -> None:
        frames = sys._current_frames()
        for thread in threading.enumerate():
            frame, stage, number = frames.get(thread.ident or 0), None, thread.native_id or 0
            while frame is not None and stage is None:
                stage = STAGES.get(f"{Path(frame.f_code.co_filename).stem}.{frame.f_code.co_name}")
                frame = frame.f_back
            stages[number] = stage or stages.get(number, REST)  # a thread that waits did what it did before
            with contextlib.suppress(OSError):  # it has ended
                own = int(Path(f"/proc/self/task/{number}/schedstat").read_text().split()[0]) / 1e9
                seconds[stages[number]] += own - used.get(number, 0)
                used[number] = own

    def watch() -> None:
        while not done.wait(SAMPLED):
            look()

    look()
    seconds.clear()
    watcher = threading.Thread(target=watch)
    watcher.start()
    call()
    done.set()
    watcher.join()
    look()
    return {stage: seconds[stage] for stage in PARTS}


def host_table(folder: Path, side: int) -> str:
    """Caption a repeated pair with the answers that are kept; return a row for each stage."""
    pair, kept, report = repeated_pair(folder, side), folder / "answers", folder / f"repeated_{side}.geojson"
    kept.mkdir(exist_ok=True)
    detect.Network = kept_network(kept)
    if not any(kept.iterdir()):
        in_process(pair, report, clear)
    captioner = clear("rscc-base", "cpu")
    began = time.process_time()
    clock = in_process(pair, report, lambda *_: captioner)["run"]["seconds"]
    processor, peak = time.process_time() - began, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    seconds = stages_of(lambda: in_process(pair, report, lambda *_: captioner))
    rows = [
        ["all, the models loaded, unwatched", f"{processor:.2f}"],
        *([stage, f"{seconds[stage]:.2f}"] for stage in PARTS),
        ["seconds of the clock", f"{clock:.2f}"],
        ["megapixels", f"{pair.pixels / 1e6:.0f}"],
        ["peak, MiB", f"{peak:.0f}"],
    ]
    return table(["stage", "processor, s"], rows)


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    commands = parser.add_subparsers(dest="command", required=True)
    memory = commands.add_parser("memory")
    memory.add_argument("--folder", type=Path, default=Path("runs/large"))
    memory.add_argument("--side", type=int, nargs="+", default=SIDES, help="sides in pixels")
    memory.add_argument("--option", action="append", default=[], help="further word for rscc caption")
    host = commands.add_parser("host")
    host.add_argument("--folder", type=Path, default=Path("runs/large"))
    host.add_argument("--side", type=int, default=16_000, help="of the pair in pixels")
    options = parser.parse_args()
    if options.command == "host":
        print(host_table(options.folder, options.side))
        return
    print(memory_table(options.folder, options.side, options.option))


if __name__ == "__main__":
    main()
