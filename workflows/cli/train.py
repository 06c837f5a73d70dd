"""The command ``rscc train``."""

import shlex
import sys
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Annotated, Any

from rscc.config import MOST_EPOCHS, MOST_SEED, Config
from rscc.errors import extra
from workflows.cli.options import Dataset, Paper, option, switch, takes_options
from workflows.cli.terminal import Terminal
from workflows.files import one_line_if_disk_full


@takes_options()
def train(
    data: Annotated[Path, option("Folder of the captioned data set", "FOLDER")],
    output: Annotated[
        Path, option("Run folder; the model is in its folder model", "FOLDER", "--output", "-o")
    ],
    model: Annotated[Paper | None, option("Model by its paper; default: the config's, else rdd")] = None,
    dataset: Annotated[
        Dataset | None, option("Layout of the data; default: the config's, else levir_cc")
    ] = None,
    config: Annotated[
        str | None,
        option("TOML file or shipped config; default: <MODEL>_<DATASET>, with --from finetune", "CONFIG"),
    ] = None,
    name: Annotated[str | None, option("Name of the new model; default: the run folder's", "NAME")] = None,
    masks: Annotated[
        list[Path] | None,
        option("More pairs with change masks, or torchgeo:CLASS:FOLDER; repeatable", "FOLDER"),
    ] = None,
    also: Annotated[
        list[Path] | None, option("More captioned pairs in the layout of --data; repeatable", "FOLDER")
    ] = None,
    roads: Annotated[
        Path | None, option("Images with road masks, to train the check of stated roads", "FOLDER")
    ] = None,
    labelled: Annotated[
        Path | None, option("More pairs with a table of their content, to train facts", "FOLDER")
    ] = None,
    labels: Annotated[
        Path | None, option("That table; default: labels.csv in the folder of --labelled", "FILE")
    ] = None,
    trunk: Annotated[
        str | None,
        option("Model to take trunk and change head from, or torchgeo:WEIGHTS, a published trunk", "MODEL"),
    ] = None,
    start: Annotated[str | None, option("Model to fine-tune: a name or a folder", "MODEL", "--from")] = None,
    corpus: Annotated[
        Path | None, option("Captions without images, for the language objective", "FILE")
    ] = None,
    backbone_weights: Annotated[Path | None, option("Pretrained trunk weights", "FILE")] = None,
    text_encoder: Annotated[str | None, option("Text encoder instead of the config's", "ENCODER")] = None,
    epochs: Annotated[
        int | None,
        option(
            "Epochs instead of the config's; with --from also trains the captioner",
            "N",
            min=1,
            max=MOST_EPOCHS,
        ),
    ] = None,
    seed: Annotated[
        int | None, option("Random seed instead of the config's", "N", min=0, max=MOST_SEED)
    ] = None,
    resume: Annotated[
        bool, switch("--resume", "Continue from the checkpoint in the output, if there is one")
    ] = False,
    overwrite: Annotated[bool, switch("--overwrite", "Replace the run in the output")] = False,
    device: Annotated[str, option("Where to compute: auto, cpu, cuda, cuda:1 or mps", "DEVICE")] = "cpu",
    *,
    terminal: Terminal,
) -> None:
    """Train a model and write it as a model folder."""
    with extra("train"), one_line_if_disk_full(output):
        from rscc.models.torchgeo_detector import PREFIX, torchgeo_trunk
        from rscc.training.train_model import train_model
        from rscc.training.training_run import RunPaths

        options = {"epochs": epochs, "seed": seed, "text_encoder": text_encoder}
        settings = _settings(config, start, model, dataset, options)
        if trunk is not None and trunk.startswith(PREFIX):
            backbone, backbone_weights = torchgeo_trunk(trunk.removeprefix(PREFIX), backbone_weights)
            settings, trunk = replace(settings, model=replace(settings.model, backbone=backbone)), None
        folder = train_model(
            settings,
            RunPaths(
                data,
                output,
                tuple(masks or ()),
                trunk,
                backbone_weights,
                start=start,
                corpus=corpus,
                also=tuple(also or ()),
                roads=roads,
                labelled=labelled,
                labels=labels,
            ),
            name=name or output.resolve().name,
            command=shlex.join(["rscc", *sys.argv[1:]]),
            resume=resume,
            overwrite=overwrite,
            device=device,
            report=partial(terminal.notice, err=False),
        )
    terminal.result(f"model   {folder.path}", {"model": str(folder.path)})


def _settings(
    config: str | None,
    start: str | None,
    model: Paper | None,
    dataset: Dataset | None,
    options: dict[str, Any],
) -> Config:
    """Return the config of a run: a file or a shipped one, with the options that replace its values."""
    from rscc.configs import describes_model, load_config
    from rscc.training.training_run import finetuning_config, open_start

    is_finetuning = start is not None and model is None
    if config is None:
        config = "finetune" if is_finetuning else f"{model or Paper.rdd}_{dataset or Dataset.levir_cc}"
    settings = load_config(config)
    if is_finetuning and not describes_model(config):
        settings = finetuning_config(settings, open_start(str(start)))
    changes = {name: value for name, value in options.items() if value is not None}
    if "epochs" in changes:
        changes["facts_alone"] = False
    return replace(
        settings,
        model=replace(settings.model, paper=str(model or settings.model.paper)),
        data=replace(settings.data, name=str(dataset or settings.data.name)),
        train=replace(settings.train, **changes),
    )
