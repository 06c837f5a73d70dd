"""Compare the speed of ``rscc caption`` with alternatives on the same pair, in turns; prints Markdown.

    python benchmarks/peers.py BEFORE AFTER [--rounds 5] [--also="--fast"]

* plain loop: windows of 256 pixels without overlap by rasterio, one at a time, float32, rscc-base, each
  window captioned greedily without a cache.
* research style: the same windows as PNG files (written before), one pair at a time, float32, SCORER+CBR in
  the size of its paper on ResNet-101, three beams. Weights are random, and every sentence has ``--words``
  words.
* rscc: the command with a loaded model in this process, and as a new process from the shell.

The first two caption every window, the last every change. All but the shell's run in this process, so all
profit from rscc keeping freed memory. ``--also`` adds two more ways of rscc with further arguments.
"""

from __future__ import annotations

import argparse
import dataclasses
import platform
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import rasterio
import torch
from command_cost import caption_words, cost_of, in_process
from model_sizes import build
from painted_pairs import Pair
from PIL import Image
from rasterio.windows import Window

from rscc.captioner import Captioner
from rscc.configs import load_config
from rscc.evaluation.markdown import table
from rscc.model_folder import find_model, load_model, open_model_folder
from rscc.models.shared.captioner import ChangeCaptioner

TILE = 256
PLAIN, RESEARCH = "plain loop", "research style"


def windows(pair: Pair) -> list[Window]:
    """Return windows of 256 pixels side by side over a scene; the last ones reach beyond it."""
    with rasterio.open(pair.before) as file:
        return [
            Window(col, row, TILE, TILE)
            for row in range(0, file.height, TILE)
            for col in range(0, file.width, TILE)
        ]


def tiles(pair: Pair) -> Iterator[list[np.ndarray]]:
    """Yield both dates of each window, (3, 256, 256) uint8, black beyond the scene."""
    with rasterio.open(pair.before) as before, rasterio.open(pair.after) as after:
        for window in windows(pair):
            yield [
                file.read([1, 2, 3], window=window, boundless=True, fill_value=0) for file in (before, after)
            ]


def plain_loop(pair: Pair, model: ChangeCaptioner) -> list[str]:
    """Caption every window; the decoder processes the whole sentence for every word."""
    words, captions = model.vocabulary, []
    with torch.inference_mode():
        for images in tiles(pair):
            features = model.encode(*(torch.from_numpy(image)[None] for image in images))
            sentence = [words.bos]
            while len(sentence) < model.config.max_words and sentence[-1] != words.eos:
                logits = model.decode(features, torch.tensor([sentence])).logits[0, -1]
                sentence.append(int(logits.argmax()))
            captions.append(words.decode(sentence[1:]))
    return captions


def write_files(pair: Pair, folder: Path) -> list[tuple[Path, Path]]:
    """Write each window of each date as a PNG file."""
    files = []
    for number, images in enumerate(tiles(pair)):
        named = folder / f"{number}_before.png", folder / f"{number}_after.png"
        for path, image in zip(named, images, strict=True):
            Image.fromarray(np.moveaxis(image, 0, -1)).save(path)
        files.append(named)
    return files


def research_style(
    files: Sequence[tuple[Path, Path]], model: ChangeCaptioner, side: int, words: int
) -> list[str]:
    """Caption each pair of files with three beams and exactly ``words`` words."""
    rules = model.search_rules()
    rules = dataclasses.replace(rules, banned=(*rules.banned, rules.eos), max_words=words)
    captions = []
    with torch.inference_mode():
        for named in files:
            images = [np.array(Image.open(path).convert("RGB").resize((side, side))) for path in named]
            dates = [torch.from_numpy(np.moveaxis(image, -1, 0).copy())[None] for image in images]
            features = model.encode(*dates, head=False)
            best = model.generate_from(features, beams=3, rules=rules)[0][0]
            captions.append(model.vocabulary.decode(best.ids))
    return captions


def in_turns(ways: Mapping[str, Callable[[], Any]], rounds: int) -> dict[str, list[float]]:
    """Call all ways in turns, once more than ``rounds``; return the seconds of all but the first, by name."""
    seconds: dict[str, list[float]] = {name: [] for name in ways}
    for number in range(-1, rounds):
        for name, way in ways.items():
            begin = time.perf_counter()
            way()
            took = time.perf_counter() - begin
            print(f"round {number + 1} of {rounds}: {name}: {took:.2f} s", file=sys.stderr, flush=True)
            if number >= 0:
                seconds[name].append(took)
    return seconds


def ways_of(
    pair: Pair, folder: Path, *, model: str, words: int, also: Sequence[str]
) -> dict[str, Callable[[], Any]]:
    """Return the timed functions by name; load and write what is not timed."""
    plain = load_model(open_model_folder(find_model(model))).eval()
    config = load_config("scorer_levir_cc")
    torch.manual_seed(1)
    paper = build(dataclasses.replace(config.model, max_words=max(config.model.max_words, words + 2)))
    files = write_files(pair, folder)
    ways: dict[str, Callable[[], Any]] = {
        PLAIN: lambda: plain_loop(pair, plain),
        RESEARCH: lambda: research_style(files, paper, config.data.size, words),
    }
    loaded = cache(Captioner.load)
    shell, there = [sys.executable, "-m", "rscc"], folder / "shell.geojson"
    for more in ("", *also):
        options = ["--model", model, *more.split()]
        for name, run in (
            ("loaded", lambda o=options: in_process(pair, folder / "here.geojson", loaded, o)),
            ("from the shell", lambda o=options: cost_of([*shell, *caption_words(pair, there, o)])),
        ):
            ways[f"rscc caption {more}".rstrip() + f", {name}"] = run
    return ways


def peers_table(pair: Pair, seconds: dict[str, float]) -> str:
    """Return a row for each way with its speed relative to the first two."""
    rows = [
        [
            name,
            f"{one:.2f}",
            f"{pair.pixels / 1e6 / one:.3f}",
            *(f"{seconds[other] / one:.2f}" for other in (PLAIN, RESEARCH)),
        ]
        for name, one in seconds.items()
    ]
    return table(["way", "s", "Mpx/s", f"times {PLAIN}", f"times {RESEARCH}"], rows)


def main(arguments: Sequence[str] | None = None) -> None:
    """Time all ways and print."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("before", type=Path)
    parser.add_argument("after", type=Path)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--model", default="rscc-base", help="of the plain loop and rscc")
    parser.add_argument("--words", type=int, default=10, help="of the sentences of the research style")
    parser.add_argument("--also", action="append", default=[], help='further words, as --also="--fast"')
    asked = parser.parse_args(arguments)
    pair = Pair.of(asked.before, asked.after)
    with tempfile.TemporaryDirectory() as folder:
        ways = ways_of(pair, Path(folder), model=asked.model, words=asked.words, also=asked.also)
        rounds = in_turns(ways, asked.rounds)
    seconds = {name: statistics.median(times) for name, times in rounds.items()}
    threads, size = torch.get_num_threads(), pair.pixels / 1e6
    print(f"{platform.machine()}, {threads} threads, {size:.2f} Mpx, {len(windows(pair))} windows\n")
    print(peers_table(pair, seconds))


if __name__ == "__main__":
    main()
