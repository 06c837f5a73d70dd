"""How near ``rscc caption`` comes to what the machine can do, in one run; as Markdown.

    python benchmarks/limits.py BEFORE AFTER [--models rscc-base ...] [--device cuda]
        [--option WORD ...] [--json FILE]

Four tables: what the machine does at most; what a tile of each shipped model costs, the floor that follows
and the model alone; the pair from end to end, from the shell, beside the model alone on as many tiles; and
the share of each stage of such a run. ``docs/performance.md`` says what each column means.
"""

from __future__ import annotations

import json
import platform
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from machine_limits import (
    SIDE,
    SIDE_OF_A_GPU,
    fastest,
    memory_bandwidth,
    product_peaks,
    reading_rates,
)
from model_sizes import generated_pair, processor
from torch import Tensor
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves
from torch.utils.flop_counter import FlopCounterMode
from turns import Pair, from_shell, in_turns, medians, pair_parser, write_json

from rscc.captioner import Captioner
from rscc.freed_memory import keep_freed_memory
from rscc.markdown import table
from rscc.model_folder import find_model, load_model, open_model_folder
from rscc.models.shared.captioner import ChangeCaptioner
from workflows.scene.parts import planned_tiles

HERE = Path(__file__).resolve().parent
MODELS = ("rscc-base", "rscc-small", "rscc-medium")
# The tiles of a batch, of 256 pixels; larger tiles come in batches of as many pixels.
BATCH, BATCH_SIDE = 16, 256
GSD = 0.5


