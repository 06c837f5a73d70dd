"""From what a model sees of a change to facts and true sentences; arrays and words only.

A pair of a benchmark is one region of one picture; a change on a map may be seen by several crops. Both have
logits of the fact heads (:mod:`rscc.inference.fact_heads`), which become facts here.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from scipy import ndimage

from rscc.files import parsed_json
from rscc.inference.fact_heads import ANSWERS, AROUND, FactHeads, FactRules
from rscc.inference.objects import object_sizes
from rscc.inference.roads import RoadEvidence, RoadHead
from rscc.stored_weights import built_for, stored_elements
from rscc.structures import Caption
from rscc.text.cover_sentences import cover_sentences
from rscc.text.facts import ChangeFacts, is_large
from rscc.text.phrasing import Phrasing
from rscc.text.sentences import doubtful, map_sentences, picture_sentences

SMALLEST = 60
"""Pixels of the model's input that an outline has at least to be counted."""
MOST_COUNTED = 11
OF_BUILDINGS = np.array([name in ("came building", "gone building") for name in ANSWERS])
_ONE_SIDE, _MIDDLE = 0.85, (0.4, 0.6)

WEIGHTS, RULES = "facts.safetensors", "facts.json"
"""Members of a model folder that knows facts."""


@dataclass(frozen=True)
class FactModel:
    """What a model folder holds besides the captioner to tell facts and choose words.

    Attributes:
        heads: on the captioner's trunk.
        rules: from logits to facts.
        phrasing: what people would say; None leaves the order of the grammar.
        roads: on the same trunk; no road is stated that it does not find. None where there was nothing to
            learn it from: then the heads alone decide.
    """

    heads: FactHeads
    rules: FactRules
    phrasing: Phrasing | None = None
    roads: RoadHead | None = None

    def picture_caption(
        self,
        logits: np.ndarray,
        closer: np.ndarray,
        mask: np.ndarray,
        probability: float,
        *,
        gsd: float,
        roads: RoadEvidence | None = None,
        lone: Mapping[str, float] | None = None,
    ) -> GroundedCaption:
        """Return the caption of a pair that changed with ``probability``.

        Args:
            logits, closer: (len(ANSWERS),), see :func:`stated_logits`.
            mask: (H, W) bool, the changed pixels.
            gsd: metres per pixel of the mask.
            roads: that are found in the picture; None where the model finds none by itself.
            lone: see :func:`rscc.inference.lone_changes.lone_answers`, where nothing else tells of a change:
                they are so whatever the picture as a whole says, and need no building that changed.
        """
        lone = lone or {}
        absent = frozenset[str]() if roads is None else roads.absent - lone.keys()
        outlines, sizes = counted(mask)
        count = len(sizes)
        stated = stated_logits(logits, closer)
        for name, logit in lone.items():
            stated[ANSWERS.index(name)] = max(stated[ANSWERS.index(name)], logit)
        facts = self.rules.facts(stated, known=not lone, absent=absent)
        built = "building" in facts.came or "building" in facts.gone
        if built:
            areas = sizes * gsd**2
            large = count > 0 and is_large(*map(float, (areas.sum(), areas.max(), np.median(areas))))
            facts = replace(facts, count=max(1, count), large=large)
        facts = replace(facts, place=picture_place(outlines))
        prefer = None
        if self.phrasing is not None:
            expected = self.phrasing.expected(measurements(logits, outlines, count))
            prefer = partial(self.phrasing.scores, expected=expected)
        return _caption(picture_sentences(facts, prefer), facts, probability)

    def save(self, folder: Path) -> None:
        """Write the members into a folder."""
        from rscc.inference.tensors import save_weights

        state = {f"heads.{name}": value.contiguous() for name, value in self.heads.state_dict().items()}
        content: dict[str, Any] = {"rules": asdict(self.rules), "sizes": self.heads.sizes, "phrasing": None}
        if self.phrasing is not None:
            import torch

            for name in ("weights", "mean", "scale"):
                state[f"phrasing.{name}"] = torch.from_numpy(getattr(self.phrasing, name)).float()
            state["phrasing.weights"] = state["phrasing.weights"].half()
            content["phrasing"] = {"rarity": self.phrasing.rarity, "unseen": self.phrasing.unseen}
        if self.roads is not None:
            state |= {f"roads.{name}": value.contiguous() for name, value in self.roads.state_dict().items()}
            content["roads"] = self.roads.stored
        save_weights(state, folder / WEIGHTS)
        (folder / RULES).write_text(json.dumps(content) + "\n", encoding="utf-8")

    @classmethod
    def load(cls, folder: Path) -> FactModel:
        """Read the members of a folder.

        Raises:
            ModelFolderInvalid: a tensor holds NaN or infinity.
            OSError, ValueError, KeyError, TypeError, RuntimeError, MemoryError, SafetensorError: they are
                damaged, or do not fit each other.
        """
        from rscc.inference.tensors import load_weights

        content = parsed_json((folder / RULES).read_text(encoding="utf-8"))
        state = load_weights(folder / WEIGHTS)
        with built_for(stored_elements(folder / WEIGHTS)):
            heads = FactHeads(**content["sizes"])
            roads = RoadHead(**content["roads"]) if content.get("roads") else None
        heads.load_state_dict(_part(state, "heads."))
        if roads is not None:
            roads.load_state_dict(_part(state, "roads."))
        stored = content["rules"]
        slopes, offsets, sure = (tuple(map(float, stored[name])) for name in ("slopes", "offsets", "sure"))
        around = tuple(tuple(map(float, row)) for row in stored.get("around", ()))
        rules = FactRules(slopes, offsets, sure, stored["scores"], around)
        if not len(rules.slopes) == len(rules.offsets) == len(rules.sure) == len(ANSWERS):
            raise ValueError(f"{RULES}: needs {len(ANSWERS)} rules")
        if around and np.shape(around) != (len(AROUND), len(AROUND) + 1):
            raise ValueError(f"{RULES}: around needs {len(AROUND)} rows of {len(AROUND) + 1}")
        if not (np.isfinite([slopes, offsets, sure]).all() and np.isfinite(around).all()):
            raise ValueError(f"{RULES}: its slopes, offsets, sure and around must be numbers")
        phrasing = None
        if content["phrasing"] is not None:
            arrays = {name: value.float().numpy() for name, value in _part(state, "phrasing.").items()}
            rarity = {gram: float(value) for gram, value in content["phrasing"]["rarity"].items()}
            phrasing = Phrasing(rarity, float(content["phrasing"]["unseen"]), **arrays)
            if arrays["weights"].shape != (len(arrays["mean"]) + 1, len(phrasing.rarity)):
                raise ValueError(f"{WEIGHTS}: the phrasing does not fit {RULES}")
        return cls(heads.eval(), rules, phrasing, None if roads is None else roads.eval())


