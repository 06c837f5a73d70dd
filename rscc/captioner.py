"""The public face for inference: a model folder, and arrays in, words and probabilities out."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import torch

from rscc.calibration import FlagCalibration, changed_probability
from rscc.devices import pick_device
from rscc.explanations import Explanation, explain_features
from rscc.localisers import Localiser, build_localiser
from rscc.models.captioner_base import ChangeCaptioner
from rscc.models.generation import ForbiddenWords
from rscc.no_change import is_no_change
from rscc.structures import NO_CHANGE_CAPTION, Caption, ChangePrediction, DifferenceFeatures
from rscc.weights import DEFAULT_MODEL, ModelCard, ModelFolder, find_model, load_model, open_model_folder

PLACE_WORDS = frozenset(
    (
        "corner",
        "edge",
        "side",
        "left",
        "right",
        "top",
        "bottom",
        "upper",
        "lower",
        "middle",
        "center",
        "centre",
    )
)
"""Words that say where in the picture something is, which of a crop around a change says nothing."""


class Captioner:
    """Captions pairs of images and finds their changed pixels.

    Attributes:
        card: what the model says of itself.
        device: where it runs.
        bf16: whether it computes in bfloat16, which it does where the hardware is fast at it.
    """

    def __init__(self, model: ChangeCaptioner, folder: ModelFolder, *, device: str = "auto"):
        self.card: ModelCard = folder.card
        self.device = pick_device(device)
        self._model = model.to(self.device).eval()
        self._forbidden = ForbiddenWords.of_words(
            folder.no_change_prefixes, model.vocabulary, folder.no_change_runs
        )
        self._place_words = [i for i, word in enumerate(model.vocabulary.words) if word in PLACE_WORDS]
        self.bf16 = _fast_bf16(self.device)

    @classmethod
    def load(cls, model: str | Path = DEFAULT_MODEL, *, device: str = "auto") -> Captioner:
        """Load a shipped model by name, or a model folder.

        Args:
            model: name or folder.
            device: ``auto`` (a GPU when there is one), ``cpu``, ``cuda``, ``cuda:1``, ``mps``.

        Raises:
            ModelNotFound: no such name or folder.
            ModelFolderInvalid: the folder is incomplete or damaged.
            DeviceUnavailable: this machine has no such device.
        """
        folder = open_model_folder(find_model(model), check_hashes=True)
        return cls(load_model(folder), folder, device=device)

    def predict_change(self, before: np.ndarray, after: np.ndarray) -> ChangePrediction:
        """Find changed pixels.

        Args:
            before, after: (B, 3, H, W) uint8 RGB, H and W multiples of 16.

        Returns:
            Change probability per pixel and P(anything changed) per pair. Where the card's ``localiser`` is
            not the change head, the former only ranks pixels, see :mod:`rscc.localisers`.
        """
        with self._inference():
            return self._find(self._encode(before, after))

    def caption(
        self,
        before: np.ndarray,
        after: np.ndarray,
        *,
        beams: int = 3,
        assume_changed: bool = False,
        placeless: bool = False,
        focus: np.ndarray | None = None,
    ) -> list[Caption]:
        """Describe what changed.

        Args:
            before, after: (B, 3, H, W) uint8 RGB, H and W multiples of 16.
            beams: width of the beam search; its other sentences become the alternatives.
            assume_changed: the caller knows that something changed; no "no change" sentence is given.
            placeless: where in the pictures something is does not matter, as in crops around what changed:
                sentences with :data:`PLACE_WORDS` are passed over where the search finds others.
            focus: (B, H, W) in 0..1, how much of what changed at each pixel is to be described: where it is
                0 the model is shown no difference. Its grid is coarse, 16 pixels. None describes all.

        Returns:
            One caption per pair. A pair whose P(anything changed) is below the card's threshold gets the
            fixed "no change" sentence, scored with 1 - P. A model whose threshold is 0 never learnt that
            probability: its decoder says in its own words when nothing changed.
            The score of another sentence is P(changed), which is 1 when the caller knows, times the
            probability that it is a good sentence for a change; see :mod:`rscc.calibration`.
        """
        with self._inference():
            head = not assume_changed and self._flag is not None and self._flag.reads_evidence
            features = self._encode(before, after, head=head, focus=focus)
            return self._say(features, beams, assume_changed, placeless=placeless)

    def describe(
        self, before: np.ndarray, after: np.ndarray, *, beams: int = 3, assume_changed: bool = False
    ) -> tuple[ChangePrediction, list[Caption]]:
        """Find changed pixels and describe what changed, in one pass through the trunk.

        Arguments and values are those of :meth:`predict_change` and :meth:`caption`.
        """
        with self._inference():
            features = self._encode(before, after)
            return self._find(features), self._say(features, beams, assume_changed)

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
        """Describe one pair, and show where the words look and what the description rests on.

        Args:
            before, after: (3, H, W) uint8 RGB, H and W multiples of 16.
            beams, assume_changed: see :meth:`caption`.
        """
        with self._inference():
            features = self._encode(before[None], after[None])
            found = self._find(features)
            (caption,) = self._say(features, beams, assume_changed)
            return explain_features(
                self._model,
                features,
                caption,
                changed_probability=float(found.changed_probability[0]),
                change=found.change_probability[0],
            )

    def _encode(
        self, before: np.ndarray, after: np.ndarray, *, head: bool = True, focus: np.ndarray | None = None
    ) -> DifferenceFeatures:
        """Encode pairs; ``head``: with what finding the changed pixels needs."""
        return self._model.encode(
            self._tensor(before),
            self._tensor(after),
            head=head and self._localiser.needs_head,
            focus=None if focus is None else self._tensor(focus.astype(np.float32)),
        )

    def _find(self, features: DifferenceFeatures) -> ChangePrediction:
        images = features.pair.images
        assert images is not None
        maps = self._localiser.maps(self._model, features, (images[0].shape[-2], images[0].shape[-1]))
        return ChangePrediction(
            change_probability=maps.cpu().numpy(),
            changed_probability=changed_probability(features, self._flag).cpu().numpy(),
        )

    def _say(
        self, features: DifferenceFeatures, beams: int, assume_changed: bool, *, placeless: bool = False
    ) -> list[Caption]:
        decides = assume_changed or self.card.changed_threshold > 0
        forbidden = self._forbidden if decides else None
        hypotheses = self._model.generate_from(
            features,
            beams=beams,
            forbidden=forbidden,
            choice=self.card.choice,
            avoided=self._place_words if placeless else (),
        )
        if assume_changed:
            probabilities = [1.0] * len(hypotheses)
        else:
            probabilities = changed_probability(features, self._flag).tolist()
        captions = []
        for probability, found in zip(probabilities, hypotheses, strict=True):
            if not assume_changed and probability < self.card.changed_threshold:
                captions.append(Caption(text=NO_CHANGE_CAPTION, score=1 - probability, changed=False))
                continue
            texts = list(dict.fromkeys(self._model.vocabulary.decode(one.ids) for one in found))
            changed = decides or not is_no_change(texts[0])
            captions.append(
                Caption(
                    text=texts[0],
                    score=self._score(found[0].score, probability) if changed else found[0].score,
                    changed=changed,
                    alternatives=tuple(texts[1:]),
                    likelihood=found[0].score,
                )
            )
        return captions

    def _score(self, likelihood: float, probability: float) -> float:
        """Score a sentence about a change that there is with ``probability``."""
        calibration = self.card.calibration
        if calibration is None or calibration.score is None:
            return likelihood
        known = probability if self.card.changed_threshold > 0 else 1.0
        return known * calibration.score.probability(likelihood)

    @property
    def _flag(self) -> FlagCalibration | None:
        return None if self.card.calibration is None else self.card.calibration.changed

    @property
    def _localiser(self) -> Localiser:
        return build_localiser(
            self.card.localiser,
            changed_threshold=self.card.changed_threshold,
            forbidden=self._forbidden,
            flag=self._flag,
        )

    def _tensor(self, images: np.ndarray) -> torch.Tensor:
        return torch.from_numpy(np.ascontiguousarray(images)).to(self.device)

    @contextmanager
    def _inference(self) -> Iterator[None]:
        with torch.inference_mode(), torch.autocast(self.device.type, torch.bfloat16, enabled=self.bf16):
            yield


def _fast_bf16(device: torch.device) -> bool:
    """Tell whether bfloat16 is computed by the hardware; elsewhere it would be slower than float32."""
    if device.type == "cuda":
        return torch.cuda.is_bf16_supported()
    capabilities = torch.cpu.get_capabilities() if device.type == "cpu" else {}
    return bool(capabilities.get("avx512_bf16") or capabilities.get("amx_bf16"))
