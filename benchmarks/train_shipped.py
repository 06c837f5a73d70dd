"""Train the shipped models from data to weights: every stage of ``shipped.toml``, in order.

    python benchmarks/train_shipped.py --data DATA --weights WEIGHTS --output runs/shipped

Nothing is trained if an image of the test split is in the training data. A stage is one ``rscc`` command
with its seed. A finished stage is not repeated while its command, config and inputs are the same; a killed
training resumes. Finished models are in ``OUTPUT/<model>``, runs in ``OUTPUT/runs``; commands, seeds,
seconds, validation scores and SHA-256 of inputs and results in ``OUTPUT/record.json``.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import shlex
import shutil
import subprocess
import sys
import time
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from rscc import __version__
from rscc.configs import CONFIG_FOLDER
from rscc.data.benchmarks.levir_cc import LevirCC
from rscc.data.leaks import find_leaks, image_files
from rscc.errors import ModelFolderInvalid
from rscc.evaluation.evaluation_report import leaks_note
from rscc.files import atomic_write
from rscc.model_folder import open_model_folder, sha256_of

HERE = Path(__file__).resolve().parent
SHARED = "shared"


@dataclass(frozen=True)
class Stage:
    """One table of ``shipped.toml``.

    Attributes:
        model: name of the shipped model, or ``shared``.
        name: of the stage.
        command: of ``rscc``: ``train``, or one that writes a folder in LEVIR-CC's layout.
        config: shipped config; None where the command takes none.
        seed: of the stage.
        options: further options by name; paths start with ``data:``, ``weights:``, ``beside:`` (the
            recipe) or ``stage:``.
    """

    model: str
    name: str
    command: str = "train"
    config: str | None = None
    seed: int = 1
    options: Mapping[str, str | list[str]] = field(default_factory=dict)

    @property
    def label(self) -> str:
        """Model and name."""
        return f"{self.model}/{self.name}"

    def values(self) -> list[tuple[str, str]]:
        """Return every option with each of its values."""
        return [
            (name, one)
            for name, value in self.options.items()
            for one in (value if isinstance(value, list) else [value])
        ]


@dataclass(frozen=True)
class Recipe:
    """The whole of ``shipped.toml``.

    Attributes:
        stages: all, shared ones first, in the order in which they run.
        weights: tables of files of pretrained weights by name.
        leaks: ``test``, a data set whose test split must not lie in the images of ``training``.
    """

    stages: tuple[Stage, ...]
    weights: dict[str, dict[str, str]]
    leaks: dict[str, str | list[str]]

    def models(self) -> list[str]:
        """Return the names of the models."""
        return list(dict.fromkeys(stage.model for stage in self.stages if stage.model != SHARED))

    def last(self, model: str) -> Stage:
        """Return the model's last stage, whose result is shipped."""
        return [stage for stage in self.stages if stage.model == model][-1]

    def stages_of(self, models: Sequence[str]) -> list[Stage]:
        """Return the stages of these models and the shared ones that they read."""
        for model in models:
            if model not in self.models():
                sys.exit(f"no model {model}; the recipe knows {', '.join(self.models())}")
        own = [stage for stage in self.stages if stage.model in models]
        read = {value.removeprefix("stage:") for stage in own for _, value in stage.values()}
        shared = [stage for stage in self.stages if stage.model == SHARED and stage.name in read]
        return [*shared, *own]

    def source(self, stage: Stage, name: str) -> Stage:
        """Return the stage that ``stage:NAME`` means for ``stage``."""
        for model in (stage.model, SHARED):
            for one in self.stages[: self.stages.index(stage)]:
                if (one.model, one.name) == (model, name):
                    return one
        sys.exit(f"{stage.label}: no earlier stage is called {name!r}")


def read_recipe() -> Recipe:
    """Read ``shipped.toml``."""
    content = tomllib.loads((HERE / "shipped.toml").read_text(encoding="utf-8"))
    tables = {SHARED: content["shared"], **content["models"]}
    stages = [Stage(model, name, **own) for model, named in tables.items() for name, own in named.items()]
    return Recipe(tuple(stages), content["weights"], content["leaks"])