@dataclass(frozen=True)
class GroundedCaption(Caption):
    """A caption that states facts only.

    Its score is the probability of the facts (:attr:`ChangeFacts.probability`) times that of a change, 0
    where it is not confident; it has no likelihood.

    Attributes:
        facts: what it rests on.
        confident: False where too little is known for words of its own ("something changed").
    """

    facts: ChangeFacts = field(default_factory=ChangeFacts)
    confident: bool = True


def stated_logits(logits: np.ndarray, closer: np.ndarray) -> np.ndarray:
    """Return what the facts of pictures are stated by, (..., len(ANSWERS)).

    Args:
        logits: (..., len(ANSWERS)) of whole pictures.
        closer: the same of their changed pixels alone, by which a small building is known.
    """
    return np.where(OF_BUILDINGS, np.maximum(logits, closer), logits)


def map_caption(facts: ChangeFacts, changed: float = 1.0) -> GroundedCaption:
    """Return the caption of a change on a map, which there is with the probability ``changed``."""
    sentences = map_sentences(facts) if facts.area_m2 is None else cover_sentences(facts)
    return _caption(sentences, facts, changed)


def _caption(sentences: list[str], facts: ChangeFacts, changed: float) -> GroundedCaption:
    return GroundedCaption(
        text=sentences[0],
        score=changed * facts.probability,
        changed=True,
        alternatives=tuple(sentences[1:]),
        facts=facts,
        confident=not doubtful(facts),
    )


def counted(mask: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the outlines of a mask (H, W) that are large enough to count, and the pixels of each object."""
    labels, _ = ndimage.label(mask)
    large = np.bincount(labels.ravel()) >= SMALLEST
    large[0] = False
    outlines: np.ndarray = large[labels]
    return outlines, object_sizes(outlines)


def picture_place(mask: np.ndarray) -> tuple[str, ...]:
    """Return where in the picture nearly all of a mask (H, W) lies; empty where no word holds."""
    total = int(mask.sum())
    if total == 0:
        return ()
    height, width = mask.shape
    top, left = mask[: height // 2].sum() / total, mask[:, : width // 2].sum() / total
    rows, cols = np.nonzero(mask)
    low, high = _MIDDLE
    if low < rows.mean() / height < high and low < cols.mean() / width < high:
        inner = mask[height // 4 : height - height // 4, width // 4 : width - width // 4]
        return ("middle",) if inner.sum() / total > _ONE_SIDE else ()
    vertical = "top" if top > _ONE_SIDE else "bottom" if top < 1 - _ONE_SIDE else ""
    horizontal = "left" if left > _ONE_SIDE else "right" if left < 1 - _ONE_SIDE else ""
    return tuple(word for word in (vertical, horizontal) if word)


def measurements(logits: np.ndarray, outlines: np.ndarray, count: int) -> np.ndarray:
    """Return what a phrasing reads of a change: logits, number, share of the picture, place and spread."""
    number = np.eye(MOST_COUNTED + 1)[min(count, MOST_COUNTED)]
    shape = np.zeros(6)
    if count:
        rows, cols = (
            side / length for side, length in zip(np.nonzero(outlines), outlines.shape, strict=True)
        )
        shape[:] = (rows.mean() - 0.5, cols.mean() - 0.5, rows.std(), cols.std(), len(rows) / count, 0)
        shape[4] = np.log1p(shape[4])
    shape[5] = 5 * outlines.mean()
    return np.concatenate([logits, number, [np.log1p(count)], shape])


def _part(state: dict[str, Any], prefix: str) -> dict[str, Any]:
    return {name.removeprefix(prefix): value for name, value in state.items() if name.startswith(prefix)}
