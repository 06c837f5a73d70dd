"""Change maps: from the trained change head, or by a captioner's own means where no masks were to be had.

None of the five papers predicts masks. Two things of theirs say where something changed without having
learnt it, and neither is a probability: their maps only rank places, and a threshold must be chosen for them.

* The decoder's cross-attention: where the words of the caption look. Attention sums to one over a tile, so it
  says where most likely, but not whether: it is counted in shares of an even spread, what is above an even
  share is kept, and the peak becomes 1, or less where nothing stands out. P(changed) says whether.
* DAVIR's extraction (Eq. 2): both dates' difference, thresholded and clustered.

Both are silenced where P(changed) is below the model's threshold: most tiles of a scene are unchanged.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional as F

from rscc.errors import ConfigInvalid
from rscc.inference.calibration import FlagCalibration, changed_probability
from rscc.models.shared.blocks import enlarge_maps
from rscc.models.shared.captioner import ChangeCaptioner
from rscc.models.shared.extraction import extract_change
from rscc.models.shared.search_rules import SearchRules
from rscc.structures import DifferenceFeatures
from rscc.text.no_change import is_no_change

# Pixels around each that an extracted mask is averaged over: its outlines are squares.
SMOOTHING = 4


@dataclass(frozen=True)
class Localiser(ABC):
    """Finds changed pixels of encoded pairs.

    Attributes:
        changed_threshold: P(anything changed) below which a map is silenced; 0 where it was not learnt.
        rules: of captions that name a change.
        flag: calibration of P(anything changed), when there is one.
        needs_head: whether the pairs must be encoded with the change head's logits.
    """

    changed_threshold: float
    rules: SearchRules | None = None
    flag: FlagCalibration | None = None
    needs_head: ClassVar[bool] = False

    @abstractmethod
    def maps(self, model: ChangeCaptioner, features: DifferenceFeatures, size: tuple[int, int]) -> Tensor:
        """Return maps (B, H, W) float32 in 0..1 of the given size."""

    def _silenced(self, features: DifferenceFeatures) -> Tensor:
        """P(changed) of each pair, (B,) float32, 0 where it is below the threshold."""
        probability = changed_probability(features, self.flag)
        return torch.where(probability >= self.changed_threshold, probability, 0.0)


class ChangeHeadLocaliser(Localiser):
    """What was trained on change masks; nothing is silenced."""

    needs_head = True

    def maps(self, model: ChangeCaptioner, features: DifferenceFeatures, size: tuple[int, int]) -> Tensor:
        """Probability of change per pixel, (B, H, W)."""
        assert features.change_logits is not None
        return enlarge_maps(features.change_logits, size).sigmoid()


class AttentionLocaliser(Localiser):
    """Where the words of the greedy caption look, times P(changed).

    Where P(changed) was not learnt, the decoder's own words say whether anything changed, and what did counts
    in full; the caption then need not hold to the rules.
    """

    def maps(self, model: ChangeCaptioner, features: DifferenceFeatures, size: tuple[int, int]) -> Tensor:
        """Attention above an even share, (B, H, W).

        Raises:
            ConfigInvalid: the decoder does not tell where its words look.
        """
        decides = self.changed_threshold > 0
        hypotheses = model.generate_from(features, rules=self.rules if decides else None)
        sentences = [best.ids for best, *_ in hypotheses]
        if decides:
            weights = self._silenced(features)
        else:
            words = [model.vocabulary.decode(ids) for ids in sentences]
            weights = torch.tensor([float(not is_no_change(text)) for text in words])
            weights = weights.to(features.tokens.device)
        return enlarge_maps(attention_map(model, features, sentences) * weights[:, None, None], size)


class DifferenceLocaliser(Localiser):
    """DAVIR's extraction of both dates' difference, its outlines smoothed.

    A model without an extractor of its own has :func:`~rscc.models.shared.extraction.extract_change`.
    """

    def maps(self, model: ChangeCaptioner, features: DifferenceFeatures, size: tuple[int, int]) -> Tensor:
        """Share of extracted pixels around each pixel, (B, H, W).

        Raises:
            ConfigInvalid: the features come from a cache, without images.
        """
        images = features.pair.images
        if images is None:
            raise ConfigInvalid("the difference of both dates needs the images; cached features do not do")
        weights = self._silenced(features)
        before, after = (date.to(torch.uint8).cpu().numpy() for date in images)
        extract = model.extractor or extract_change
        masks = [
            extract(*dates) if weight > 0 else np.zeros(dates[0].shape[1:], dtype=bool)
            for *dates, weight in zip(before, after, weights.tolist(), strict=True)
        ]
        shares = F.avg_pool2d(
            torch.from_numpy(np.stack(masks)).float().unsqueeze(1),
            2 * SMOOTHING + 1,
            stride=1,
            padding=SMOOTHING,
            count_include_pad=False,  # what lies beyond the tile is unknown, not unchanged
        ).squeeze(1)
        return enlarge_maps(shares.to(features.tokens.device), size)


LOCALISERS: dict[str, type[Localiser]] = {
    "change_head": ChangeHeadLocaliser,
    "attention": AttentionLocaliser,
    "difference": DifferenceLocaliser,
}
"""By the ``localiser`` of a card."""


def attention_map(
    model: ChangeCaptioner, features: DifferenceFeatures, sentences: list[tuple[int, ...]]
) -> Tensor:
    """Return how much more than an even share each place gets of the sentences' attention.

    Args:
        model: in evaluation mode.
        features: of B pairs.
        sentences: ids of each pair's caption, without begin and end; one word at least.

    Returns:
        (B, h, w) float32 in 0..1: mean over the words of the attention that falls on the ground, in shares of
        an even spread, less one; divided by its peak where the peak is more than twice the even share.

    Raises:
        ConfigInvalid: the decoder does not tell where its words look.
    """
    words = model.vocabulary
    longest = max(map(len, sentences))
    # The step that gives a word has the word before it as its input.
    rows = [(words.bos, *ids[:-1], *[words.pad] * (longest - len(ids))) for ids in sentences]
    tokens = torch.tensor(rows, device=features.tokens.device)
    attention = model.decoder.attention(model.memory(features), tokens)
    if attention is None:
        raise ConfigInvalid(
            f"this {model.config.paper} does not tell where its words look; its card's localiser must be "
            "difference or change_head"
        )
    ground = model.on_ground(features, attention).float()  # (B, L, h * w)
    lengths = torch.tensor([len(ids) for ids in sentences], device=tokens.device)
    spoken = torch.arange(longest, device=tokens.device) < lengths.unsqueeze(1)
    mass = (ground * spoken.unsqueeze(-1)).sum(dim=1)  # (B, h * w)
    shares = mass / mass.mean(dim=1, keepdim=True).clamp(min=torch.finfo(mass.dtype).tiny)
    above = (shares - 1).clamp(min=0)
    return (above / above.amax(dim=1, keepdim=True).clamp(min=1)).unflatten(1, features.pair.grid)
