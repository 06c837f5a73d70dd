"""The command ``rscc evaluate``; registered in the cli."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from rscc.config import MOST_BEAMS
from rscc.errors import extra
from rscc.shipped import DEFAULT_MODEL
from workflows.cli.options import Dataset, Debug, DeviceOption, ModelOption, ProgressForm, ProgressOption

if TYPE_CHECKING:
    from rscc.data.pairs import PairRecord
    from rscc.evaluation.predictions import PairPrediction


def evaluate(
    data: Annotated[Path, typer.Option("--data", help="Folder of the captioned data set.")],
    model: ModelOption = DEFAULT_MODEL,
    dataset: Annotated[Dataset, typer.Option("--dataset", help="Layout of the data.")] = Dataset.levir_cc,
    split: Annotated[str, typer.Option(help="train, val or test.")] = "test",
    kinds: Annotated[
        bool,
        typer.Option(
            "--kinds", help="Also score by kind of change, read from the references where the data name none."
        ),
    ] = False,
    robustness: Annotated[
        bool,
        typer.Option(
            "--robustness", help="Also show pairs backwards, and images beside themselves and disturbed."
        ),
    ] = False,
    sheet: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="Also draw every k-th pair with what is said of it (.png, .jpg, .webp; {page} in the name "
            "makes pages of ten), and write a table for the verdicts beside it (.csv).",
        ),
    ] = None,
    check_leaks: Annotated[
        list[Path] | None,
        typer.Option(
            metavar="FOLDER",
            help="Also look for the images in those below this folder, which the model learnt from: whole, "
            "cut, turned, zoomed or recoloured; repeatable.",
        ),
    ] = None,
    no_baselines: Annotated[
        bool, typer.Option("--no-baselines", help="Score the model alone, which is quicker.")
    ] = False,
    compare: Annotated[
        bool, typer.Option("--compare", help="Also print the rows of the papers' own tables beside ours.")
    ] = False,
    as_json: Annotated[
        Path | None, typer.Option("--json", help="Also write the scores to this file.")
    ] = None,
    predictions: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE.jsonl",
            help="Also write what the model says of each pair to this file, a line of JSON each.",
        ),
    ] = None,
    ground: Annotated[
        bool,
        typer.Option(
            "--ground/--no-ground",
            help="Make sentences of measured facts, or let the model's decoder speak for itself.",
        ),
    ] = True,
    beams: Annotated[int, typer.Option(min=1, max=MOST_BEAMS, help="Width of the caption search.")] = 3,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace an existing output.")] = False,
    device: DeviceOption = "auto",
    progress: ProgressOption = ProgressForm.auto,
    debug: Debug = False,
) -> None:
    """Score a model beside simple baselines: all, changed and unchanged pairs, each type, the change mask."""
    from workflows.cli.terminal import say, show_result, shown_progress
    from workflows.files import write_together

    with extra("train"):
        from rscc.evaluation.predictions import prediction_line
        from rscc.evaluation.run import EvaluationOptions
        from rscc.evaluation.run import evaluate as score
        from rscc.evaluation.sheet import Sheet, check_sheet, sheet_paths
        from rscc.model_folder import find_model

        outputs = [path for path in (as_json, predictions) if path is not None]
        if sheet is not None:
            check_sheet(sheet)
            outputs += sheet_paths(sheet)
        _check_outputs(outputs, overwrite, (data, find_model(model), *(check_leaks or ())))
        drawn, lines = Sheet(), list[str]()

        def observe(record: PairRecord, prediction: PairPrediction) -> None:
            if sheet is not None:
                drawn.add(record, prediction)
            if predictions is not None:
                lines.append(prediction_line(record, prediction))

        with shown_progress(progress, quiet=not check_leaks) as tell:
            table = score(
                model,
                data,
                dataset=str(dataset),
                split=split,
                beams=beams,
                device=device,
                ground=ground,
                options=EvaluationOptions(baselines=not no_baselines, kinds=kinds, robustness=robustness),
                observe=observe,
                training=check_leaks or (),
                tell=tell,
            )
    say(table.as_text(compare=compare))
    if as_json is not None:
        write_together({as_json: [json.dumps(table.as_dict(), indent=1), "\n"]})
    if predictions is not None:
        write_together({predictions: lines})
    if sheet is not None:
        title = f"{table.rows[0].name} on {data.name}, split {split}"
        write_together({path: [content] for path, content in drawn.files(sheet, title).items()})
    show_result("", table.as_dict(), progress, quiet=True)


def _check_outputs(outputs: list[Path], overwrite: bool, inputs: tuple[Path, ...]) -> None:
    """Make sure that the outputs replace neither one another nor a file of the inputs, nor what is there.

    With ``overwrite`` they may replace what is there, but for the inputs.
    """
    from workflows.errors import OptionInvalid
    from workflows.files import check_free

    for number, path in enumerate(outputs):
        if path.resolve() in [other.resolve() for other in outputs[:number]]:
            raise OptionInvalid(f"{path}: two outputs have this name; give each a name of its own")
        # A data set may have very many files.
        read = (file for folder in inputs for file in folder.rglob("*")) if path.exists() else ()
        check_free([path], overwrite, read)
