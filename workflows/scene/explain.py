"""What the facts of a reported change rest on: every answer of the model's fact heads, stated or not."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import rasterio
from shapely.geometry import Point, box

from rscc.facts.rules import COVERED
from rscc.model_folder import ModelCard, available_models
from rscc.text.map_sentences import map_name
from tiling import NoOverlap, Window
from workflows.errors import NoChangeThere
from workflows.options import ExplainOptions
from workflows.printable import printable
from workflows.progress import Progress
from workflows.report.change import GIVEN, SEEN, Change
from workflows.report.record import of_scenes
from workflows.report.report import Report
from workflows.report.scenes import in_pixels, read_scenes
from workflows.scene.evidence import evidence_of
from workflows.scene.group import group
from workflows.scene.maps import ChangeMaps
from workflows.scene.opening import OpenPair, margin_of, open_pair, tile_grid
from workflows.scene.pictures.explain import pixel_of
from workflows.scene.pixels import clipped, window_around
from workflows.scene.remake import maps_of_report
from workflows.scene.result import changes_of
from workflows.scene.run import described, detected
from workflows.scenes import Scene

if TYPE_CHECKING:
    from rscc.captioner import Captioner


@dataclass(frozen=True)
class Answer:
    """What the heads say to one question.

    Attributes:
        kind: ``came``, ``gone`` or ``around`` (it stands there, whether or not it changed); ``covered`` of
            what was on the ground of the outlines before; ``near`` and ``new near`` of what is found beside
            the change, without which it is not stated.
        name: the object class.
        probability: calibrated, 0..1, given that something changed; of ``covered`` the share of the ground.
        least: the probability from which it is stated; None where it is never stated, since there was too
            little to learn it from.
        stated: whether the report states it; None where a report has no attribute for it.
    """

    kind: str
    name: str
    probability: float
    least: float | None
    stated: bool | None

    def as_dict(self) -> dict[str, Any]:
        """Return plain values, the probability with 4 decimals; None of what too little was learnt from."""
        known = self.least is not None
        return {**asdict(self), "probability": round(self.probability, 4) if known else None}


@dataclass(frozen=True)
class ExplainedChange:
    """A reported change and what its facts rest on.

    Attributes:
        answers: of the fact heads; None where there are none.
        reason: why there are none.
        warnings: what makes the answers doubtful, one line each.
    """

    report: Report
    change: Change
    answers: tuple[Answer, ...] | None = None
    reason: str | None = None
    model: str | None = None
    warnings: tuple[str, ...] = ()

    def as_dict(self) -> dict[str, Any]:
        """Return plain values: the attributes of the change, and its evidence."""
        return {
            "report": None if self.report.path is None else str(self.report.path),
            **self.change.properties(),
            "scenes": list(of_scenes(self.report.run, "path").values()),
            "evidence": self.answers and [answer.as_dict() for answer in self.answers],
            "evidence_model": self.model,
            "no_evidence": self.reason,
        }


def shipped_model(report: Report) -> str | None:
    """Return the name of the model that made a report; None where it does not come with this installation.

    Since a report may come from anybody, it may name a shipped model, but no folder of weights.
    """
    name = report.run["model"].get("name")
    return next((card.name for card in available_models() if card.name == name), None)


def explain_change(
    report: Report,
    number: int,
    load: Callable[[], Captioner | None] | None = None,
    *,
    maps: Path | None = None,
) -> ExplainedChange:
    """Return what the sentence of a reported change rests on; the sentence stays that of the report.

    The evidence is in the maps of the report. Without maps the ground around the change is detected again,
    in the scenes that the report has or names.

    Args:
        load: loads the model of the report, if it is needed; None: it cannot be had.
        maps: the folder of the maps; None: where the report says, or beside the report.

    Raises:
        OptionInvalid: the report has no such change, or the scenes are swapped.
        TilingError: a scene cannot be read, or the change does not lie on the ground that both show.
    """
    change = report.change(number)
    if change.not_judged is not None:
        return ExplainedChange(report, change, reason=f"it is not judged: {change.not_judged}")
    kept = maps_of_report(report, maps)
    if kept is not None:
        with closing(kept):
            if kept.rules is None:
                return ExplainedChange(report, change, reason="its model has no fact heads")
            model = kept.about["model"]
            name = f"{model['name']} {model['version']}"
            return ExplainedChange(report, change, evidence_in(report, change, kept), None, name)
    captioner = None if load is None else load()
    if captioner is None:
        reason = "the model of the report does not come with this rscc; give its folder with --model"
        return ExplainedChange(report, change, reason=reason)
    card = captioner.card
    if getattr(captioner, "facts", None) is None:
        return ExplainedChange(report, change, reason=f"{card.name} {card.version} has no fact heads")
    with _detected(report, change, captioner) as (opened, found):
        answers = evidence_in(report, change, found)
        warnings = tuple(_doubts(report, card, opened))
    return ExplainedChange(report, change, answers, None, f"{card.name} {card.version}", warnings)


@contextmanager
def _detected(report: Report, change: Change, captioner: Captioner) -> Iterator[tuple[OpenPair, ChangeMaps]]:
    """Detect the ground around a change again; yield the pair and its maps."""
    infos, options = read_scenes(report)
    with open_pair(*infos, captioner.card, options) as opened:
        grid = opened.pair.grid
        outline = clipped(in_pixels([change.geometry], opened.frame)[0], (0, 0, grid.width, grid.height))
        if outline.is_empty:
            before, after = infos
            raise NoOverlap(
                f"{printable(report.source)}: change {change.id} does not lie on the ground that "
                f"{before.path} and {after.path} both show; give BEFORE and AFTER of this report"
            )
        around = window_around(outline, margin_of(captioner.card))
        opened = replace(opened, grid=tile_grid(opened.frame, captioner.card, options, around))
        with detected(opened, captioner) as (maps, _, _):
            yield opened, maps


def evidence_in(report: Report, change: Change, maps: ChangeMaps) -> tuple[Answer, ...]:
    """Return every answer of the fact heads about a change."""
    from rscc.facts.road_head import BESIDE, NEW

    rules = maps.rules
    assert rules is not None
    own, *others = (
        clipped(outline, maps.area.bounds)
        for outline in in_pixels(
            [change.geometry, *(one.geometry for one in report.changes if one.id != change.id)], maps.frame
        )
    )
    if own.is_empty:
        raise NoOverlap(f"{printable(report.source)}: change {change.id} does not lie on its maps")
    outlines = [own, *(outline for outline in others if not outline.is_empty)]
    is_seen = change.outline_of == "change" or (change.supported or 0.0) >= SEEN
    is_bare = change.outline_of == GIVEN and not is_seen
    (found,) = evidence_of(outlines, maps, [0], with_roads=True, bare=[0] if is_bare else ())
    values = rules.probabilities(found.logits, known=is_seen)
    learnt = zip(values.items(), rules.sure, rules.slopes, strict=True)
    answers = [
        _answer(change, answer, value, least if slope else None) for (answer, value), least, slope in learnt
    ]
    covers = {map_name(name): share for name, share in found.covers.items() if share > 0}
    answers += [
        Answer("covered", word, share, COVERED, word in change.before_cover) for word, share in covers.items()
    ]
    if found.roads is not None and change.outline_of != "road":
        answers.append(Answer("near", "road", found.roads.standing, BESIDE, None))
        answers.append(Answer("new near", "road", found.roads.new, NEW, "road" in change.came))
    return tuple(answers)


def _answer(change: Change, answer: str, value: float, least: float | None) -> Answer:
    kind, _, name = answer.partition(" ")
    word = map_name(name)
    named = {"came": change.came, "gone": change.gone}.get(kind)
    return Answer(kind, word, value, least, None if named is None else word in named)


def _doubts(report: Report, card: ModelCard, opened: OpenPair) -> Iterator[str]:
    """Yield how the evidence is of something else than the report was made of."""
    name, grid, recorded = printable(report.source), opened.pair.grid, report.run
    weights = ("weights_sha256", "facts_sha256")
    if any(recorded["model"].get(one) not in (None, getattr(card, one, None)) for one in weights):
        yield (
            f"{name}: made by other weights than those of {card.name} {card.version}; the evidence is that "
            "of the latter"
        )
    if [recorded["tiling"].get(one) for one in ("width", "height")] != [grid.width, grid.height]:
        yield (
            f"{name}: the scenes share {grid.width} x {grid.height} pixels, others than when it was made; "
            "the evidence is that of the scenes as they are"
        )


_REACH = 1024
"""Pixels around the place that are processed first; four times as many while a change reaches their edge."""
_NEAR = 8
"""Pixels from a place up to which a change is meant: people point beside small outlines."""


def explain_place(
    before: Scene,
    after: Scene,
    captioner: Captioner,
    options: ExplainOptions,
    progress: Progress | None = None,
) -> ExplainedChange:
    """Return the change at the place of ``options``, and what its sentence rests on.

    Only the ground around the place is processed; stretch, offset and grid are those of the whole pair, so
    that a report of the scenes has the same change in the same words.

    Raises:
        NoChangeThere: nothing changed at the place.
    """
    reach = _REACH
    with rasterio.Env(), open_pair(before, after, captioner.card, options) as opened:
        col, row, words = pixel_of(opened.pair, options)
        whole = Window(0, 0, opened.pair.grid.width, opened.pair.grid.height)
        while True:
            area = window_around(Point(col, row).buffer(1), reach).intersection(whole)
            explained, is_cut = _explained(opened, captioner, area, Point(col, row), progress)
            if not is_cut or area == whole:
                break
            reach *= 4
    if explained is None:
        raise NoChangeThere(f"{opened.infos[1].path}: no change was found at {words}")
    return replace(explained, warnings=tuple(opened.warnings))


def _explained(
    opened: OpenPair, captioner: Captioner, area: Window, place: Point, progress: Progress | None
) -> tuple[ExplainedChange | None, bool]:
    """Return the change at a place, as far as it lies in an area, and whether it reaches its edge."""
    grid = tile_grid(opened.frame, captioner.card, opened.options, area)
    opened = replace(opened, grid=grid)
    with detected(opened, captioner, progress) as (maps, regions, network):
        changes = group(regions, maps, opened.options)
        captions, _ = described(changes, opened, maps, network, None)
        record = opened.record()
        made = changes_of(changes.found, captions, opened.ground, record, opened.options)
        report = Report(made, record, scenes=opened.infos)
        outlines = in_pixels([change.geometry for change in made], maps.frame) if made else []
        near = [(outline.distance(place), number) for number, outline in enumerate(outlines)]
        distance, number = min(near, default=(_NEAR + 1, 0))
        if distance > _NEAR:
            return None, False
        inner = box(*area.expanded(-1).bounds)
        is_cut = not inner.contains(outlines[number])
        if maps.rules is None:
            return ExplainedChange(report, made[number], reason="its model has no fact heads"), is_cut
        card = captioner.card
        answers = evidence_in(report, made[number], maps)
        return ExplainedChange(report, made[number], answers, None, f"{card.name} {card.version}"), is_cut
