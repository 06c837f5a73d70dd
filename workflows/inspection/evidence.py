"""What the facts of a reported change rest on: every answer of the model's fact heads, stated or not."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Any

from rscc.model_folder import ModelCard, available_models
from rscc.text.sentences import map_name
from tiling import NoOverlap, ScenePair, locate
from workflows.inspection.event import ReportedEvent, in_pixels
from workflows.options import ServerOptions
from workflows.scene.crops import clipped
from workflows.scene.facts import fact_answers, roads_near
from workflows.scene.run import SceneRun
from workflows.texts import shown

if TYPE_CHECKING:
    from rscc.captioner import Captioner
    from rscc.inference.roads import RoadEvidence


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
class ExplainedEvent:
    """A reported change and what its facts rest on.

    Attributes:
        scenes: names of the scenes before and after.
        answers: of the fact heads; None where there are none.
        reason: why there are none.
        model: name and version of what answered.
        warnings: what makes the answers doubtful, one line each.
    """

    event: ReportedEvent
    scenes: tuple[str, str]
    answers: tuple[Answer, ...] | None = None
    reason: str | None = None
    model: str | None = None
    warnings: tuple[str, ...] = ()

    def as_dict(self) -> dict[str, Any]:
        """Return plain values: the attributes of the change, and its evidence."""
        return {
            "report": str(self.event.report),
            **self.event.change.properties(),
            "scenes": list(self.scenes),
            "evidence": self.answers and [answer.as_dict() for answer in self.answers],
            "evidence_model": self.model,
            "no_evidence": self.reason,
        }


def shipped_model(event: ReportedEvent) -> str | None:
    """Return the name of the model that made a report; None where it does not come with this installation.

    Since a report may come from anybody, it may name a shipped model, but no folder of weights.
    """
    name = event.record["model"].get("name")
    return next((card.name for card in available_models() if card.name == name), None)


def explain_event(
    event: ReportedEvent,
    captioner: Captioner | None,
    scenes: tuple[str, str] | None = None,
    servers: ServerOptions | None = None,
) -> ExplainedEvent:
    """Ask a model what the facts of a reported change rest on.

    Args:
        captioner: the model that made the report; None where that cannot be had.
        scenes: before and after; None takes those that the report names.
        servers: which may be asked; None: any for ``scenes``, those of the public network for the report's.

    Raises:
        TilingError: a scene cannot be read, or the change does not lie on the ground that both show.
        TooCoarse: a scene is coarser than the model is meant for, and the report was not forced.
        ReportInvalid: the report is damaged where it says which scenes were read, and how.
        OptionInvalid: the scenes are swapped.
    """
    before, after = scenes or event.scenes()
    event.check_order((before, after))
    if servers is None:
        servers = ServerOptions(allow_hosts=() if scenes is None else None)
    names = (locate(before).shown, locate(after).shown)
    if captioner is None:
        reason = "the model of the report does not come with this rscc; give its folder with --model"
        return ExplainedEvent(event, names, reason=reason)
    card, facts = captioner.card, getattr(captioner, "facts", None)
    if facts is None:
        return ExplainedEvent(event, names, reason=f"{card.name} {card.version} has no fact heads")
    options = replace(event.options(), offline=servers.offline, allow_hosts=servers.allow_hosts)
    with SceneRun.open(before, after, captioner, options) as run:
        grid = run.pair.grid
        outline = clipped(in_pixels([event.change.geometry], run.pair)[0], (0, 0, grid.width, grid.height))
        if outline.is_empty:
            raise NoOverlap(
                f"{shown(event.report)}: change {event.change.id} does not lie on the ground that {names[0]} "
                f"and {names[1]} both show; give BEFORE and AFTER of this report"
            )
        ((logits, covers),) = fact_answers(run, [outline], in_pixels(event.others(), run.pair))
        (roads,) = roads_near(run, [outline])
        warnings = (*_other_model(event, card), *_other_grid(event, run.pair))
    rules = facts.rules.on_maps()
    values = rules.probabilities(logits, known=event.change.outline_of == "change")
    learnt = zip(values.items(), rules.sure, rules.slopes, strict=True)
    answers = tuple(
        _answer(event, answer, value, least if slope else None) for (answer, value), least, slope in learnt
    )
    answers += _covered(event, covers)
    if roads is not None and event.change.outline_of != "road":
        answers += _found_roads(event, roads)
    return ExplainedEvent(event, names, answers, None, f"{card.name} {card.version}", warnings)


def _found_roads(event: ReportedEvent, roads: RoadEvidence) -> tuple[Answer, Answer]:
    from rscc.inference.roads import BESIDE, NEW

    return (
        Answer("near", "road", roads.standing, BESIDE, None),
        Answer("new near", "road", roads.new, NEW, "road" in event.change.came),
    )


def _covered(event: ReportedEvent, covers: Mapping[str, float]) -> tuple[Answer, ...]:
    from rscc.inference.fact_heads import COVERED

    words = {map_name(name): share for name, share in covers.items() if share > 0}
    return tuple(
        Answer("covered", word, share, COVERED, word in event.change.before_cover)
        for word, share in words.items()
    )


def _answer(event: ReportedEvent, answer: str, value: float, least: float | None) -> Answer:
    kind, _, name = answer.partition(" ")
    word = map_name(name)
    named = {"came": event.change.came, "gone": event.change.gone}.get(kind)
    return Answer(kind, word, value, least, None if named is None else word in named)


def _other_model(event: ReportedEvent, card: ModelCard) -> list[str]:
    recorded = event.record["model"]
    names = ("weights_sha256", "facts_sha256")
    if all(recorded.get(name) in (None, getattr(card, name, None)) for name in names):
        return []
    return [
        f"{shown(event.report)}: it was made by other weights than those of {card.name} {card.version}; the "
        "evidence is that of the latter"
    ]


def _other_grid(event: ReportedEvent, pair: ScenePair) -> list[str]:
    recorded, grid = event.record["tiling"], pair.grid
    if (recorded.get("width"), recorded.get("height")) == (grid.width, grid.height):
        return []
    return [
        f"{shown(event.report)}: the scenes share {grid.width} x {grid.height} pixels, other ones than when "
        "it was made; the evidence is that of the scenes as they are"
    ]
