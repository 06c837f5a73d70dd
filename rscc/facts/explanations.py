"""Explains a decoder's caption of one pair: attention of each word, its probability, maps of the change.

The maps are the decoder's cross-attention over the finished caption, averaged over heads and layers (the
papers do not specify theirs). The map of a word is that of the step that produced it, whose input is the word
before. Attention shows what a step read, not what determined the word: the memory's tokens have already
attended to each other in the encoder. Part of it may go to memory without a position (RDD's objects and
actions, the entities of CHEERS), so a map sums to 1 at most.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional as F

from rscc.models.shared.captioner import ChangeCaptioner
from rscc.structures import Caption, ChangePrediction, DifferenceFeatures


@dataclass(frozen=True)
class ExplainedWord:
    """One word of the caption.

    Attributes:
        text: the word, or a piece of one in the vocabulary.
        probability: of this word given those before it, 0..1.
        ground: (h, w) float32, attention of the step to each position; sums to 1 at most. None if the decoder
            gives no attention.
    """

    text: str
    probability: float
    ground: np.ndarray | None


@dataclass(frozen=True)
class Explanation:
    """Explanation of the caption of one pair.

    Attributes:
        caption: the decoder's sentence, that of :meth:`rscc.captioner.Captioner.caption`, ``ground=False``.
        changed_probability: P(anything changed), 0..1.
        words: of the sentence, in order. The fixed sentence of an unchanged pair is not the decoder's; its
            words are explained as if it were.
        change: (H, W) float32, change probability per pixel.
        difference: (h, w) float32 in 0..2, one minus the cosine of both dates' trunk features.
        entities: names that the model retrieved for the pair; empty if it retrieves none.
        attention: further maps (h, w) float32 by title, such as the attention of the image encoder.
    """

    caption: Caption
    changed_probability: float
    words: tuple[ExplainedWord, ...]
    change: np.ndarray
    difference: np.ndarray
    entities: tuple[str, ...] = ()
    attention: Mapping[str, np.ndarray] = field(default_factory=dict)


def explain_words(
    model: ChangeCaptioner, features: DifferenceFeatures, text: str
) -> tuple[ExplainedWord, ...]:
    """Run the decoder over a sentence about the only pair of a batch and return its words with their maps.

    The model is in evaluation mode; words outside the vocabulary become the unknown word.
    """
    # A sentence without an end token has max_words - 1 words; begin and end are added.
    ids = model.vocabulary.encode(text, model.config.max_words + 1)
    tokens = torch.tensor([ids[:-2]], device=features.tokens.device)  # without the last word and the end
    spoken = ids[1:-1]
    memory = model.memory(features)
    probabilities = model.decoder(memory, tokens).logits.float().softmax(dim=-1)[0]  # (L, V)
    attention = model.decoder.attention(memory, tokens)
    maps = [None] * len(spoken)
    if attention is not None:
        maps = list(_array(model.on_ground(features, attention)[0].unflatten(-1, features.pair.grid)))
    return tuple(
        ExplainedWord(model.vocabulary.decode([word]), float(row[word]), ground)
        for word, row, ground in zip(spoken, probabilities, maps, strict=True)
    )


def explain_features(
    model: ChangeCaptioner,
    features: DifferenceFeatures,
    caption: Caption,
    found: ChangePrediction,
) -> Explanation:
    """Return the explanation of the only pair of a batch; see :class:`Explanation`."""
    pair = features.pair
    similarity = F.cosine_similarity(pair.maps_before.float(), pair.maps_after.float(), dim=1)
    return Explanation(
        caption=caption,
        changed_probability=float(found.changed_probability[0]),
        words=explain_words(model, features, caption.text),
        change=found.change_probability[0],
        difference=_array(1 - similarity[0]),
        entities=model.entities(features)[0],
        attention={title: _array(maps[0]) for title, maps in model.attention_maps(features).items()},
    )


def _array(values: Tensor) -> np.ndarray:
    return values.float().cpu().numpy()
