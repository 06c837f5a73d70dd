"""Trains every variant of ``compare_models.toml`` with several seeds and prints their test scores side by side.

    python benchmarks/compare_models.py --data LEVIR-CC --output runs/compare

All variants share trunk, decoder, data, schedule and the choice of the checkpoint on the validation split; the
test split is read once per finished run. Runs that are finished in the output folder are not repeated.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tomllib
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
METRICS = ("bleu4", "meteor", "rouge_l", "cider")


def read_variants(path: Path) -> tuple[dict[str, str], dict[str, dict[str, Any]]]:
    """Return the title and the whole config, as plain values, of every variant by name."""
    content = tomllib.loads(path.read_text(encoding="utf-8"))
    titles: dict[str, str] = {}
    configs: dict[str, dict[str, Any]] = {}
    for name, own in content["variants"].items():
        titles[name] = own.pop("title")
        tables = {*content["shared"], *own}
        configs[name] = {t: {**content["shared"].get(t, {}), **own.get(t, {})} for t in tables}
    return titles, configs


def train_one(name: str, seed: int, arguments: argparse.Namespace) -> None:
    """Train one variant with one seed, in this process."""
    from rscc.config import config_from_dict
    from rscc.runs import RunPaths, train_model

    _, configs = read_variants(arguments.variants)
    values = configs[name]
    values["train"]["seed"] = seed
    paths = RunPaths(
        data=arguments.data,
        output=run_folder(arguments.output, name, seed),
        trunk=arguments.trunk,
        cache=arguments.output / "features",
    )
    command = f"python benchmarks/compare_models.py, variant {name}, seed {seed}"
    train_model(config_from_dict(values, name), paths, name=f"{name}-{seed}", command=command, resume=True)


def run_folder(output: Path, name: str, seed: int) -> Path:
    """Return where one run lies."""
    return output / f"{name}-{seed}"


def main() -> None:
    """Train what is not trained yet, score what is not scored yet, print the table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--data", type=Path, required=True, help="LEVIR-CC's folder")
    parser.add_argument("--output", type=Path, required=True, help="folder of the runs and of the table")
    parser.add_argument("--variants", type=Path, default=HERE / "compare_models.toml")
    parser.add_argument("--trunk", default="rscc-base", help="model whose frozen trunk all variants share")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--jobs", type=int, default=2, help="runs at a time, one thread each")
    parser.add_argument("--one", nargs=2, metavar=("VARIANT", "SEED"), help=argparse.SUPPRESS)
    parser.add_argument("--only", nargs="*", help="variants; default: all")
    arguments = parser.parse_args()
    if arguments.one:
        train_one(arguments.one[0], int(arguments.one[1]), arguments)
        return
    titles, _ = read_variants(arguments.variants)
    names = [name for name in titles if not arguments.only or name in arguments.only]
    jobs = [(name, seed) for seed in range(1, arguments.seeds + 1) for name in names]
    jobs = [j for j in jobs if not (run_folder(arguments.output, *j) / "model" / "model.json").is_file()]
    arguments.output.mkdir(parents=True, exist_ok=True)
    with ThreadPoolExecutor(arguments.jobs) as pool:
        codes = list(pool.map(lambda job: start(job, arguments), jobs))
    if any(codes):
        sys.exit("a run failed; its log says why")


def start(job: tuple[str, int], arguments: argparse.Namespace) -> int:
    """Train one run in a process of its own and return its exit code."""
    name, seed = job
    log = arguments.output / f"{name}-{seed}.log"
    command = [sys.executable, __file__, "--one", name, str(seed)]
    for option in ("data", "output", "variants", "trunk"):
        command += [f"--{option}", str(getattr(arguments, option))]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    print(f"{name} with seed {seed} begins", flush=True)
    with log.open("w", encoding="utf-8") as file:
        code = subprocess.run(command, stdout=file, stderr=file, env=environment, check=False).returncode
    print(f"{name} with seed {seed} {'is done' if code == 0 else f'failed, see {log}'}", flush=True)
    return code


if __name__ == "__main__":
    main()
