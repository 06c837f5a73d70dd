"""The command ``rscc train``; registered in the cli."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from rscc.config import MOST_EPOCHS, MOST_SEED
from rscc.errors import extra
from workflows.cli.options import Dataset, Debug, Paper, ProgressForm, ProgressOption
from workflows.cli.terminal import show_notice, show_result
from workflows.files import told_when_refused


def train(
    data: Annotated[Path, typer.Option("--data", help="Folder of the captioned data set.")],
    output: Annotated[
        Path, typer.Option("--output", "-o", help="Run folder; the model lies in its folder model.")
    ],
    model: Annotated[
        Paper | None, typer.Option("--model", help="Which paper's model; default: the config's, else rdd.")
    ] = None,
    dataset: Annotated[
        Dataset | None,
        typer.Option("--dataset", help="Layout of the data; default: the config's, else levir_cc."),
    ] = None,
    config: Annotated[
        str | None,
        typer.Option(help="TOML file or shipped config; default: <MODEL>_<DATASET>, with --from finetune."),
    ] = None,
    name: Annotated[
        str | None, typer.Option(help="Name of the new model; default: of the run folder.")
    ] = None,
    masks: Annotated[
        list[Path] | None, typer.Option(help="Further pairs with change masks; repeatable.")
    ] = None,
    also: Annotated[
        list[Path] | None,
        typer.Option(
            metavar="FOLDER",
            help="Further captioned pairs, laid out like the data, to learn from too; repeatable.",
        ),
    ] = None,
    roads: Annotated[
        Path | None,
        typer.Option(metavar="FOLDER", help="Images with road masks: no road is stated that is not found."),
    ] = None,
    labelled: Annotated[
        Path | None,
        typer.Option(
            metavar="FOLDER", help="Further pairs, and a table of what they show, to learn facts from."
        ),
    ] = None,
    labels: Annotated[
        Path | None, typer.Option(help="That table; default: labels.csv in the folder of --labelled.")
    ] = None,
    trunk: Annotated[
        str | None, typer.Option(help="Model whose trunk and change head are the start.")
    ] = None,
    start: Annotated[
        str | None,
        typer.Option(
            "--from", metavar="MODEL", help="Model whose weights and words are the start: a name or a folder."
        ),
    ] = None,
    corpus: Annotated[
        Path | None, typer.Option(help="File of captions without images, for the objective language.")
    ] = None,
    backbone_weights: Annotated[Path | None, typer.Option(help="File of pretrained trunk weights.")] = None,
    text_encoder: Annotated[str | None, typer.Option(help="Text encoder instead of the config's.")] = None,
    epochs: Annotated[
        int | None,
        typer.Option(
            min=1, max=MOST_EPOCHS, help="Instead of the config's; with --from also train the captioner."
        ),
    ] = None,
    seed: Annotated[int | None, typer.Option(min=0, max=MOST_SEED, help="Instead of the config's.")] = None,
    resume: Annotated[
        bool,
        typer.Option("--resume", help="Go on from the checkpoint in the output; without one, begin anew."),
    ] = False,
    overwrite: Annotated[
        bool, typer.Option("--overwrite", help="Replace the run that lies in the output.")
    ] = False,
    device: Annotated[str, typer.Option(help="auto, cpu, cuda, cuda:1 or mps.")] = "cpu",
    progress: ProgressOption = ProgressForm.auto,
    debug: Debug = False,
) -> None:
    """Train a model and write it as a model folder."""
    with extra("train"), told_when_refused(output):
        from dataclasses import replace
        from functools import partial

        from rscc.config import describes_model, load_config
        from rscc.training.run import train_model
        from rscc.training.start import RunPaths, finetuning_config, open_start

        if start is not None and model is None:
            config = config or "finetune"
        config = config or f"{model or Paper.rdd}_{dataset or Dataset.levir_cc}"
        settings = load_config(config)
        if start is not None and model is None and not describes_model(config):
            settings = finetuning_config(settings, open_start(start))
        given: dict[str, Any] = {"epochs": epochs, "seed": seed, "text_encoder": text_encoder}
        changes = {name: value for name, value in given.items() if value is not None}
        if epochs is not None:
            changes["facts_alone"] = False
        settings = replace(
            settings,
            model=replace(settings.model, paper=str(model or settings.model.paper)),
            data=replace(settings.data, name=str(dataset or settings.data.name)),
            train=replace(settings.train, **changes),
        )
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
            report=partial(show_notice, form=progress, err=False),
        )
    show_result(f"model   {folder.path}", {"model": str(folder.path)}, progress)