class Traffic(TorchDispatchMode):
    """Sums up the bytes that operations read and write, each of them once; views cost nothing."""

    def __init__(self) -> None:
        super().__init__()
        self.bytes = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Run an operation and count its tensors."""
        made = func(*args, **(kwargs or {}))
        taken, given = (
            [one for one in tree_leaves(some) if isinstance(one, Tensor)] for some in ((args, kwargs), made)
        )
        held = {one.untyped_storage().data_ptr() for one in taken}
        view = any(one.untyped_storage().data_ptr() in held for one in given)
        if func._schema.is_mutable or not view:
            self.bytes += sum(one.numel() * one.element_size() for one in (*taken, *given))
        return made


@dataclass(frozen=True)
class PartCost:
    """What one tile costs in a part of a model: operations, bytes, and seconds as measured."""

    operations: float
    bytes: float
    seconds: float


def batch_of(side: int) -> int:
    """Return how many tiles of a side are a batch."""
    return max(1, BATCH * BATCH_SIDE**2 // side**2)


def part_costs(model: ChangeCaptioner, side: int, *, bf16: bool) -> dict[str, PartCost]:
    """Return the cost of a tile in trunk, change head and encoder; a batch shares the reading of the weights.

    Args:
        model: on the device that is measured.
        side: of the tiles, in pixels.
        bf16: whether it computes in bfloat16.
    """
    model.eval().requires_grad_(False)
    tiles = batch_of(side)
    device = next(model.parameters()).device
    before, after = generated_pair(tiles, side)
    images = before.to(device), after.to(device)
    with torch.no_grad(), torch.autocast(device.type, torch.bfloat16, enabled=bf16):
        maps = model.trunk(*images)
        change = model.change_head(*maps).float().sigmoid()
        last = maps[0][-1], maps[1][-1]
        parts: dict[str, Callable[[], object]] = {
            "trunk": lambda: model.trunk(*images),
            "head": lambda: model.change_head(*maps),
            "encoder": lambda: model.encode_last_maps(*last, images=images, change=change),
        }
        costs = {}
        for name, run in parts.items():
            # Fused kernels are unknown to it: attention is run as the products it is made of.
            with sdpa_kernel(SDPBackend.MATH), FlopCounterMode(display=False) as counter:
                run()
            with Traffic() as traffic:
                run()
            counts = (counter.get_total_flops(), traffic.bytes, fastest(run, 3))
            costs[name] = PartCost(*(count / tiles for count in counts))
    return costs


def alone(look: Callable[[np.ndarray, np.ndarray], object], side: int) -> float:
    """Return the seconds a tile of one way to search by a model alone, in batches that lie ready."""
    tiles = batch_of(side)
    before, after = np.random.default_rng(0).integers(0, 256, (2, tiles, 3, side, side), dtype=np.uint8)
    return fastest(lambda: look(before, after), 3) / tiles


def highest(device: str) -> dict[str, Any]:
    """Measure what a device does at most."""
    side = SIDE if device == "cpu" else SIDE_OF_A_GPU
    return {
        "operations_per_second": product_peaks(side, device),
        "memory_bytes_per_second": memory_bandwidth(device=device),
    }


def measure_machine(scene: Path, device: str) -> dict[str, Any]:
    """Measure what the machine does at most."""
    cold, warm = reading_rates(scene)
    gpu = "" if device == "cpu" else f"{torch.cuda.get_device_name(device)}, "
    return {
        "processor": gpu + processor(),
        "threads": torch.get_num_threads(),
        "torch": torch.__version__,
        "python": platform.python_version(),
        **highest(device),
        "file_bytes_per_second": cold,
        "file_bytes_per_second_again": warm,
    }


def higher(machine: dict[str, Any], again: dict[str, Any]) -> dict[str, Any]:
    """Return the higher of two measurements of :func:`highest`: other work lowers each of them."""
    first = machine["operations_per_second"]
    return {
        "operations_per_second": {
            kind: None if peak is None else max(peak, first[kind])
            for kind, peak in again["operations_per_second"].items()
        },
        "memory_bytes_per_second": max(again["memory_bytes_per_second"], machine["memory_bytes_per_second"]),
    }


def measure_model(name: str, device: str) -> dict[str, Any]:
    """Measure a shipped model at the side of its own tiles, in floats: those operations are counted."""
    captioner = Captioner.load(name, device=device, int8=False)
    side = captioner.card.tile_size
    model = load_model(open_model_folder(find_model(name))).to(device)
    costs = part_costs(model, side, bf16=captioner.bf16)
    return {
        "tile": side,
        "bf16": captioner.bf16,
        "parts": {part: asdict(cost) for part, cost in costs.items()},
        "seconds_alone": alone(captioner.search, side),
    }


def measure_pair(pair: Pair, rounds: int, options: Sequence[str], model: str, device: str) -> dict[str, Any]:
    """Time the command from the shell, and the model alone on as many tiles in turns with it."""
    captioner = Captioner.load(model, device=device)
    words = ["--device", device, "--model", model, *options]
    # As the run does: trunk and change head, and the fact heads where there are any.
    look = captioner.search if captioner.facts is None else captioner.survey
    with tempfile.TemporaryDirectory() as folder:
        output = Path(folder) / "changes.geojson"
        tiling = from_shell(pair, output, words)["run"]["tiling"]
        side, per_tile = tiling["tile"], []
        windows = [tile.window for tile in planned_tiles(pair.before, pair.after, captioner.card)]
        # Tiles are cut at the edges of a scene: so many whole ones have their pixels.
        whole = sum(window.width * window.height for window in windows) / side**2
        shown = whole * (1 - tiling["blank"] / tiling["tiles"])
        seconds = in_turns(
            {
                "shell": lambda: from_shell(pair, output, words),
                "alone": lambda: per_tile.append(alone(look, side)),
            },
            rounds,
            warm_up=False,
        )
    return {
        "pixels": pair.pixels,
        "km2": pair.km2,
        "tile": side,
        "tiles": shown,
        "times_seen": whole * side**2 / (tiling["width"] * tiling["height"]),
        "seconds": medians(seconds)["shell"],
        "rounds": seconds["shell"],
        "seconds_model_alone": shown * float(np.median(per_tile)),
    }


def measure_stages(pair: Pair, options: Sequence[str], model: str, device: str) -> dict[str, Any]:
    """Run the command with clocks in a process of its own; the stages sum up to its whole time.

    A GPU works on behind the calls that give it work: its time is in the stage that fetches what it found.
    """
    words = [f"--option={word}" for word in ("--device", device, "--model", model, *options)]
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, str(HERE / "stages.py"), str(pair.before), str(pair.after)]
        began, clock = time.time(), time.perf_counter()
        done = subprocess.run(
            [*command, "--output", f"{folder}/changes.geojson", *words],
            capture_output=True,
            text=True,
            check=True,
        )
        whole = time.perf_counter() - clock
    timed = json.loads(done.stdout.splitlines()[-1])
    here = {"start": timed["loaded"] - began, **timed["here"], "end": began + whole - timed["ended"]}
    here["rest"] = whole - sum(here.values())
    return {"seconds": whole, "here": here, "elsewhere": timed["elsewhere"], "missing": timed["missing"]}


def machine_table(machine: dict[str, Any]) -> str:
    """Return what the machine does at most."""
    rows = [
        [f"matrix product, {kind}", "torch has none here" if peak is None else f"{peak / 1e12:.3f} TFLOP/s"]
        for kind, peak in machine["operations_per_second"].items()
    ]
    rows += [
        [title, f"{machine[key] / 1e9:.2f} GB/s"]
        for title, key in (
            ("copy in memory", "memory_bytes_per_second"),
            ("scene file, the system asked to forget it", "file_bytes_per_second"),
            ("scene file, once more", "file_bytes_per_second_again"),
        )
    ]
    return table(["limit", "measured"], rows)


def models_table(models: dict[str, Any], machine: dict[str, Any]) -> str:
    """Return the roofline of each part, and of search (trunk and head) as the model does it alone."""
    head = ["model", "part", "GFLOP", "MB", "floor, ms", "traffic, ms", "measured, ms", "of the peak"]
    head += ["tiles/s", f"km2/min at {GSD:g} m"]
    rows = []
    for name, found in models.items():
        peak = machine["operations_per_second"]["bf16" if found["bf16"] else "fp32"]
        parts = dict(found["parts"])
        search = [parts["trunk"], parts["head"]]
        parts["search alone"] = {
            "operations": sum(part["operations"] for part in search),
            "bytes": sum(part["bytes"] for part in search),
            "seconds": found["seconds_alone"],
        }
        for part, cost in parts.items():
            floor, seconds = cost["operations"] / peak, cost["seconds"]
            rows.append(
                [
                    *(name, part, f"{cost['operations'] / 1e9:.2f}", f"{cost['bytes'] / 1e6:.0f}"),
                    f"{1000 * floor:.1f}",
                    f"{1000 * cost['bytes'] / machine['memory_bytes_per_second']:.1f}",
                    *(f"{1000 * seconds:.1f}", f"{100 * floor / seconds:.0f} %", f"{1 / seconds:.1f}"),
                    f"{60 * (found['tile'] * GSD) ** 2 / 1e6 / seconds:.2f}",
                ]
            )
    return table(head, rows)


def pair_table(found: dict[str, Any]) -> str:
    """Return the pair from end to end beside the model alone."""
    rows = [
        [
            title,
            f"{seconds:.2f}",
            f"{found['tiles'] / seconds:.1f}",
            f"{found['pixels'] / 1e6 / seconds:.2f}",
            f"{60 * found['km2'] / seconds:.2f}",
        ]
        for title, seconds in (
            ("end to end, from the shell", found["seconds"]),
            ("model alone on these tiles", found["seconds_model_alone"]),
        )
    ]
    told = (
        f"{found['tiles']:.1f} tiles of {found['tile']} pixels see a pixel {found['times_seen']:.2f} times; "
    )
    ratio = found["seconds_model_alone"] / found["seconds"]
    head = ["what", "s", "tiles/s", "Mpx/s", "km2/min"]
    return f"{table(head, rows)}\n\n{told}{ratio:.2f} of the model alone"


def stages_table(found: dict[str, Any]) -> str:
    """Return the share of each stage, the largest first."""
    names = sorted({*found["here"], *found["elsewhere"]}, key=lambda name: -found["here"].get(name, 0))
    rows = []
    for name in names:
        here, elsewhere = found["here"].get(name, 0), found["elsewhere"].get(name, 0)
        rows.append([name, f"{here:.2f}", f"{100 * here / found['seconds']:.1f} %", f"{elsewhere:.2f}"])
    missing = "".join(f"\n\nnot found, so in rest: {name}" for name in found["missing"])
    return table(["stage", "s", "share", "s in other threads"], rows) + missing


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure and print."""
    parser = pair_parser(__doc__)
    parser.add_argument("--models", nargs="+", default=list(MODELS))
    parser.add_argument("--rounds", type=int, default=3, help="of the pair; their median counts")
    parser.add_argument("--device", default="cpu", help="cpu, cuda or cuda:1")
    parser.add_argument("--option", action="append", default=[], help="further word for rscc caption")
    parser.add_argument("--json", type=Path, help="also write what was measured")
    asked = parser.parse_args(arguments)
    # As the command does, so that the model alone is the same model.
    keep_freed_memory()
    pair = Pair.of(asked.before, asked.after)
    found: dict[str, Any] = {"machine": measure_machine(pair.before, asked.device)}
    machine = found["machine"]
    print(f"{machine['processor']}, {machine['threads']} threads, torch {machine['torch']}\n")
    found["models"] = {name: measure_model(name, asked.device) for name in asked.models}
    machine.update(higher(machine, highest(asked.device)))
    print(machine_table(machine))
    print(f"\n{models_table(found['models'], machine)}", flush=True)
    found["pair"] = measure_pair(pair, asked.rounds, asked.option, asked.models[0], asked.device)
    print(f"\n{pair_table(found['pair'])}", flush=True)
    found["stages"] = measure_stages(pair, asked.option, asked.models[0], asked.device)
    print(f"\n{stages_table(found['stages'])}")
    write_json(asked.json, found)


if __name__ == "__main__":
    main()
