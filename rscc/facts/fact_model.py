"""The fact heads of a model folder with their rules, road head and phrasing; captions of pictures by them."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch

from rscc.facts.answers import ANSWERS, AROUND
from rscc.facts.grounded_captions import (
    GroundedCaption,
    counted,
    grounded_caption,
    measurements,
    picture_place,
    stated_logits,
)
from rscc.facts.heads import FactHeads
from rscc.facts.road_head import RoadEvidence, RoadHead
from rscc.facts.rules import FactRules
from rscc.files import parsed_json, read_file
from rscc.text.change_facts import ChangeFacts, is_large
from rscc.text.phrasing import Phrasing
from rscc.text.picture_sentences import picture_sentences
from rscc.weights import built_for, load_weights, save_weights, stored_elements

WEIGHTS, RULES = "facts.safetensors", "facts.json"
"""Files of a model folder with fact heads."""


@dataclass(frozen=True)
class FactModel:
    """Everything besides the captioner that finds facts and chooses words.

    Attributes:
        phrasing: expected words of people, which rank the sentences; None keeps the order of the grammar.
        roads: on the same trunk; roads that it does not find are not stated. None without training data for
            it: then the fact heads alone decide.
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
            logits, closer: (len(ANSWERS),), see :func:`~rscc.facts.grounded_captions.stated_logits`.
            mask: (H, W) bool, the changed pixels.
            gsd: metres per pixel of the mask.
            roads: evidence of roads in the picture; None without a road head.
            lone: see :func:`rscc.facts.lone_changes.lone_answers`, of a picture without other changes: these
                are stated whatever the logits of the whole picture are, and need no changed building.
        """
        outlines, sizes = counted(mask)
        facts = self._picture_facts(stated_logits(logits, closer), roads, lone or {})
        if "building" in facts.came or "building" in facts.gone:
            areas = sizes * gsd**2
            large = len(sizes) > 0 and is_large(*map(float, (areas.sum(), areas.max(), np.median(areas))))
            facts = replace(facts, count=max(1, len(sizes)), size="building" if large else "house")
        facts = replace(facts, place=picture_place(outlines))
        prefer = None
        if self.phrasing is not None:
            expected = self.phrasing.expected(measurements(logits, outlines, len(sizes)))
            prefer = partial(self.phrasing.scores, expected=expected)
        return grounded_caption(picture_sentences(facts, prefer), facts, probability)

    def _picture_facts(
        self, logits: np.ndarray, roads: RoadEvidence | None, lone: Mapping[str, float]
    ) -> ChangeFacts:
        absent = frozenset[str]() if roads is None else roads.absent - lone.keys()
        for name, logit in lone.items():
            number = ANSWERS.index(name)
            logits[number] = max(logits[number], logit)
        return self.rules.facts(logits, known=not lone, absent=absent)

    def to(self, device: torch.device) -> None:
        """Move the heads to a device."""
        self.heads.to(device)
        if self.roads is not None:
            self.roads.to(device)

    def save(self, folder: Path) -> None:
        """Write the files into a folder."""
        state = _prefixed("heads.", self.heads)
        content: dict[str, Any] = {"rules": asdict(self.rules), "sizes": self.heads.sizes, "phrasing": None}
        if self.phrasing is not None:
            for name in ("weights", "mean", "scale"):
                state[f"phrasing.{name}"] = torch.from_numpy(getattr(self.phrasing, name)).float()
            state["phrasing.weights"] = state["phrasing.weights"].half()
            content["phrasing"] = {"rarity": self.phrasing.rarity, "unseen": self.phrasing.unseen}
        if self.roads is not None:
            state |= _prefixed("roads.", self.roads)
            content["roads"] = self.roads.stored
        save_weights(state, folder / WEIGHTS)
        (folder / RULES).write_text(json.dumps(content) + "\n", encoding="utf-8")

    @classmethod
    def load(cls, folder: Path) -> FactModel:
        """Read the files of a folder."""
        content = parsed_json(read_file(folder / RULES))
        state = load_weights(folder / WEIGHTS)
        with built_for(stored_elements(folder / WEIGHTS)):
            heads = FactHeads(**content["sizes"])
            roads = RoadHead(**content["roads"]) if content.get("roads") else None
        heads.load_state_dict(_part(state, "heads."))
        if roads is not None:
            roads.load_state_dict(_part(state, "roads."))
            roads.eval()
        phrasing = None
        if content["phrasing"] is not None:
            phrasing = _read_phrasing(content["phrasing"], _part(state, "phrasing."))
        return cls(heads.eval(), _read_rules(content["rules"]), phrasing, roads)


def _read_rules(stored: dict[str, Any]) -> FactRules:
    slopes, offsets, sure = (tuple(map(float, stored[name])) for name in ("slopes", "offsets", "sure"))
    around = tuple(tuple(map(float, row)) for row in stored.get("around", ()))
    if not len(slopes) == len(offsets) == len(sure) == len(ANSWERS):
        raise ValueError(f"{RULES}: needs {len(ANSWERS)} rules")
    if around and np.shape(around) != (len(AROUND), len(AROUND) + 1):
        raise ValueError(f"{RULES}: around needs {len(AROUND)} rows of {len(AROUND) + 1}")
    if not (np.isfinite([slopes, offsets, sure]).all() and np.isfinite(around).all()):
        raise ValueError(f"{RULES}: its slopes, offsets, sure and around must be finite numbers")
    return FactRules(slopes, offsets, sure, stored["scores"], around)


def _read_phrasing(stored: dict[str, Any], state: dict[str, torch.Tensor]) -> Phrasing:
    arrays = {name: value.float().numpy() for name, value in state.items()}
    rarity = {gram: float(value) for gram, value in stored["rarity"].items()}
    phrasing = Phrasing(rarity, float(stored["unseen"]), **arrays)
    if arrays["weights"].shape != (len(arrays["mean"]) + 1, len(phrasing.rarity)):
        raise ValueError(f"{WEIGHTS}: the phrasing does not fit {RULES}")
    return phrasing


def _prefixed(prefix: str, module: torch.nn.Module) -> dict[str, torch.Tensor]:
    return {f"{prefix}{name}": value.contiguous() for name, value in module.state_dict().items()}


def _part(state: dict[str, torch.Tensor], prefix: str) -> dict[str, torch.Tensor]:
    return {name.removeprefix(prefix): value for name, value in state.items() if name.startswith(prefix)}
