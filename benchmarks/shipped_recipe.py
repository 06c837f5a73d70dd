"""Read ``shipped.toml``: the stages of the shipped models, their commands, and hashes of their inputs."""

from __future__ import annotations

import hashlib
import sys
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path

from rscc.configs import CONFIG_FOLDER
from rscc.model_folder import open_model_folder, sha256_of

SHARED = "shared"


@dataclass(frozen=True)
class Stage:
    """One table of ``shipped.toml``.

    Attributes:
        model: name of the shipped model, or ``shared``.
        name: of the stage.
        command: of ``rscc``: ``train``, or one that writes a folder in LEVIR-CC's layout.
        config: shipped config or file; None where the command takes none.
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
        folder: of the file and of config files.
        stages: all, shared ones first, in the order in which they run.
        weights: tables of files of pretrained weights by name.
        spread: largest difference of a validation score between two runs, by score.
        leaks: ``test``, a data set whose test split must not lie in the images of ``training``; may be empty.
    """

    folder: Path
    stages: tuple[Stage, ...]
    weights: dict[str, dict[str, str]]
    spread: dict[str, float]
    leaks: dict[str, str | list[str]] = field(default_factory=dict)

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

    def config_file(self, stage: Stage) -> Path | None:
        """Return the file of the stage's config."""
        if stage.config is None:
            return None
        shipped = CONFIG_FOLDER / f"{stage.config}.toml"
        path = self.folder / stage.config if stage.config.endswith(".toml") else shipped
        if not path.is_file():
            sys.exit(f"{stage.label}: no config {stage.config} ({path.name} is missing in {path.parent})")
        return path


def read_recipe(path: Path, seed: int | None = None) -> Recipe:
    """Read ``shipped.toml``; ``seed`` replaces that of every stage."""
    content = tomllib.loads(path.read_text(encoding="utf-8"))
    tables = {SHARED: content.get("shared", {}), **content["models"]}
    stages = [
        Stage(model, name, **(own if seed is None else {**own, "seed": seed}))
        for model, named in tables.items()
        for name, own in named.items()
    ]
    return Recipe(
        path.parent, tuple(stages), content.get("weights", {}), content["spread"], content.get("leaks", {})
    )


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
            return recipe.folder / name
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
    config = recipe.config_file(stage)
    if config is not None:
        words += ["--config", str(stage.config) if config.parent == CONFIG_FOLDER else str(config)]
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
    config = recipe.config_file(stage)
    if config is not None:
        found[f"config:{stage.config}"] = sha256_of(config)
    for _, value in stage.values():
        kind, _, name = value.partition(":")
        if kind == "stage":
            found[value] = result_hash(recipe.source(stage, name), places)
        elif kind in ("data", "weights"):
            found[value] = fingerprint(Path(places.resolve(recipe, stage, value)))
    return found
