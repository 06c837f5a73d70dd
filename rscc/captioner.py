"""The public face for inference: a model folder, and arrays in, sentences and probabilities out."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F

from rscc.devices import fast_bf16, fast_int8, pick_device
from rscc.facts.calibration import changed_probability
from rscc.facts.explanations import Explanation, explain_features
from rscc.facts.pair_captions import decoder_captions, fact_answers, fact_captions, with_lone_changes
from rscc.folders import DEFAULT_MODEL
from rscc.images import check_pairs
from rscc.model_folder import (
    ModelFolder,
    find_model,
    load_detector,
    load_facts,
    load_familiarity,
    load_model,
    open_model_folder,
    use_int8,
)
from rscc.models.localisers import Localiser
from rscc.models.shared.blocks import enlarge_maps
from rscc.models.shared.captioner import ChangeCaptioner
from rscc.models.shared.change_detector import ChangeDetector
from rscc.models.shared.generation import SearchRules
from rscc.models.torchgeo_detector import TorchGeoDetector, load_torchgeo
from rscc.models.trunks.backbone import fold_norms
from rscc.structures import Caption, ChangePrediction, DifferenceFeatures
from rscc.visibility.detector import VeilDetector, load_veil_detector
from rscc.weights import check_finite


class Captioner:
    """Captions pairs of images and finds their changed pixels.

    ``before`` and ``after`` are (B, 3, H, W) uint8 RGB, H and W multiples of the card's ``position_size``;
    other images are a ValueError. Every method raises :class:`~rscc.errors.NonFiniteOutput` if the network
    answers NaN or infinity.

    Attributes:
        bf16: whether it computes in bfloat16, which it does where the hardware is fast at it.
        int8: whether trunk and change head compute in 8-bit integers, see :mod:`rscc.models.int8`.
        facts: fact heads and rules, which its sentences come from; None where the model has none, or where
            its decoder writes the sentences.
        familiarity: measures how like the training data some ground is; None where the model has no measure.
        other_detector: the network of another project that finds changed pixels in place of the change head,
            see :meth:`with_detector`; None without one.
    """

    def __init__(
        self,
        model: ChangeCaptioner | ChangeDetector,
        folder: ModelFolder,
        *,
        device: str = "auto",
        ground: bool = True,
        int8: bool = True,
    ):
        """Use a loaded model; given a detector, the other weights are read when they are needed."""
        self.card = folder.card
        self.device = pick_device(device)
        self._folder = folder
        detector = model if isinstance(model, ChangeDetector) else model.detector()
        self.detector = detector.to(self.device).eval()
        fold_norms(detector.backbone)
        self.int8 = int8 and bool(self.card.ranges) and fast_int8(self.device)
        if self.int8:
            use_int8(folder, detector)
        if isinstance(model, ChangeCaptioner):
            model.backbone, model.change_head = detector.backbone, detector.change_head
            self._model = model.to(self.device).eval()
        self.bf16 = fast_bf16(self.device)
        self.facts = load_facts(folder) if ground else None
        self.familiarity = load_familiarity(folder)
        for part in (self.facts, self.familiarity):
            if part is not None:
                part.to(self.device)
        self.other_detector: TorchGeoDetector | None = None

    @classmethod
    def load(
        cls,
        model: str | Path = DEFAULT_MODEL,
        device: str = "auto",
        *,
        ground: bool = True,
        int8: bool = True,
    ) -> Captioner:
        """Load a shipped model by name, or a model folder.

        Of a model whose report sentences come from facts or from land cover, only trunk, change head and fact
        heads are loaded; encoder and decoder are loaded on first use.

        Args:
            model: name or folder.
            device: ``auto`` (a GPU when there is one), ``cpu``, ``cuda``, ``cuda:1``, ``mps``.
            ground: make sentences of facts where the model has fact heads.
            int8: let trunk and change head compute in 8-bit integers, in a third of the time, where the card
                and the processor allow it; see :mod:`rscc.models.int8`.

        Raises:
            ModelNotFound: no such name or folder.
            ModelFolderInvalid: the folder is incomplete or damaged.
            DeviceUnavailable: this machine has no such device.
        """
        folder = open_model_folder(find_model(model), check_hashes=True)
        decodes = folder.card.sentences == "decoder" and not (ground and folder.has_facts)
        whole = decodes or folder.card.localiser != "change_head"
        network = load_model(folder) if whole else load_detector(folder)
        captioner = cls(network, folder, device=device, ground=ground, int8=int8)
        return captioner if folder.detector is None else captioner.with_detector(folder.detector)

    def with_detector(self, detector: str | Path) -> Captioner:
        """Return a captioner whose changed pixels come from another network; words and facts stay the same.

        Args:
            detector: ``torchgeo:FILE``, see :func:`rscc.models.torchgeo_detector.load_torchgeo`.

        Raises:
            DetectorInvalid: the file cannot be opened, or does not fit this model.
            ExtraNotInstalled: TorchGeo is not installed.
        """
        captioner = copy.copy(self)
        captioner.other_detector = load_torchgeo(detector, self._folder.card).to(self.device)
        captioner.card = captioner.other_detector.card
        return captioner

    @cached_property
    def _model(self) -> ChangeCaptioner:
        """The whole network; loaded when a call needs more than change maps and facts."""
        return load_model(self._folder, self.detector).to(self.device).eval()

    @cached_property
    def veils(self) -> VeilDetector:
        """Finds cloud, its shadow and haze on each date."""
        return load_veil_detector(self.device, self.card.gsd)

    @cached_property
    def _rules(self) -> SearchRules:
        return self._model.search_rules(self._folder.no_change_prefixes, self._folder.no_change_runs)

    def search(self, before: np.ndarray, after: np.ndarray, values: np.ndarray | None = None) -> np.ndarray:
        """Find changed pixels with trunk and change head only, where the latter was trained.

        Args:
            values: (B, 2, C, H, W) float32, both dates in the bands of :attr:`other_detector`, if it has any.

        Returns:
            (B, H, W) float32 in 0..1, the ``change_probability`` of :meth:`predict_change`.
        """
        with self._inference():
            return self._maps(before, after, values)[1]

    def survey(
        self, before: np.ndarray, after: np.ndarray, values: np.ndarray | None = None
    ) -> tuple[np.ndarray, np.ndarray]:
        """Find changed pixels like :meth:`search`, and run the other heads at every position.

        Returns:
            (B, H, W) float32 in 0..1, and logits (B, len(ANSWERS), h, w) float16 of :mod:`rscc.facts.heads`
            at the model's positions. With a road head, CHANNELS logits of :mod:`rscc.facts.road_head` follow,
            with :attr:`familiarity` its logit, NaN without data. Without fact heads only the latter.

        Raises:
            ValueError: there are neither :attr:`facts` nor :attr:`familiarity`.
        """
        if self.facts is None and self.familiarity is None:
            raise ValueError(
                f"{self.card.name}: it has no heads, or was loaded with ground=False; use search()"
            )
        answers = []
        with self._inference():
            maps, probability = self._maps(before, after, values)
            if self.facts is not None:
                answers.append(self._answers(maps, probability))
            if self.familiarity is not None:
                # Pixels without data are 0 on both dates.
                pixels = torch.maximum(self._tensor(before), self._tensor(after)).amax(1, keepdim=True)
                height, width = maps[0].shape[-2:]
                ground = F.adaptive_avg_pool2d((pixels > 0).float(), (height, width))
                with torch.autocast(self.device.type, enabled=False):
                    familiar = self.familiarity.maps(*maps, self.card.position_size, ground)
                check_finite(self.card.name, familiar)
                answers.append(familiar.masked_fill(ground == 0, torch.nan))
        return probability, torch.cat(answers, 1).half().cpu().numpy()

    def predict_change(self, before: np.ndarray, after: np.ndarray) -> ChangePrediction:
        """Find changed pixels and whether anything changed.

        Returns:
            Change probability per pixel and P(anything changed) per pair. The former only ranks pixels if the
            card's ``localiser`` is not the change head, see :mod:`rscc.models.localisers`. With :attr:`facts`
            the latter includes new roads and clearings, see :mod:`rscc.facts.lone_changes`.
        """
        with self._inference():
            features = self._encode(before, after)
            return self._find(features) if self.facts is None else self._with_lone_changes(features)[0]

    def caption(
        self,
        before: np.ndarray,
        after: np.ndarray,
        *,
        beams: int = 3,
        assume_changed: bool = False,
        placeless: bool = False,
        ground: bool = True,
        gated: bool = True,
    ) -> list[Caption]:
        """Describe what changed.

        Args:
            beams: width of the beam search, 1 or more; its other sentences become the alternatives.
            assume_changed: something is known to have changed; no "no change" sentence is given.
            placeless: the position in the picture is meaningless, as in crops around a change: it is removed
                from the end of sentences, and sentences that still have
                :data:`~rscc.text.statements.PLACE_WORDS` are ranked last.
            ground: make sentences of facts where the model has fact heads; else the decoder writes them.
            gated: let P(changed) decide about the fixed "no change" sentence; else the decoder writes all
                sentences, as in the papers. It has no effect on sentences of facts.

        Returns:
            One caption per pair. A pair whose P(anything changed) is below the card's threshold gets the
            fixed "no change" sentence, scored with 1 - P; with a threshold of 0, of a model that never learnt
            P, the decoder writes that sentence itself. The score of another one is P(changed), or 1 with
            ``assume_changed``, times the probability that it is good, see :mod:`rscc.facts.calibration`.
            With :attr:`facts` the captions are :class:`~rscc.facts.grounded_captions.GroundedCaption`, and
            ``beams`` and ``placeless`` have no effect.
        """
        with self._inference():
            if ground and self.facts is not None:
                return self._by_facts(self._encode(before, after), assume_changed)[1]
            head = not assume_changed and self.card.flag is not None and self.card.flag.reads_evidence
            return self._by_decoder(
                self._encode(before, after, head=head),
                beams=beams,
                assume_changed=assume_changed,
                placeless=placeless,
                gated=gated,
            )

    def describe(
        self, before: np.ndarray, after: np.ndarray, *, beams: int = 3
    ) -> tuple[ChangePrediction, list[Caption]]:
        """Find changed pixels and describe what changed, in one pass through the trunk.

        Arguments, values and errors are those of :meth:`predict_change` and :meth:`caption`.
        """
        with self._inference():
            features = self._encode(before, after)
            if self.facts is not None:
                return self._by_facts(features)
            return self._find(features), self._by_decoder(features, beams=beams)

    def explain(self, before: np.ndarray, after: np.ndarray, *, assume_changed: bool = False) -> Explanation:
        """Describe one pair, (3, H, W) each, by the decoder; show where each word attends.

        ``assume_changed`` and errors are those of :meth:`caption`.
        """
        with self._inference():
            features = self._encode(before[None], after[None])
            (caption,) = self._by_decoder(features, assume_changed=assume_changed)
            return explain_features(self._model, features, caption, self._find(features))

    def _encode(self, before: np.ndarray, after: np.ndarray, *, head: bool = True) -> DifferenceFeatures:
        """Encode pairs; ``head``: with what finding the changed pixels needs."""
        check_pairs(before, after, self.card.position_size)
        head = head and self.card.localiser == "change_head"
        features = self._model.encode(self._tensor(before), self._tensor(after), head=head)
        check_finite(self.card.name, features.tokens, features.changed_logits, features.change_logits)
        return features

    def _maps(
        self, before: np.ndarray, after: np.ndarray, values: np.ndarray | None = None
    ) -> tuple[tuple[torch.Tensor, torch.Tensor], np.ndarray]:
        """Return the trunk's last maps of both dates and the change probability, as :meth:`search` does."""
        if self.card.localiser != "change_head":
            features = self._encode(before, after)
            pair = features.pair
            return (pair.maps_before, pair.maps_after), self._find(features).change_probability
        check_pairs(before, after, self.card.position_size)
        dates = self._tensor(before), self._tensor(after)
        first, second, logits = self.detector(*dates)
        if self.other_detector is None:
            check_finite(self.card.name, logits)
            change = enlarge_maps(logits, before.shape[-2:]).sigmoid()
        else:
            change = self._by_other(dates, None if values is None else self._tensor(values))
        return (first, second), change.cpu().numpy()

    def _by_other(
        self, dates: tuple[torch.Tensor, torch.Tensor], values: torch.Tensor | None = None
    ) -> torch.Tensor:
        assert self.other_detector is not None and self.card.detector is not None
        if values is None and self.card.detector.bands:
            raise ValueError(f"{self.card.detector.file}: give the values of its bands")
        change: torch.Tensor = self.other_detector(*dates, values)
        check_finite(self.card.detector.file, change)
        return change

    def _find(self, features: DifferenceFeatures) -> ChangePrediction:
        images, localiser = features.pair.images, self.card.localiser
        assert images is not None
        size = (images[0].shape[-2], images[0].shape[-1])
        if self.other_detector is not None:
            maps = self._by_other(images)
        elif localiser == "change_head":
            assert features.change_logits is not None
            maps = enlarge_maps(features.change_logits, size).sigmoid()
        else:
            finder = Localiser(localiser, self.card.changed_threshold, self._rules, self.card.flag)
            maps = finder.maps(self._model, features, size)
        changed = changed_probability(features, self.card.flag)
        check_finite(self.card.name, maps, changed)
        return ChangePrediction(maps.cpu().numpy(), changed.cpu().numpy())

    def _answers(self, maps: tuple[torch.Tensor, torch.Tensor], change: np.ndarray) -> torch.Tensor:
        assert self.facts is not None, "the model has no fact heads"
        answers = fact_answers(self.facts, *maps, torch.from_numpy(change).to(self.device))
        check_finite(self.card.name, answers)
        return answers

    def _with_lone_changes(
        self, features: DifferenceFeatures
    ) -> tuple[ChangePrediction, torch.Tensor, list[dict[str, float]]]:
        """Return the prediction with lone changes, the answers of all heads, and the lone answers."""
        assert self.facts is not None, "the model has no fact heads"
        pair, found = features.pair, self._find(features)
        answers = self._answers((pair.maps_before, pair.maps_after), found.change_probability)
        prediction, lone = with_lone_changes(self.facts, self.card, found, answers)
        return prediction, answers, lone

    def _by_facts(
        self, features: DifferenceFeatures, assume_changed: bool = False
    ) -> tuple[ChangePrediction, list[Caption]]:
        assert self.facts is not None, "the model has no fact heads"
        found = self._with_lone_changes(features)
        return found[0], fact_captions(self.facts, self.card, *found, assume_changed)

    def _by_decoder(self, features: DifferenceFeatures, **options: Any) -> list[Caption]:
        return decoder_captions(self._model, self.card, features, self._rules, **options)

    def _tensor(self, images: np.ndarray) -> torch.Tensor:
        return torch.from_numpy(np.ascontiguousarray(images)).to(self.device)

    @contextmanager
    def _inference(self) -> Iterator[None]:
        with torch.inference_mode(), torch.autocast(self.device.type, torch.bfloat16, enabled=self.bf16):
            yield
