"""The public face for inference: a model folder, and arrays in, words and probabilities out."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import torch

from rscc.devices import fast_bf16, fast_int8, pick_device
from rscc.inference.calibration import FlagCalibration, changed_probability
from rscc.inference.checks import check_finite, check_pairs
from rscc.inference.explanations import Explanation, explain_features
from rscc.inference.fact_heads import ANSWERS, region_logits
from rscc.inference.localisers import LOCALISERS, ChangeHeadLocaliser, Localiser
from rscc.inference.lone_changes import lone_answers, surest
from rscc.inference.roads import picture_roads, road_logits
from rscc.model_folder import (
    ModelCard,
    ModelFolder,
    find_model,
    load_facts,
    load_model,
    open_model_folder,
    use_int8,
)
from rscc.models.shared.backbone import fold_norms
from rscc.models.shared.blocks import enlarge_maps
from rscc.models.shared.captioner import ChangeCaptioner
from rscc.shipped import DEFAULT_MODEL
from rscc.structures import NO_CHANGE_CAPTION, Caption, ChangePrediction, DifferenceFeatures
from rscc.text.no_change import is_no_change
from rscc.text.statements import PLACE_WORDS, without_place

# The trunk's last maps of both dates, (B, C, h, w) each.
Maps = tuple[torch.Tensor, torch.Tensor]
# What the heads tell of pairs, see Captioner.survey, and the changes of each that only they know of.
Told = tuple[torch.Tensor, list[dict[str, float]]]


class Captioner:
    """Captions pairs of images and finds their changed pixels.

    Whatever is asked of it, :class:`~rscc.errors.NonFiniteOutput` is raised where the network answers NaN or
    infinity: no threshold is below these, so they would be taken for "no change".

    Attributes:
        card: what the model says of itself.
        device: where it runs.
        bf16: whether it computes in bfloat16, which it does where the hardware is fast at it.
        int8: whether trunk and change head compute in 8-bit integers, see :mod:`rscc.inference.int8`.
        facts: what it tells facts by, which its sentences are then made of; None where the model has none, or
            its decoder is to speak for itself.
    """

    def __init__(
        self,
        model: ChangeCaptioner,
        folder: ModelFolder,
        *,
        device: str = "auto",
        ground: bool = True,
        int8: bool = True,
    ):
        self.card: ModelCard = folder.card
        self.device = pick_device(device)
        self._model = model.to(self.device).eval()
        fold_norms(self._model.backbone)
        self.int8 = int8 and bool(self.card.ranges) and fast_int8(self.device)
        if self.int8:
            use_int8(folder, self._model)
        self._rules = model.search_rules(folder.no_change_prefixes, folder.no_change_runs)
        self._place_words = [i for i, word in enumerate(model.vocabulary.words) if word in PLACE_WORDS]
        self.bf16 = fast_bf16(self.device)
        self.facts = load_facts(folder) if ground else None
        if self.facts is not None:
            for module in filter(None, (self.facts.heads, self.facts.roads)):
                module.to(self.device)

    @classmethod
    def load(
        cls,
        model: str | Path = DEFAULT_MODEL,
        *,
        device: str = "auto",
        ground: bool = True,
        int8: bool = True,
    ) -> Captioner:
        """Load a shipped model by name, or a model folder.

        Args:
            model: name or folder.
            device: ``auto`` (a GPU when there is one), ``cpu``, ``cuda``, ``cuda:1``, ``mps``.
            ground: make sentences of measured facts where the model tells them.
            int8: let trunk and change head compute in 8-bit integers, in a third of the time, where the card
                and the processor allow it; see :mod:`rscc.inference.int8`.

        Raises:
            ModelNotFound: no such name or folder.
            ModelFolderInvalid: the folder is incomplete or damaged.
            DeviceUnavailable: this machine has no such device.
        """
        folder = open_model_folder(find_model(model), check_hashes=True)
        return cls(load_model(folder), folder, device=device, ground=ground, int8=int8)

    def search(self, before: np.ndarray, after: np.ndarray) -> np.ndarray:
        """Find changed pixels by as little of the network as does: the trunk and the change head, if trained.

        Args:
            before, after: (B, 3, H, W) uint8 RGB, H and W multiples of the card's ``position_size``.

        Returns:
            (B, H, W) float32 in 0..1, the ``change_probability`` of :meth:`predict_change`.

        Raises:
            ValueError: the images are not as said here.
        """
        with self._inference():
            return self._maps(before, after)[1]

    def survey(self, before: np.ndarray, after: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Find changed pixels as :meth:`search` does, and ask the fact heads of every position.

        Args:
            before, after: (B, 3, H, W) uint8 RGB, H and W multiples of the card's ``position_size``.

        Returns:
            (B, H, W) float32 in 0..1, and the heads' logits (B, len(ANSWERS), h, w) float16 on the grid of
            the model's positions; :mod:`rscc.inference.fact_heads` says how those of a region are one. Where
            the model tells roads, those of :mod:`rscc.inference.roads` follow, CHANNELS of them.

        Raises:
            ValueError: the images are not as said here, or there are no :attr:`facts`.
        """
        if self.facts is None:
            raise ValueError(
                f"{self.card.name}: it tells no facts, or was loaded with ground=False; search() needs none"
            )
        with self._inference():
            maps, probability = self._maps(before, after)
            change = torch.from_numpy(probability).to(self.device)
            answers = self._told(maps, change)
        return probability, answers.half().cpu().numpy()

    def predict_change(self, before: np.ndarray, after: np.ndarray) -> ChangePrediction:
        """Find changed pixels.

        Args:
            before, after: (B, 3, H, W) uint8 RGB, H and W multiples of the card's ``position_size``.

        Returns:
            Change probability per pixel and P(anything changed) per pair. Where the card's ``localiser`` is
            not the change head, the former only ranks pixels, see :mod:`rscc.inference.localisers`. With
            :attr:`facts` the latter is that of a new road or a clearing where nothing else tells of a change,
            see :mod:`rscc.inference.lone_changes`.

        Raises:
            ValueError: the images are not as said here.
        """
        with self._inference():
            features = self._encode(before, after)
            prediction = self._find(features)
            return prediction if self.facts is None else self._ask(features, prediction)[0]

    def caption(
        self,
        before: np.ndarray,
        after: np.ndarray,
        *,
        beams: int = 3,
        assume_changed: bool = False,
        placeless: bool = False,
        focus: np.ndarray | None = None,
        ground: bool = True,
    ) -> list[Caption]:
        """Describe what changed.

        Args:
            before, after: (B, 3, H, W) uint8 RGB, H and W multiples of the card's ``position_size``.
            beams: width of the beam search, 1 or more; its other sentences become the alternatives.
            assume_changed: the caller knows that something changed; no "no change" sentence is given.
            placeless: where in the pictures something is does not matter, as in crops around what changed:
                it is left out at the end of sentences, and those that still have
                :data:`~rscc.text.statements.PLACE_WORDS` are passed over where the search finds others.
            focus: (B, h, w) in 0..1 of any grid, how much of what changed there is to be described: where it
                is 0 the model is shown no difference. It is averaged over positions. None describes all.
            ground: make sentences of facts where the model tells them; else its decoder speaks for itself.

        Returns:
            One caption per pair. A pair whose P(anything changed) is below the card's threshold gets the
            fixed "no change" sentence, scored with 1 - P. A model whose threshold is 0 never learnt that
            probability: its decoder says in its own words when nothing changed.
            The score of another sentence is P(changed), which is 1 when the caller knows, times the
            probability that it is a good sentence for a change; see :mod:`rscc.inference.calibration`.
            With :attr:`facts` the sentences state facts only, ``beams``, ``placeless`` and ``focus`` have no
            part in them, and the captions are :class:`~rscc.inference.facts.GroundedCaption`.

        Raises:
            ValueError: the images, ``beams`` or ``focus`` are not as said here.
        """
        with self._inference():
            if ground and self.facts is not None:
                features = self._encode(before, after)
                return self._ground(*self._ask(features, self._find(features)), assume_changed)
            head = not assume_changed and self._flag is not None and self._flag.reads_evidence
            features = self._encode(before, after, head=head, focus=focus)
            return self._say(features, beams, assume_changed, placeless=placeless)

    def describe(
        self, before: np.ndarray, after: np.ndarray, *, beams: int = 3, assume_changed: bool = False
    ) -> tuple[ChangePrediction, list[Caption]]:
        """Find changed pixels and describe what changed, in one pass through the trunk.

        Arguments, values and errors are those of :meth:`predict_change` and :meth:`caption`.
        """
        with self._inference():
            features = self._encode(before, after)
            prediction = self._find(features)
            if self.facts is not None:
                prediction, told = self._ask(features, prediction)
                return prediction, self._ground(prediction, told, assume_changed)
            return prediction, self._say(features, beams, assume_changed)

    def say(
        self, features: DifferenceFeatures, *, beams: int = 3, assume_changed: bool = False
    ) -> list[Caption]:
        """Describe what changed as :meth:`caption` does, from pairs that this captioner's model encoded.

        They must be encoded with the change head's logits where P(changed) is calibrated with them.
        """
        with self._inference():
            return self._say(features, beams, assume_changed)

    def explain(
        self, before: np.ndarray, after: np.ndarray, *, beams: int = 3, assume_changed: bool = False
    ) -> Explanation:
        """Describe one pair by the decoder, as with ``ground=False``; show where its words look and rest on.

        Args:
            before, after: (3, H, W) uint8 RGB, H and W multiples of the card's ``position_size``.
            beams, assume_changed: see :meth:`caption`, also for errors.
        """
        with self._inference():
            features = self._encode(before[None], after[None])
            prediction = self._find(features)
            (caption,) = self._say(features, beams, assume_changed)
            return explain_features(
                self._model,
                features,
                caption,
                changed_probability=float(prediction.changed_probability[0]),
                change=prediction.change_probability[0],
            )

    def _encode(
        self, before: np.ndarray, after: np.ndarray, *, head: bool = True, focus: np.ndarray | None = None
    ) -> DifferenceFeatures:
        """Encode pairs; ``head``: with what finding the changed pixels needs."""
        check_pairs(before, after, self.card.position_size, focus)
        features = self._model.encode(
            self._tensor(before),
            self._tensor(after),
            head=head and self._localiser.needs_head,
            focus=None if focus is None else self._tensor(focus.astype(np.float32)),
        )
        check_finite(self.card.name, features.tokens, features.changed_logits, features.change_logits)
        return features

    def _maps(self, before: np.ndarray, after: np.ndarray) -> tuple[Maps, np.ndarray]:
        """Return the trunk's last maps of both dates and the change probability, as :meth:`search` does."""
        if not isinstance(self._localiser, ChangeHeadLocaliser):
            features = self._encode(before, after)
            pair = features.pair
            return (pair.maps_before, pair.maps_after), self._find(features).change_probability
        check_pairs(before, after, self.card.position_size)
        # One date after the other: together they would hold twice the memory at a time.
        trunk = [self._model.backbone(self._tensor(date)) for date in (before, after)]
        logits = self._model.change_head(*trunk)
        check_finite(self.card.name, logits)
        change = enlarge_maps(logits, before.shape[-2:]).sigmoid()
        first, second = (self._model.pooled(maps[-1]) for maps in trunk)
        return (first, second), change.cpu().numpy()

    def _find(self, features: DifferenceFeatures) -> ChangePrediction:
        images = features.pair.images
        assert images is not None
        maps = self._localiser.maps(self._model, features, (images[0].shape[-2], images[0].shape[-1]))
        changed = changed_probability(features, self._flag)
        check_finite(self.card.name, maps, changed)
        return ChangePrediction(maps.cpu().numpy(), changed.cpu().numpy())

    def _ask(self, features: DifferenceFeatures, found: ChangePrediction) -> tuple[ChangePrediction, Told]:
        """Ask the heads, and take what only they know of for a change where nothing else tells of one."""
        assert self.facts is not None, "the model tells no facts"
        maps, change = (features.pair.maps_before, features.pair.maps_after), found.change_probability
        answers = self._told(maps, torch.from_numpy(change).to(self.device))
        rules, metres = self.facts.rules.on_maps(), self.card.gsd * change.shape[-1] / answers.shape[-1]
        probability, lone = found.changed_probability.copy(), [dict[str, float]() for _ in answers]
        for number in np.flatnonzero(probability < self.card.changed_threshold):
            lone[number] = lone_answers(answers[number].cpu().numpy(), rules, metres)
            probability[number] = max(probability[number], surest(lone[number], rules))
        return ChangePrediction(change, probability), (answers, lone)

    def _told(self, maps: Maps, change: torch.Tensor) -> torch.Tensor:
        """Return the logits of the heads for every position, (B, K, h, w) as :meth:`survey` has them."""
        assert self.facts is not None, "the model tells no facts"
        before, after = (date.float() for date in maps)
        with torch.autocast(self.device.type, enabled=False):
            answers = self.facts.heads.maps(before, after, change)
            if self.facts.roads is not None:
                answers = torch.cat([answers, self.facts.roads.maps(before, after)], 1)
        check_finite(self.card.name, answers)
        return answers

    def _ground(self, prediction: ChangePrediction, told: Told, assume_changed: bool) -> list[Caption]:
        """Describe pairs by facts; one that is not changed gets the fixed sentence."""
        assert self.facts is not None, "the model tells no facts"
        answers, lone = told
        masks = prediction.change_probability >= self.card.threshold
        mask = torch.from_numpy(masks).to(self.device)
        facts, regions = answers[:, : len(ANSWERS)], (torch.ones_like(mask), mask)
        logits, closer = (region_logits(facts, region).cpu().numpy() for region in regions)
        captions: list[Caption] = []
        for number, probability in enumerate(prediction.changed_probability.tolist()):
            if not assume_changed and probability < self.card.changed_threshold:
                captions.append(Caption(text=NO_CHANGE_CAPTION, score=1 - probability, changed=False))
                continue
            roads = road_logits(answers[number].cpu().numpy())
            near = None if roads is None else picture_roads(roads, self.card.gsd * masks.shape[-1])
            seen = (logits[number], closer[number], masks[number], 1.0 if assume_changed else probability)
            found = self.facts.picture_caption(*seen, gsd=self.card.gsd, roads=near, lone=lone[number])
            captions.append(found)
        return captions

    def _say(
        self, features: DifferenceFeatures, beams: int, assume_changed: bool, *, placeless: bool = False
    ) -> list[Caption]:
        if beams < 1:
            raise ValueError(f"beams must be at least 1; got {beams}")
        decides = assume_changed or self.card.changed_threshold > 0
        hypotheses = self._model.generate_from(
            features,
            beams=beams,
            rules=self._rules if decides else None,
            support=self.card.support,
            avoided=self._place_words if placeless else (),
        )
        likelihoods = torch.tensor([ranked[0].score for ranked in hypotheses])
        known = torch.ones_like(likelihoods) if assume_changed else changed_probability(features, self._flag)
        check_finite(self.card.name, likelihoods, known)
        captions = []
        for probability, ranked in zip(known.tolist(), hypotheses, strict=True):
            if not assume_changed and probability < self.card.changed_threshold:
                captions.append(Caption(text=NO_CHANGE_CAPTION, score=1 - probability, changed=False))
                continue
            sentences = [self._model.vocabulary.decode(one.ids) for one in ranked]
            texts = list(dict.fromkeys(map(without_place, sentences) if placeless else sentences))
            changed = decides or not is_no_change(texts[0])
            captions.append(
                Caption(
                    text=texts[0],
                    score=self._score(ranked[0].score, probability) if changed else ranked[0].score,
                    changed=changed,
                    alternatives=tuple(texts[1:]),
                    likelihood=ranked[0].score,
                )
            )
        return captions

    def _score(self, likelihood: float, probability: float) -> float:
        """Score a sentence about a change that there is with ``probability``."""
        calibration = self.card.calibration
        if calibration is None or calibration.score is None:
            return likelihood
        changed = probability if self.card.changed_threshold > 0 else 1.0
        return changed * calibration.score.probability(likelihood)

    @property
    def _flag(self) -> FlagCalibration | None:
        return None if self.card.calibration is None else self.card.calibration.changed

    @property
    def _localiser(self) -> Localiser:
        return LOCALISERS[self.card.localiser](self.card.changed_threshold, self._rules, self._flag)

    def _tensor(self, images: np.ndarray) -> torch.Tensor:
        return torch.from_numpy(np.ascontiguousarray(images)).to(self.device)

    @contextmanager
    def _inference(self) -> Iterator[None]:
        with torch.inference_mode(), torch.autocast(self.device.type, torch.bfloat16, enabled=self.bf16):
            yield


def load_captioner(model: str, device: str) -> Captioner:
    """Load a model by name or folder, as the commands and the workers of an archive do."""
    return Captioner.load(model, device=device)
