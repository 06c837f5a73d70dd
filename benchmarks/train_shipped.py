"""Train the shipped models from data to weights: every stage of ``shipped.toml``, in order.

    python benchmarks/train_shipped.py --data DATA --weights WEIGHTS --output runs/shipped
    python benchmarks/train_shipped.py --check runs/second/rscc-base runs/second/rscc-small

Nothing is trained if an image of the test split is in the training data. A stage is one ``rscc`` command
with its seed. A finished stage is not repeated while its command, config and inputs are the same; a killed
training resumes. Finished models are in ``OUTPUT/<model>``, runs in ``OUTPUT/runs``; commands, seeds,
seconds, validation scores and SHA-256 of inputs and results in ``OUTPUT/record.json``. ``--check`` compares
a second run with the shipped cards.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import platform
import shlex
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from pathlib import Path
from typing import Any

from shipped_recipe import (
    Places,
    Recipe,
    Stage,
    command_line,
    fingerprint,
    inputs_of,
    read_recipe,
    result_hash,
)

from rscc import __version__
from rscc.data.benchmarks.levir_cc import LevirCC
from rscc.data.leaks import find_leaks, image_files
from rscc.errors import ModelFolderInvalid
from rscc.evaluation.evaluation_report import leaks_note
from rscc.evaluation.markdown import table
from rscc.files import atomic_write
from rscc.folders import SHIPPED
from rscc.model_folder import open_model_folder

HERE = Path(__file__).resolve().parent
Run = Callable[[Sequence[str], Path], int]


def run_command(words: Sequence[str], log: Path) -> int:
    """Run ``rscc`` with this interpreter, its output in a file; return the exit code."""
    with log.open("a", encoding="utf-8") as file:
        command = [sys.executable, "-m", *words]
        return subprocess.run(command, stdout=file, stderr=file, check=False).returncode


def run_stage(
    recipe: Recipe,
    stage: Stage,
    places: Places,
    *,
    device: str = "cpu",
    again: bool = False,
    run: Run = run_command,
) -> None:
    """Run one stage, unless it is finished with the same inputs.

    Args:
        recipe: the whole recipe.
        stage: one of its stages, whose sources are finished.
        places: paths of data, weights and runs.
        device: where to train.
        again: repeat it even if it is finished.
        run: runs a command with its output in a file; returns the exit code.
    """
    folder, state_file = places.run(stage), places.state_file(stage)
    inputs = inputs_of(recipe, stage, places)
    asked = [stage.command, stage.config, stage.seed, stage.values()]
    key = hashlib.sha256(json.dumps([asked, inputs]).encode()).hexdigest()
    state = read_state(state_file)
    same = state.get("key") == key and not again
    if same and is_finished(state, stage, places):
        print(f"{stage.label}: finished before", flush=True)
        return
    if folder.exists() and not state:
        sys.exit(f"{folder}: not a run of this script; name another folder of output")
    words = command_line(recipe, stage, places, device)
    if same and (folder / "checkpoint.pt").is_file():
        words.append("--resume")
    elif folder.exists():
        shutil.rmtree(folder)
    state_file.parent.mkdir(parents=True, exist_ok=True)
    if stage.command == "train":
        share_features(folder, places.output / "runs" / "features")
    state = {"key": key, "command": shlex.join(words), "seed": stage.seed, "inputs": inputs, "result": None}
    write_json(state_file, state)
    print(f"{stage.label}: {state['command']}", flush=True)
    began = time.monotonic()
    log = folder.with_name(f"{stage.name}.log")
    if run(words, log) != 0:
        sys.exit(f"{stage.label} failed; {log} says why")
    state |= {"result": result_hash(stage, places), "seconds": round(time.monotonic() - began)}
    state |= {"device": device, "threads": os.environ.get("OMP_NUM_THREADS", "all")}
    if stage.command == "train":
        state["validation"] = open_model_folder(places.result(stage)).card.scores
    write_json(state_file, state)


def check_leaks(recipe: Recipe, places: Places) -> None:
    """End the script if a test image is in the training data; search again only if a file changed."""
    if not recipe.leaks:
        return
    folders = [places.data / str(name).removeprefix("data:") for name in recipe.leaks["training"]]
    tested = places.data / str(recipe.leaks["test"]).removeprefix("data:")
    state = places.output / "leaks.json"
    inputs = {folder.name: fingerprint(folder) for folder in (tested, *folders)}
    if read_state(state).get("inputs") == inputs:
        print("leaks: looked for before", flush=True)
        return
    records = LevirCC(tested, "test").records
    images = [path for record in records for path in (record.before, record.after)]
    learnt = [path for folder in folders for path in image_files(folder, but=images)]
    result = find_leaks(images, learnt)
    if result.leaks:
        sys.exit(f"{leaks_note(result)}; take these out of the training data")
    write_json(state, {"inputs": inputs, **result.as_dict()})
    print(f"leaks: {leaks_note(result)}", flush=True)


def read_state(file: Path) -> dict[str, Any]:
    """Return the state of a stage, empty if there is none."""
    return json.loads(file.read_text(encoding="utf-8")) if file.is_file() else {}


def write_json(file: Path, content: Mapping[str, Any]) -> None:
    """Write under a temporary name, then rename."""
    # One run per model may go on at the same time.
    with atomic_write(file) as (draft,):
        draft.write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")


def is_finished(state: Mapping[str, Any], stage: Stage, places: Places) -> bool:
    """Return whether a stage's result exists and is the recorded one."""
    if state["result"] is None or not places.result(stage).is_dir():
        return False
    try:
        return state["result"] == result_hash(stage, places)
    except ModelFolderInvalid:
        return False


