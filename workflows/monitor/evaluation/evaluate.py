"""Score the finder of steps, simple baselines, and rscc-medium on the first and last scene of each series."""

import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from rscc.evaluation.markdown import table, unit
from tiling import Window
from workflows.monitor.evaluation.baselines import mask_of, plain_steps, two_dates
from workflows.monitor.evaluation.scores import Reported, StackScores
from workflows.monitor.evaluation.truth import month_of, read_truth, series_of
from workflows.monitor.events import FoundEvent, Series
from workflows.monitor.history import history_of
from workflows.monitor.options import MonitorOptions
from workflows.monitor.step.cube import SeriesCube
from workflows.monitor.step.features import step_model
from workflows.monitor.steps import find_steps
from workflows.progress import Progress, report_progress

MONITOR, STEP, PAIR = "rscc monitor", "plain step fit", "difference of first and last scene"
MEDIUM = "rscc-medium"
_HEADS = {
    "recall": "recall of sure events",
    "precision": "precision",
    "dates_within_2_months": "dates within 2 months",
    "mean_date_error_months": "mean date error, months",
    "scot": "SCOT",
    "false_per_place_and_year": "false per place and year",
    "look_alikes_reported": "look-alikes reported",
}


@dataclass(frozen=True)
class StackResult:
    """Scores of all methods.

    Attributes:
        held_out: places that the shipped coefficients were fitted on; each was scored without itself.
    """

    scores: Mapping[str, StackScores]
    places: int
    held_out: int

    def as_text(self) -> str:
        """Return a table in Markdown."""
        rows = []
        for name, scores in self.scores.items():
            values = scores.as_dict()
            rows.append([name, *(unit(values[key]) for key in _HEADS)])
        first = next(iter(self.scores.values()))
        note = (
            f"{self.places} places, {first.sure} sure events, {first.look_alikes} look-alikes. "
            f"{self.held_out} of the places were scored with coefficients that were fitted without them."
        )
        return f"{table(['method', *_HEADS.values()], rows)}\n\n{note}"

    def as_dict(self) -> dict[str, Any]:
        """Return the scores as plain values."""
        return {
            "places": self.places,
            "held_out": self.held_out,
            "methods": {name: scores.as_dict() for name, scores in self.scores.items()},
        }


def evaluate_stacks(
    folder: Path,
    *,
    baselines: bool = True,
    device: str = "auto",
    progress: Progress | None = None,
) -> StackResult:
    """Score events of series against dated truth, see :mod:`workflows.monitor.evaluation.truth`.

    A place that the shipped coefficients were fitted on is scored with those fitted without it.

    Args:
        baselines: also score the plain ones and rscc-medium.
        device: for rscc-medium, see :meth:`rscc.Captioner.load`.
    """
    truth = read_truth(folder)
    captioner = None
    if baselines:
        from rscc.captioner import Captioner

        captioner = Captioner.load(MEDIUM, device=device)
    names = [MONITOR, *([STEP, PAIR, MEDIUM] if baselines else [])]
    scores = {name: StackScores() for name in names}
    held_out = 0
    for number, (place, true) in enumerate(truth.items(), start=1):
        series = series_of(folder / place)
        months = [month_of(scene.date.text) for scene in series.scenes]
        model = step_model(place)
        held_out += model is not step_model() and not np.array_equal(model.weights, step_model().weights)
        with SeriesCube.open(series, MonitorOptions()) as cube:
            found = {MONITOR: _reported(find_steps(series, MonitorOptions(), model=model), series, cube)}
            if captioner is not None:
                values, _ = cube.read(Window(0, 0, cube.grid.width, cube.grid.height))
                outlines = _pair_outlines(series, captioner)
                found[STEP] = plain_steps(values, months)
                found[PAIR] = two_dates(values, months)
                # As events of the month of the later scene.
                found[MEDIUM] = [Reported(mask_of(one, cube), months[-1]) for one in outlines]
            size = (cube.grid.height, cube.grid.width)
        for name in names:
            scores[name].add(true, found[name], months, size)
        report_progress(progress, "places", number, len(truth))
    return StackResult(scores, len(truth), held_out)


def _reported(events: list[FoundEvent], series: Series, cube: SeriesCube) -> list[Reported]:
    """Return the events that a monitor confirms by default."""
    dates = {scene.name: scene.date.text for scene in series.scenes}
    reported = []
    for event in events:
        history = history_of(event.sightings, dates, MonitorOptions().confirm)
        if history.state in ("confirmed", "ended") and history.first_seen is not None:
            gone = None if history.ended_on is None else month_of(history.ended_on)
            reported.append(Reported(mask_of(event.geometry, cube), month_of(history.first_seen), gone))
    return reported


def _pair_outlines(series: Series, captioner: Any) -> list[Any]:
    from workflows.scene.caption import caption

    first, last = series.scenes[0], series.scenes[-1]
    with warnings.catch_warnings():
        # The model is not meant for more than 35 m per pixel, some series have more; it says so for each.
        warnings.simplefilter("ignore", UserWarning)
        report = caption(first.info.path, last.info.path, captioner=captioner, force=True, normalize=True)
    return [change.geometry for change in report.changes]
