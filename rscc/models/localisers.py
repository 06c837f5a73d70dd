"""Change maps from a captioner itself, where there were no masks to train a change head on.

None of the five papers predicts masks. Two of their parts locate changes without having learned to; neither
gives a probability, so their maps only rank pixels, and a threshold must be chosen for them.

* The decoder's cross-attention, at the words of the caption. Attention sums to one over a tile, so it shows
  where a change is most likely, but not whether there is one: it is expressed as a multiple of a uniform
  attention, only values above uniform are kept, and the peak becomes 1, or less where nothing stands out.
* DAVIR's extraction (Eq. 2): the difference of both dates, thresholded and clustered.

Both are set to 0 where P(changed) is below the model's threshold: most tiles of a scene are unchanged.
"""

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional as F

from rscc.errors import ConfigInvalid
from rscc.facts.calibration import FlagCalibration, changed_probability
from rscc.models.shared.blocks import enlarge_maps
from rscc.models.shared.captioner import ChangeCaptioner
from rscc.models.shared.extraction import extract_change
from rscc.models.shared.generation import SearchRules
from rscc.structures import DifferenceFeatures
from rscc.text.no_change import is_no_change

SMOOTHING = 4
"""Radius in pixels over which an extracted mask, whose outlines are squares, is averaged."""


@dataclass(frozen=True)
class Localiser:
    """Finds changed pixels of encoded pairs.

    Attributes:
        kind: ``attention`` or ``difference``, the ``localiser`` of a card without a trained change head.
        changed_threshold: P(anything changed) below which a map is set to 0; 0 where it was not learnt.
        rules: search rules of captions that name a change.
        flag: calibration of P(anything changed), when there is one.
    """

    kind: str
    changed_threshold: float
    rules: SearchRules | None = None
    flag: FlagCalibration | None = None

    def maps(self, model: ChangeCaptioner, features: DifferenceFeatures, size: tuple[int, int]) -> Tensor:
        """Return maps (B, H, W) float32 in 0..1 of the given size.

        Raises:
            ConfigInvalid: the difference is wanted of cached features, without images.
        """
        find = self._attention if self.kind == "attention" else self._difference
        return enlarge_maps(find(model, features), size)

    def _gated_probability(self, features: DifferenceFeatures) -> Tensor:
        probability = changed_probability(features, self.flag)
        return torch.where(probability >= self.changed_threshold, probability, 0.0)

    def _attention(self, model: ChangeCaptioner, features: DifferenceFeatures) -> Tensor:
        """Attention above uniform of the words of the greedy caption, times P(changed)."""
        # Where P(changed) was not learnt, captions decide, searched without the rules.
        decides = self.changed_threshold > 0
        hypotheses = model.generate_from(features, rules=self.rules if decides else None)
        sentences = [best.ids for best, *_ in hypotheses]
        if decides:
            weights = self._gated_probability(features)
        else:
            words = [model.vocabulary.decode(ids) for ids in sentences]
            weights = torch.tensor([float(not is_no_change(text)) for text in words])
            weights = weights.to(features.tokens.device)
        return attention_map(model, features, sentences) * weights[:, None, None]

    def _difference(self, model: ChangeCaptioner, features: DifferenceFeatures) -> Tensor:
        """Share of pixels around each that DAVIR's extraction, the model's own or the default, extracts."""
        images = features.pair.images
        if images is None:
            raise ConfigInvalid("the difference of both dates needs the images; cached features do not do")
        weights = self._gated_probability(features)
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
            count_include_pad=False,  # pixels beyond the tile are unknown, not unchanged
        ).squeeze(1)
        return shares.to(features.tokens.device)


def attention_map(
    model: ChangeCaptioner, features: DifferenceFeatures, sentences: list[tuple[int, ...]]
) -> Tensor:
    """Return the attention of sentences to each position, in excess of uniform attention.

    Args:
        model: in evaluation mode.
        features: of B pairs.
        sentences: ids of each pair's caption, without begin and end; at least one word.

    Returns:
        (B, h, w) float32 in 0..1: attention to the grid, averaged over the words, as a multiple of uniform
        attention, minus one; divided by its peak where the peak is above 1.
    """
    words = model.vocabulary
    longest = max(map(len, sentences))
    # The input of the step that outputs a word is the word before it.
    rows = [(words.bos, *ids[:-1], *[words.pad] * (longest - len(ids))) for ids in sentences]
    tokens = torch.tensor(rows, device=features.tokens.device)
    attention = model.decoder.attention(model.memory(features), tokens)
    if attention is None:
        raise ConfigInvalid(
            f"the decoder of this {model.config.paper} gives no attention; its card's localiser must be "
            "difference or change_head"
        )
    ground = model.on_ground(features, attention).float()  # (B, L, h * w)
    lengths = torch.tensor([len(ids) for ids in sentences], device=tokens.device)
    spoken = torch.arange(longest, device=tokens.device) < lengths.unsqueeze(1)
    mass = (ground * spoken.unsqueeze(-1)).sum(dim=1)  # (B, h * w)
    shares = mass / mass.mean(dim=1, keepdim=True).clamp(min=torch.finfo(mass.dtype).tiny)
    above = (shares - 1).clamp(min=0)
    return (above / above.amax(dim=1, keepdim=True).clamp(min=1)).unflatten(1, features.pair.grid)