def share_features(folder: Path, shared: Path) -> None:
    """Let all stages share one folder of cached features, whose names tell trunk and data."""
    folder.mkdir(parents=True, exist_ok=True)
    shared.mkdir(parents=True, exist_ok=True)
    if not (folder / "features").exists():
        (folder / "features").symlink_to(os.path.relpath(shared, folder), target_is_directory=True)


def deliver(recipe: Recipe, model: str, places: Places) -> Path:
    """Copy the model folder of the last stage to ``OUTPUT/<model>``."""
    target = places.output / model
    with atomic_write(target) as (draft,):
        shutil.copytree(places.result(recipe.last(model)), draft)
    return target


def record(recipe: Recipe, places: Places) -> dict[str, Any]:
    """Return the record of the finished stages: commands, seeds, SHA-256, seconds, scores."""
    states = {stage.label: read_state(places.state_file(stage)) for stage in recipe.stages}
    machine = f"{platform.machine()}, {os.cpu_count()} processors, Python {platform.python_version()}"
    return {
        "rscc": __version__,
        "machine": machine,
        "spread": recipe.spread,
        "stages": {label: state for label, state in states.items() if state.get("result")},
    }


def summary(stages: Mapping[str, Mapping[str, Any]]) -> str:
    """Return the table of the stages of a record."""
    rows = []
    for label, state in stages.items():
        scores = ", ".join(f"{name} {value:.4g}" for name, value in state.get("validation", {}).items())
        rows.append(
            (label, str(state["seed"]), f"{state['seconds'] / 60:.1f}", state["result"][:12], scores or "–")
        )
    return table(("stage", "seed", "minutes", "SHA-256", "validation"), rows)


def check(folders: Sequence[Path], spread: Mapping[str, float], shipped: Path) -> tuple[str, bool]:
    """Compare validation scores of model folders with the cards of the shipped models of the same names.

    Returns the table, and whether all scores are within their spread; a score of only one card is not.
    """
    rows, good = [], True
    for folder in folders:
        card = open_model_folder(folder, check_hashes=True).card
        before = open_model_folder(shipped / card.name).card.scores
        for name, allowed in spread.items():
            pair = (before.get(name), card.scores.get(name))
            if pair == (None, None):
                continue
            difference = None if None in pair else card.scores[name] - before[name]
            fits = difference is not None and abs(difference) <= allowed
            good &= fits
            shown = ["–" if value is None else f"{value:.4g}" for value in (*pair, difference)]
            rows.append((f"{card.name} {name}", *shown, f"{allowed:g}", "yes" if fits else "NO"))
    return table(("score", "shipped", "second run", "difference", "allowed", "within"), rows), good


def stages_from(stages: Sequence[Stage], name: str | None) -> Collection[str]:
    """Return the names of the stages from ``name`` on."""
    order = list(dict.fromkeys(stage.name for stage in stages))
    if name is None:
        return ()
    if name not in order:
        sys.exit(f"no stage {name}; they are {', '.join(order)}")
    return order[order.index(name) :]


def parse(argv: Sequence[str] | None) -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--data", type=Path, help="folder of all data; shipped.toml says what lies in it")
    parser.add_argument("--weights", type=Path, help="folder of ImageNet weights")
    parser.add_argument("--output", type=Path, default=Path("runs/shipped"))
    parser.add_argument("--model", nargs="+", help="models; default: all")
    parser.add_argument("--recipe", type=Path, default=HERE / "shipped.toml")
    parser.add_argument("--seed", type=int, help="of every stage, instead of the recipe's")
    parser.add_argument("--from-stage", metavar="STAGE", help="repeat this stage and all that follow it")
    parser.add_argument("--device", default="cpu", help="of the trainings")
    parser.add_argument("--dry-run", action="store_true", help="print the commands only")
    parser.add_argument(
        "--check", type=Path, nargs="+", metavar="FOLDER", help="model folders of a second run"
    )
    parser.add_argument("--shipped", type=Path, default=SHIPPED, help="models to check against")
    arguments = parser.parse_args(argv)
    if arguments.data is None and not arguments.check:
        parser.error("give --data to train, or --check with folders")
    return arguments


def main(argv: Sequence[str] | None = None, run: Run = run_command) -> None:
    """Run what is not finished, copy the models, write the record, print the table; or only check."""
    arguments = parse(argv)
    recipe = read_recipe(arguments.recipe, arguments.seed)
    if arguments.check:
        text, good = check(arguments.check, recipe.spread, arguments.shipped)
        print(text)
        sys.exit(0 if good else "a score lies farther from the shipped model's than the spread allows")
    names = arguments.model or recipe.models()
    stages = recipe.stages_of(names)
    again = stages_from(stages, arguments.from_stage)
    places = Places(arguments.data, arguments.weights, arguments.output)
    if arguments.dry_run:
        for stage in stages:
            print(shlex.join(command_line(recipe, stage, places, arguments.device)))
        return
    places.output.mkdir(parents=True, exist_ok=True)
    check_leaks(recipe, places)
    for stage in stages:
        run_stage(recipe, stage, places, device=arguments.device, again=stage.name in again, run=run)
        write_json(places.output / "record.json", record(recipe, places))
    for model in names:
        print(f"{model}: {deliver(recipe, model, places)}")
    print(summary(record(recipe, places)["stages"]))


if __name__ == "__main__":
    main()