@dataclass(frozen=True)
class Places:
    """Paths of the data, the weights, and the folder of all runs."""

    data: Path
    weights: Path | None
    output: Path

    def run(self, stage: Stage) -> Path:
        """Return the stage's run folder."""
        return self.output / "runs" / stage.model / stage.name

    def result(self, stage: Stage) -> Path:
        """Return the result for later stages: a model folder, or the folder of a synthesis."""
        return self.run(stage) / "model" if stage.command == "train" else self.run(stage)

    def state_file(self, stage: Stage) -> Path:
        """Return the file with the state of the stage."""
        return self.run(stage).with_name(f"{stage.name}.json")

    def find_weights(self, entry: Mapping[str, str]) -> Path:
        """Return a file of pretrained weights, from the folder of weights or from an installed package."""
        folders = [] if self.weights is None else [self.weights]
        spec = find_spec(entry["package"]) if "package" in entry else None
        folders += [Path(one) for one in (spec and spec.submodule_search_locations) or ()]
        found = [path for folder in folders for path in sorted(folder.rglob(entry["file"]))]
        if not found:
            sys.exit(f"{entry['file']} is not in the folder of --weights: {entry['origin']}")
        if sha256_of(found[0]) != entry["sha256"]:
            sys.exit(f"{found[0]}: not the file that the recipe names (SHA-256 differs): {entry['origin']}")
        return found[0]

    def resolve(self, recipe: Recipe, stage: Stage, value: str) -> Path | str:
        """Return the path of an option's value, or the value itself if it is no path."""
        kind, _, name = value.partition(":")
        if kind == "data":
            return self.data / name
        if kind == "weights":
            return self.find_weights(recipe.weights[name])
        if kind == "beside":
            return HERE / name
        if kind == "stage":
            return self.result(recipe.source(stage, name))
        return value


def fingerprint(path: Path, *, pictures: bool = False) -> str:
    """Return a SHA-256: of a file, or of a folder's names, sizes, and the content of its tables.

    Hashing all images of a dataset before each stage would take minutes; names and sizes are enough. With
    ``pictures`` the content of every file counts.
    """
    if path.is_file():
        return sha256_of(path)
    if not path.is_dir():
        sys.exit(f"{path}: no such file or folder")
    lines = []
    for file in sorted(path.rglob("*")):
        if file.is_file():
            whole = pictures or file.suffix in (".json", ".csv")
            content = sha256_of(file) if whole else str(file.stat().st_size)
            lines.append(f"{file.relative_to(path).as_posix()} {content}")
    return hashlib.sha256("\n".join(lines).encode()).hexdigest()


def result_hash(stage: Stage, places: Places) -> str:
    """Return the SHA-256 of a finished stage: of its weights, or of the pairs that it wrote.

    Raises:
        ModelFolderInvalid: there is no whole model folder.
    """
    folder = places.result(stage)
    if stage.command == "train":
        return open_model_folder(folder, check_hashes=True).card.weights_sha256
    # Not the whole folder: its record names the command, and with it the places on this machine.
    parts = [fingerprint(folder / "LevirCCcaptions.json"), fingerprint(folder / "images", pictures=True)]
    return hashlib.sha256(" ".join(parts).encode()).hexdigest()


def command_line(recipe: Recipe, stage: Stage, places: Places, device: str) -> list[str]:
    """Return the stage's command, without the interpreter."""
    words = ["rscc", stage.command]
    if stage.config is not None:
        words += ["--config", stage.config]
    for name, value in stage.values():
        words += [f"--{name}", str(places.resolve(recipe, stage, value))]
    words += ["--seed", str(stage.seed), "--output", str(places.run(stage))]
    if stage.command == "train":
        is_last = stage == recipe.last(stage.model)
        words += ["--name", stage.model if is_last else f"{stage.model}-{stage.name}"]
        words += ["--device", device]
    return words


