"""The command ``rscc evaluate``."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from rscc.config import MOST_BEAMS
from rscc.errors import extra
from rscc.folders import DEFAULT_MODEL
from workflows.cli.options import (
    Dataset,
    DeviceOption,
    ModelOption,
    OverwriteOption,
    option,
    switch,
    takes_options,
)
from workflows.cli.terminal import Terminal
from workflows.errors import OptionInvalid
from workflows.files import check_free, write_together

if TYPE_CHECKING:
    from rscc.data.pairs import PairRecord
    from rscc.evaluation.predictions import PairPrediction


@takes_options()
def evaluate(
    data: Annotated[Path | None, option("Folder of the captioned data set", "FOLDER")] = None,
    stacks: Annotated[
        Path | None,
        option(
            "In place of --data: score dated events of series, a folder of places with truth.json", "FOLDER"
        ),
    ] = None,
    model: ModelOption = DEFAULT_MODEL,
    dataset: Annotated[Dataset, option("Layout of the data")] = Dataset.levir_cc,
    split: Annotated[str, option("Split to score: train, val or test", "SPLIT")] = "test",
    kinds: Annotated[
        bool,
        switch("--kinds", "Also score by kind of change, taken from the references if the data have none"),
    ] = False,
    robustness: Annotated[
        bool, switch("--robustness", "Also score reversed pairs, and unchanged pairs with disturbed images")
    ] = False,
    sheet: Annotated[
        Path | None,
        option(
            "Also draw a sample of pairs with their captions (.png, .jpg, .webp; {page} in the name "
            "makes pages of ten), with a table for verdicts (.csv)",
            "FILE",
        ),
    ] = None,
    check_leaks: Annotated[
        list[Path] | None,
        option(
            "Also search the scored images among the training images in this folder, even if they are "
            "cropped, rotated, zoomed or recoloured; repeatable",
            "FOLDER",
        ),
    ] = None,
    no_baselines: Annotated[
        bool, switch("--no-baselines", "Score only the model, not the baselines")
    ] = False,
    compare: Annotated[bool, switch("--compare", "Also print the scores that the papers report")] = False,
    as_json: Annotated[Path | None, option("Also write the scores to this file", "FILE", "--json")] = None,
    predictions: Annotated[
        Path | None,
        option("Also write the model's caption of each pair to this file, as lines of JSON", "FILE.jsonl"),
    ] = None,
    ground: Annotated[
        bool,
        option(
            "Write sentences from measured facts, or by the model's text decoder",
            None,
            "--ground/--no-ground",
        ),
    ] = True,
    beams: Annotated[int, option("Width of the beam search", "N", min=1, max=MOST_BEAMS)] = 3,
    overwrite: OverwriteOption = False,
    device: DeviceOption = "auto",
    *,
    terminal: Terminal,
) -> None:
    """Score a model and simple baselines: captions of all, changed and unchanged pairs, and change masks."""
    if (data is None) == (stacks is None):
        raise OptionInvalid("give either --data, captioned pairs, or --stacks, series with dated truth")
    if stacks is not None:
        _evaluate_stacks(stacks, not no_baselines, str(device), as_json, overwrite, terminal)
        return
    assert data is not None, "one of both is given"

    with extra("train"):
        from rscc.evaluation.evaluate import EvaluationOptions
        from rscc.evaluation.evaluate import evaluate as score
        from rscc.evaluation.picture_sheet import check_sheet, sheet_files, sheet_paths
        from rscc.evaluation.predictions import prediction_line
        from rscc.model_folder import find_model

        outputs = [path for path in (as_json, predictions) if path is not None]
        if sheet is not None:
            check_sheet(sheet)
            outputs += sheet_paths(sheet)
        _check_outputs(outputs, overwrite, (data, find_model(model), *(check_leaks or ())))
        drawn: list[tuple[PairRecord, PairPrediction]] = []
        lines: list[str] = []

        def observe(record: PairRecord, prediction: PairPrediction) -> None:
            if sheet is not None:
                drawn.append((record, prediction))
            if predictions is not None:
                lines.append(prediction_line(record, prediction))

        with terminal.progress() as update:
            options = EvaluationOptions(
                dataset=str(dataset),
                split=split,
                beams=beams,
                ground=ground,
                baselines=not no_baselines,
                kinds=kinds,
                robustness=robustness,
            )
            table = score(
                model,
                data,
                options,
                device=device,
                observe=observe,
                training=check_leaks or (),
                progress=update,
            )
    if as_json is not None:
        write_together({as_json: [json.dumps(table.as_dict(), indent=1), "\n"]})
    if predictions is not None:
        write_together({predictions: lines})
    if sheet is not None:
        title = f"{table.rows[0].name} on {data.name}, split {split}"
        write_together({path: [content] for path, content in sheet_files(drawn, sheet, title).items()})
    terminal.result(table.as_text(compare=compare), table.as_dict())


def _evaluate_stacks(
    folder: Path, baselines: bool, device: str, as_json: Path | None, overwrite: bool, terminal: Terminal
) -> None:
    from workflows.monitor.evaluation.evaluate import evaluate_stacks

    _check_outputs([as_json] if as_json else [], overwrite, (folder,))
    with terminal.progress() as update:
        result = evaluate_stacks(folder, baselines=baselines, device=device, progress=update)
    if as_json is not None:
        write_together({as_json: [json.dumps(result.as_dict(), indent=1), "\n"]})
    terminal.result(result.as_text(), result.as_dict())


def _check_outputs(outputs: list[Path], overwrite: bool, inputs: tuple[Path, ...]) -> None:
    """Refuse outputs with the same name, existing outputs without ``overwrite``, and files of the inputs."""
    for number, path in enumerate(outputs):
        if path.resolve() in [other.resolve() for other in outputs[:number]]:
            raise OptionInvalid(f"{path}: two outputs have this name; give them different names")
        # Listed only if needed: a data set may have very many files.
        read = (file for folder in inputs for file in folder.rglob("*")) if path.exists() else ()
        check_free([path], overwrite, read)
