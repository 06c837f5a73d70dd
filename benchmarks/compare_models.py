"""Train every variant of ``compare_models.toml`` with several seeds and print the test scores.

    python benchmarks/compare_models.py --data LEVIR-CC --output runs/compare

All variants share trunk, decoder, data, schedule and the choice of the checkpoint on the validation split.
The test split is read once per finished run. Finished runs in the output folder are not repeated.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tomllib
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from rscc.evaluation.markdown import table
from rscc.evaluation.papers import search_name

HERE = Path(__file__).resolve().parent
METRICS = {"bleu4": "BLEU-4", "meteor": "METEOR", "rouge_l": "ROUGE-L", "cider": "CIDEr"}
Run = tuple[str, int]


def read_variants(path: Path) -> tuple[dict[str, str], dict[str, dict[str, Any]]]:
    """Return title and config, as plain values, of every variant by name."""
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
    from rscc.config import Config
    from rscc.settings import build
    from rscc.training.train_model import train_model
    from rscc.training.training_run import RunPaths

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
    train_model(build(Config, values, name), paths, name=f"{name}-{seed}", command=command, resume=True)


def run_folder(output: Path, name: str, seed: int) -> Path:
    """Return the folder of one run."""
    return output / f"{name}-{seed}"


def score_runs(runs: Sequence[Run], arguments: argparse.Namespace) -> None:
    """Score finished runs on the test split and write ``scores.json`` into their folders."""
    import torch

    from rscc.captioner import Captioner
    from rscc.config import Config
    from rscc.data.benchmarks.levir_cc import LevirCC
    from rscc.evaluation.metrics import CaptionScorer
    from rscc.evaluation.predictions import PairPrediction
    from rscc.evaluation.scoring import score_predictions
    from rscc.facts.pair_captions import decoder_captions
    from rscc.model_folder import load_model, open_model_folder
    from rscc.settings import build
    from rscc.training.validation import encoded_batches

    records = LevirCC(arguments.data, "test")
    with CaptionScorer() as scorer:
        for name, seed in runs:
            path = run_folder(arguments.output, name, seed)
            folder = open_model_folder(path / "model")
            model = load_model(folder)
            captioner = Captioner(model, folder, device="cpu")
            config = build(Config, json.loads((path / "config.json").read_text(encoding="utf-8")), name)
            rules = model.search_rules(folder.no_change_prefixes, folder.no_change_runs)
            predictions = []
            for encoded in encoded_batches(model, records, config):
                with torch.inference_mode(), torch.autocast("cpu", torch.bfloat16, enabled=captioner.bf16):
                    said = decoder_captions(model, captioner.card, encoded, rules, beams=arguments.beams)
                predictions += [PairPrediction(one.text, one.changed) for one in said]
            rows = score_predictions(name, records, predictions, scorer)
            scores = {row.subset: {**row.as_dict(), "beams": arguments.beams} for row in rows}
            (path / "scores.json").write_text(json.dumps(scores, indent=1) + "\n", encoding="utf-8")
            print(f"{name} with seed {seed}: CIDEr {scores['all']['cider']:.1f}", flush=True)


def scored(path: Path, beams: int) -> bool:
    """Return whether a run was scored with as many beams."""
    scores = path / "scores.json"
    return scores.is_file() and json.loads(scores.read_text(encoding="utf-8"))["all"].get("beams") == beams


def run_line(name: str, seed: int, output: Path) -> dict[str, Any]:
    """Return the numbers of one finished and scored run."""
    path = run_folder(output, name, seed)
    log = [json.loads(line) for line in (path / "log.jsonl").read_text(encoding="utf-8").splitlines()]
    best = max((epoch for epoch in log if epoch["best"]), key=lambda epoch: epoch["epoch"])
    scores = json.loads((path / "scores.json").read_text(encoding="utf-8"))
    return {
        "variant": name,
        "seed": seed,
        "validation": best["validation"],
        "beams": scores["all"]["beams"],
        "test": {
            subset: {key: row[key] for key in (*METRICS, "flag_accuracy")} for subset, row in scores.items()
        },
    }


def summary(lines: Sequence[dict[str, Any]], titles: dict[str, str]) -> str:
    """Return the table of means and standard deviations over the seeds."""
    others = ("CIDEr, changed", "CIDEr, validation", "changed or not, accuracy")
    head = ("model", "decoding", *METRICS.values(), *others)
    rows = []
    for name in dict.fromkeys(line["variant"] for line in lines):
        own = [line for line in lines if line["variant"] == name]
        cells = [" and ".join(sorted({search_name(line["beams"]) for line in own}))]
        cells += [spread([line["test"]["all"][metric] for line in own]) for metric in METRICS]
        cells.append(spread([line["test"]["changed"]["cider"] for line in own]))
        cells.append(spread([line["validation"]["cider"] for line in own]))
        cells.append(spread([100 * line["test"]["all"]["flag_accuracy"] for line in own]))
        rows.append((titles[name], *cells))
    return table(head, rows)


def spread(values: Sequence[float]) -> str:
    """Return mean and sample standard deviation."""
    deviation = statistics.stdev(values) if len(values) > 1 else float("nan")
    return f"{statistics.mean(values):.1f} ± {deviation:.1f}"


def main() -> None:
    """Train and score what is missing; print the table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--data", type=Path, required=True, help="LEVIR-CC's folder")
    parser.add_argument("--output", type=Path, required=True, help="folder of the runs")
    parser.add_argument("--variants", type=Path, default=HERE / "compare_models.toml")
    parser.add_argument("--trunk", default="rscc-base", help="model whose frozen trunk all variants share")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--jobs", type=int, default=2, help="runs at a time, one thread each")
    parser.add_argument("--beams", type=int, default=3)
    parser.add_argument("--one", nargs=2, metavar=("VARIANT", "SEED"), help=argparse.SUPPRESS)
    parser.add_argument("--only", nargs="*", help="variants; default: all")
    arguments = parser.parse_args()
    if arguments.one:
        train_one(arguments.one[0], int(arguments.one[1]), arguments)
        return
    titles, _ = read_variants(arguments.variants)
    names = [name for name in titles if not arguments.only or name in arguments.only]
    runs = [(name, seed) for name in names for seed in range(1, arguments.seeds + 1)]
    jobs = [r for r in runs if not (run_folder(arguments.output, *r) / "model" / "model.json").is_file()]
    arguments.output.mkdir(parents=True, exist_ok=True)
    with ThreadPoolExecutor(arguments.jobs) as pool:
        codes = list(pool.map(lambda job: start(job, arguments), sorted(jobs, key=lambda job: job[1])))
    if any(codes):
        sys.exit("a run failed; its log says why")
    score_runs([r for r in runs if not scored(run_folder(arguments.output, *r), arguments.beams)], arguments)
    lines = [run_line(*run, arguments.output) for run in runs]
    (arguments.output / "runs.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    print(summary(lines, titles))


def start(job: tuple[str, int], arguments: argparse.Namespace) -> int:
    """Train one run in a new process; return its exit code."""
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