def inputs_of(recipe: Recipe, stage: Stage, places: Places) -> dict[str, str]:
    """Return the SHA-256 of everything the stage reads, by its name in the recipe."""
    found = {}
    if stage.config is not None:
        found[f"config:{stage.config}"] = sha256_of(CONFIG_FOLDER / f"{stage.config}.toml")
    for _, value in stage.values():
        kind, _, name = value.partition(":")
        if kind == "stage":
            found[value] = result_hash(recipe.source(stage, name), places)
        elif kind in ("data", "weights"):
            found[value] = fingerprint(Path(places.resolve(recipe, stage, value)))
    return found


def run_stage(recipe: Recipe, stage: Stage, places: Places, device: str) -> None:
    """Run one stage, whose sources are finished, unless it is finished with the same inputs."""
    folder, state_file = places.run(stage), places.state_file(stage)
    inputs = inputs_of(recipe, stage, places)
    asked = [stage.command, stage.config, stage.seed, stage.values()]
    key = hashlib.sha256(json.dumps([asked, inputs]).encode()).hexdigest()
    state = read_state(state_file)
    same = state.get("key") == key
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
    state = {"key": key, "command": shlex.join(words), "seed": stage.seed, "inputs": inputs, "result": None}
    write_json(state_file, state)
    print(f"{stage.label}: {state['command']}", flush=True)
    began = time.monotonic()
    log = folder.with_name(f"{stage.name}.log")
    with log.open("a", encoding="utf-8") as file:
        done = subprocess.run([sys.executable, "-m", *words], stdout=file, stderr=file, check=False)
    if done.returncode != 0:
        sys.exit(f"{stage.label} failed; {log} says why")
    state |= {"result": result_hash(stage, places), "seconds": round(time.monotonic() - began)}
    state |= {"device": device, "threads": os.environ.get("OMP_NUM_THREADS", "all")}
    if stage.command == "train":
        state["validation"] = open_model_folder(places.result(stage)).card.scores
    write_json(state_file, state)


def check_leaks(recipe: Recipe, places: Places) -> None:
    """End the script if a test image is in the training data."""
    folders = [places.data / str(name).removeprefix("data:") for name in recipe.leaks["training"]]
    tested = places.data / str(recipe.leaks["test"]).removeprefix("data:")
    records = LevirCC(tested, "test")
    images = [path for record in records for path in (record.before, record.after)]
    learnt = [path for folder in folders for path in image_files(folder, but=images)]
    result = find_leaks(images, learnt)
    if result.leaks:
        sys.exit(f"{leaks_note(result)}; take these out of the training data")
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


def record(recipe: Recipe, places: Places) -> dict[str, Any]:
    """Return the record of the finished stages: commands, seeds, SHA-256, seconds, scores."""
    states = {stage.label: read_state(places.state_file(stage)) for stage in recipe.stages}
    return {
        "rscc": __version__,
        "stages": {label: state for label, state in states.items() if state.get("result")},
    }


def main() -> None:
    """Run what is not finished, copy the models and write the record."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--data", type=Path, required=True, help="folder of all data; shipped.toml says what lies in it"
    )
    parser.add_argument("--weights", type=Path, help="folder of ImageNet weights")
    parser.add_argument("--output", type=Path, default=Path("runs/shipped"))
    parser.add_argument("--model", nargs="+", help="models; default: all")
    parser.add_argument("--device", default="cpu", help="of the trainings")
    arguments = parser.parse_args()
    recipe = read_recipe()
    names = arguments.model or recipe.models()
    stages = recipe.stages_of(names)
    places = Places(arguments.data, arguments.weights, arguments.output)
    places.output.mkdir(parents=True, exist_ok=True)
    check_leaks(recipe, places)
    for stage in stages:
        run_stage(recipe, stage, places, arguments.device)
        write_json(places.output / "record.json", record(recipe, places))
    for model in names:
        with atomic_write(places.output / model) as (draft,):
            shutil.copytree(places.result(recipe.last(model)), draft)


if __name__ == "__main__":
    main()
