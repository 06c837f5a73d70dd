"""What a step of the training loop learns: an objective turns a model and a batch into loss terms."""

from __future__ import annotations

from typing import Protocol

from torch import Tensor

from rscc.models.captioner_base import ChangeCaptioner
from rscc.structures import PairBatch


class Objective(Protocol):
    """Gives the loss terms of one batch; the loop weights them by the config and adds them up."""

    def loss_terms(self, model: ChangeCaptioner) -> tuple[str, ...]:
        """Names of all terms; the config must weight each of them, with 0 to leave one out."""

    def losses(
        self, model: ChangeCaptioner, batch: PairBatch, *, place: tuple[int, int]
    ) -> tuple[dict[str, Tensor], dict[str, float]]:
        """Return the unweighted terms whose weight is above 0, and numbers that are only logged.

        Args:
            model: in training mode.
            batch: on the model's device.
            place: (epoch, batch within the epoch), both from 0; what is drawn at random depends on it alone.

        Raises:
            ConfigInvalid: a term that the batch cannot give.
        """


class Likelihood:
    """The terms of the model itself: captions word by word, change masks, flags, alignments."""

    def __init__(self, weights: dict[str, float], *, label_smoothing: float = 0.0):
        """Take the weights of the terms and the label smoothing of the caption cross-entropy."""
        self.weights, self.label_smoothing = weights, label_smoothing

    def loss_terms(self, model: ChangeCaptioner) -> tuple[str, ...]:
        """See :meth:`Objective.loss_terms`."""
        return model.loss_terms()

    def losses(
        self, model: ChangeCaptioner, batch: PairBatch, *, place: tuple[int, int]
    ) -> tuple[dict[str, Tensor], dict[str, float]]:
        """See :meth:`Objective.losses`."""
        return model.losses(batch, self.weights, label_smoothing=self.label_smoothing), {}
