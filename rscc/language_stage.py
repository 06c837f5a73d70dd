"""The language stage: the decoder alone learns captions as language, before it learns to look at pairs.

Its memory is one zero vector per caption, so that cross-attention adds the same to every word. What comes
out is a folder with the decoder's weights and vocabulary, a start for ``rscc train --from``; it cannot
caption.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import torch
from torch import Tensor
from torch.nn import functional as F

from rscc.cards import card_text
from rscc.config import Config
from rscc.data.pairs import PairRecord
from rscc.data.reversal import reverse_captions
from rscc.data.text_corpus import TextCorpus, TextSource, counted_batches, read_corpus
from rscc.errors import ConfigInvalid
from rscc.finishing import device_words
from rscc.models import model_class
from rscc.models.backbone import build_backbone
from rscc.models.captioner_base import ChangeCaptioner
from rscc.models.decoder import CaptionDecoder
from rscc.models.gated_layer import GatedLayer
from rscc.models.losses import caption_cross_entropy
from rscc.no_change import is_no_change
from rscc.starting import open_start, take_start
from rscc.structures import PairBatch
from rscc.train import Trainer, TrainResult, load_best
from rscc.vocabulary import Vocabulary
from rscc.weights import ModelCard, ModelFolder, save_model_folder

if TYPE_CHECKING:
    from rscc.runs import RunPaths

LEARNT = ("decoder.",)


def blank_memory(model: ChangeCaptioner, count: int) -> Tensor:
    """Return a memory that holds nothing, (B, 1, D); for gated decoders one zero per entity before it."""
    entities = max((m.entities for m in model.decoder.modules() if isinstance(m, GatedLayer)), default=0)
    weight = next(model.decoder.parameters())
    return torch.zeros(count, entities + 1, model.config.width, device=weight.device)


def train_decoder_only(model: ChangeCaptioner) -> None:
    """Take the gradients off everything but the decoder.

    Raises:
        ConfigInvalid: the decoder is a language model already.
    """
    if not isinstance(model.decoder, CaptionDecoder):
        raise ConfigInvalid(
            f"train.objective 'language': {model.config.backbone} brings a language model that is trained"
        )
    for name, parameter in model.named_parameters():
        if not name.startswith(LEARNT):
            parameter.requires_grad_(False)


class Language:
    """The cross-entropy of captions that no image is given for; an :class:`~rscc.objectives.Objective`."""

    def __init__(self, weights: dict[str, float], *, label_smoothing: float = 0.0):
        """Take the weights of the terms and the label smoothing.

        Raises:
            ConfigInvalid: another term than ``caption`` has a weight.
        """
        others = [name for name, weight in weights.items() if weight > 0 and name != "caption"]
        if others:
            raise ConfigInvalid(
                f"loss.{others[0]} needs images; train.objective 'language' has none: set it to 0"
            )
        self.label_smoothing = label_smoothing

    def loss_terms(self, model: ChangeCaptioner) -> tuple[str, ...]:
        """See :meth:`rscc.objectives.Objective.loss_terms`."""
        return ("caption",)

    def losses(
        self, model: ChangeCaptioner, batch: PairBatch, *, place: tuple[int, int]
    ) -> tuple[dict[str, Tensor], dict[str, float]]:
        """See :meth:`rscc.objectives.Objective.losses`; the batch holds tokens only."""
        assert batch.tokens is not None
        decoded = model.decoder(blank_memory(model, len(batch.tokens)), batch.tokens[:, :-1])
        term = caption_cross_entropy(
            decoded.logits, batch.tokens, pad=model.vocabulary.pad, label_smoothing=self.label_smoothing
        )
        return {"caption": term}, {}


@torch.no_grad()
def perplexity(model: ChangeCaptioner, sentences: Sequence[str], *, bf16: bool = True) -> float:
    """Return exp of the mean negative log-likelihood of a word, the end of the sentence included.

    Args:
        model: whose decoder is asked without images.
        sentences: at least one; a word that is not in the vocabulary counts as ``<unk>``.
        bf16: autocast to bfloat16.
    """
    device = next(model.parameters()).device
    words = model.vocabulary
    lost, seen = 0.0, 0
    for batch, counts in counted_batches(sentences, words, model.config.max_words):
        assert batch.tokens is not None
        tokens, times = batch.tokens.to(device), counts.to(device)
        with torch.autocast(device.type, torch.bfloat16, enabled=bf16):
            logits = model.decoder(blank_memory(model, len(tokens)), tokens[:, :-1]).logits
        losses = F.cross_entropy(logits.float().transpose(1, 2), tokens[:, 1:], reduction="none")  # (B, L)
        known = tokens[:, 1:] != words.pad
        lost += float(((losses * known).sum(1) * times).sum())
        seen += int((known.sum(1) * times).sum())
    return math.exp(lost / seen)


def text_validation(
    corpus: TextCorpus, *, bf16: bool = True
) -> Callable[[ChangeCaptioner], dict[str, float]]:
    """Make the validation of the language stage.

    It gives the perplexity of the validation sentences (``perplexity``), of those of them that speak of
    change (``perplexity_changed``) and of as many training pairs' sentences (``perplexity_train``).
    """
    val = [sentence for sentences in corpus.val for sentence in sentences]
    step = max(1, len(corpus.train) // len(corpus.val))
    seen = [sentence for sentences in corpus.train[::step] for sentence in sentences]
    changed = [sentence for sentence in val if not is_no_change(sentence)]

    def validate(model: ChangeCaptioner) -> dict[str, float]:
        parts = {"perplexity": val, "perplexity_changed": changed, "perplexity_train": seen}
        return {name: perplexity(model, part, bf16=bf16) for name, part in parts.items() if part}

    return validate


def text_source(
    corpus: TextCorpus, config: Config, vocabulary: Vocabulary, backwards: Sequence[Sequence[str]]
) -> TextSource:
    """Make the batches of the training sentences as the config says; ``backwards`` as TextSource has it."""
    return TextSource(
        corpus.train,
        vocabulary,
        max_words=config.model.max_words,
        batch_size=config.train.batch_size,
        seed=config.train.seed,
        augment=config.data.augment,
        reversed=config.data.reversed,
        backwards=backwards,
    )


def train_language(
    config: Config,
    paths: RunPaths,
    train: Sequence[PairRecord],
    *,
    name: str,
    command: str,
    resume: bool = False,
    device: str = "cpu",
    report: Callable[[str], None] = print,
) -> ModelFolder:
    """Train the decoder of a config's model on ``paths.corpus`` and write what it is a start for.

    Args:
        config: of the run.
        paths: where things are.
        train: captioned training pairs, whose words the vocabulary holds too.
        name, command, resume, device, report: see :func:`rscc.runs.train_model`.

    Raises:
        ConfigInvalid: no corpus, something given that only images need, or no decoder to train.
        DatasetLayoutInvalid: the corpus cannot be read.
        ModelFolderInvalid: a start that does not fit.
        NonFiniteLoss: see :meth:`rscc.train.Trainer.run`.
    """
    if paths.corpus is None:
        raise ConfigInvalid("train.objective 'language' learns a corpus of captions; give one with --corpus")
    if paths.trunk or paths.masks or paths.backbone_weights or paths.also:
        raise ConfigInvalid(
            "train.objective 'language' sees no images; leave trunk, masks, weights and further folders out"
        )
    corpus = read_corpus(paths.corpus)
    backwards = [reverse_captions(sentences) for sentences in corpus.train] if config.data.reversed else []
    captions = [one for record in train for one in record.captions]
    captions += [one for sentences in (*corpus.train, *backwards) for one in sentences]
    start = None if paths.start is None else open_start(paths.start)
    words = Vocabulary.build if start is None else start.words_with
    vocabulary = words(captions, config.data.min_count)
    torch.manual_seed(config.train.seed)
    backbone = build_backbone(config.model.backbone)
    model = model_class(config.model.paper)(
        config=config.model if start is None else start.prepared(config.model),
        backbone=backbone,
        vocabulary=vocabulary,
    )
    if start is not None:
        take_start(model, start)
    train_decoder_only(model)
    trainer = Trainer(
        model.to(device),
        text_source(corpus, config, vocabulary, backwards),
        text_validation(corpus, bf16=config.train.bf16),
        config=config,
        folder=paths.output,
        report=report,
        objective=Language(config.loss, label_smoothing=config.train.label_smoothing),
    )
    result = trainer.run(resume=resume)
    card = language_card(model, result, config, corpus, name=name, command=command)
    return save_model_folder(
        paths.output / "model",
        load_best(model, result),
        card=card,
        card_text=card_text(card, config),
        no_change_prefixes=(),
    )


def language_card(
    model: ChangeCaptioner,
    result: TrainResult,
    config: Config,
    corpus: TextCorpus,
    *,
    name: str,
    command: str,
) -> ModelCard:
    """Write the card of a decoder that has learnt sentences only."""
    lengths = [sum(map(len, pairs)) for pairs in (corpus.train, corpus.val)]
    return ModelCard(
        name=name,
        version=config.card.version,
        description=config.card.description
        or "language stage: a decoder that has seen sentences but no image",
        paper=config.model.paper,
        weights_sha256="",
        gsd=config.data.gsd,
        gsd_range=config.card.gsd_range,
        tile_size=config.data.size,
        threshold=0.5,
        changed_threshold=0.0,
        localisation="nothing: it sees no images",
        licence=config.card.licence,
        data=f"{lengths[0]} training and {lengths[1]} validation sentences. {config.card.data}".strip(),
        trained=f"`{command}`, {result.seconds / 60:.0f} minutes on {device_words(model)}",
        limits=("Not for captioning: a start for rscc train --from.", *config.card.limits),
        scores={key: round(value, 4) for key, value in result.best_scores.items()},
        localiser="attention",
        parts=LEARNT,
    )
