"""A corpus of captions without images: what the decoder learns as language before it sees any pair.

The file is JSON, or gzipped JSON (``.json.gz``): ``{"train": [...], "val": [...]}``, each a list of
``{"filename": text, "sentences": [text, ...]}``, the sentences of one pair. Other keys, a test split above
all, are skipped without a look at what they hold.
"""

from __future__ import annotations

import gzip
import math
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional as F

from rscc.data.benchmarks.annotations import clean_captions, list_of
from rscc.data.pairs import FLIPS, PairRecord, flip_words
from rscc.data.sources import CaptionText
from rscc.errors import ConfigInvalid, DatasetLayoutInvalid
from rscc.files import parsed_json
from rscc.model_folder import ModelFolder, save_model_folder
from rscc.models import model_class
from rscc.models.shared.captioner import ChangeCaptioner
from rscc.models.shared.decoder import CaptionDecoder
from rscc.models.shared.gated_layer import GatedLayer
from rscc.models.shared.losses import caption_cross_entropy
from rscc.models.trunks import build_backbone
from rscc.structures import PairBatch
from rscc.text.no_change import is_no_change
from rscc.text.reversal import reverse_captions
from rscc.text.vocabulary import Vocabulary
from rscc.training.card import card_text, make_card
from rscc.training.loop import Trainer, load_best
from rscc.training.objectives import Likelihood, Losses
from rscc.training.start import Run, open_start, take_start


@dataclass(frozen=True)
class TextCorpus:
    """Sentences by pair, lower case; pairs without any are left out.

    Attributes:
        train: of the pairs that are learnt.
        val: of the pairs that the perplexity is measured on.
    """

    train: tuple[tuple[str, ...], ...]
    val: tuple[tuple[str, ...], ...]


def read_corpus(path: str | Path) -> TextCorpus:
    """Read the training and the validation split of a corpus file.

    Raises:
        DatasetLayoutInvalid: the file is missing, no JSON, not laid out as above, or a split is empty.
    """
    path = Path(path)
    if not path.is_file():
        raise DatasetLayoutInvalid(f"{path}: no such file; give a corpus of captions (.json or .json.gz)")
    try:
        with gzip.open(path, "rb") if path.suffix == ".gz" else path.open("rb") as file:
            content = parsed_json(file.read())
        splits = [
            tuple(filter(None, (clean_captions(one["sentences"]) for one in list_of(content[split], dict))))
            for split in ("train", "val")
        ]
    except (OSError, EOFError, ValueError, LookupError, TypeError) as error:
        raise DatasetLayoutInvalid(
            f"{path}: not a corpus of captions ({error!r}); see rscc/training/language.py for its layout"
        ) from error
    for name, pairs in zip(("train", "val"), splits, strict=True):
        if not pairs:
            raise DatasetLayoutInvalid(f"{path}: no sentence in its split {name!r}; give a corpus with both")
    return TextCorpus(*splits)


@dataclass
class TextSource:
    """Batches of captions alone, as :class:`~rscc.data.sources.BatchSource` asks: per pair a random one.

    Attributes:
        pairs: the sentences of each pair.
        backwards: the sentences of each pair that are true when its dates are swapped; none where that is not
            known, and no entry at all when ``reversed`` is 0.
        text: turns sentences into tokens.
        batch_size: captions in a step.
        seed: of order and choice.
        augment: turn the words of direction as a random flip of the images would.
        reversed: probability that a pair speaks backwards.
    """

    pairs: Sequence[Sequence[str]]
    text: CaptionText
    batch_size: int
    seed: int
    augment: bool = True
    reversed: float = 0.0
    backwards: Sequence[Sequence[str]] = field(default_factory=tuple)

    def steps(self) -> int:
        """Return the number of batches in an epoch."""
        return -(-len(self.pairs) // self.batch_size)

    def epoch(self, number: int) -> Iterator[PairBatch]:
        """Yield the batches of epoch ``number``, counted from 0; they hold tokens only."""
        rng = np.random.default_rng((self.seed, number))
        order = rng.permutation(len(self.pairs))
        for start in range(0, len(order), self.batch_size):
            chosen = [self._sentence(i, rng) for i in order[start : start + self.batch_size].tolist()]
            yield text_batch(chosen, self.text)

    def _sentence(self, index: int, rng: np.random.Generator) -> str:
        sentences = self.pairs[index]
        if self.reversed and self.backwards[index] and rng.random() < self.reversed:
            sentences = self.backwards[index]
        sentence = sentences[int(rng.integers(len(sentences)))]
        return flip_words(sentence, FLIPS[int(rng.integers(len(FLIPS)))]) if self.augment else sentence


def text_batch(sentences: Sequence[str], text: CaptionText) -> PairBatch:
    """Make a batch that holds the tokens of sentences and nothing else."""
    batch = PairBatch()
    text.add(batch, sentences)
    return batch


def counted_batches(
    sentences: Sequence[str], text: CaptionText, *, batch_size: int = 256
) -> Iterator[tuple[PairBatch, torch.Tensor]]:
    """Yield every different sentence once, by length, and how often each stands there (B,)."""
    counts = Counter(sentences)
    ordered = sorted(counts, key=lambda sentence: (len(sentence.split()), sentence))
    for start in range(0, len(ordered), batch_size):
        part = ordered[start : start + batch_size]
        yield text_batch(part, text), torch.tensor([counts[one] for one in part])


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


class Language(Likelihood):
    """The cross-entropy of captions that no image is given for."""

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
        super().__init__(weights, label_smoothing=label_smoothing)

    def loss_terms(self, model: ChangeCaptioner) -> tuple[str, ...]:
        """See :meth:`rscc.training.objectives.Likelihood.loss_terms`."""
        return ("caption",)

    def losses(self, model: ChangeCaptioner, batch: PairBatch, *, place: tuple[int, int]) -> Losses:
        """See :meth:`rscc.training.objectives.Likelihood.losses`; the batch holds tokens only."""
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
    """
    device = next(model.parameters()).device
    text = CaptionText(model.vocabulary, model.config.max_words)
    lost, seen = 0.0, 0
    for batch, counts in counted_batches(sentences, text):
        assert batch.tokens is not None
        tokens, times = batch.tokens.to(device), counts.to(device)
        with torch.autocast(device.type, torch.bfloat16, enabled=bf16):
            logits = model.decoder(blank_memory(model, len(tokens)), tokens[:, :-1]).logits
        losses = F.cross_entropy(logits.float().transpose(1, 2), tokens[:, 1:], reduction="none")  # (B, L)
        real = tokens[:, 1:] != model.vocabulary.pad
        lost += float(((losses * real).sum(1) * times).sum())
        seen += int((real.sum(1) * times).sum())
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


def train_language(run: Run, train: Sequence[PairRecord], *, resume: bool) -> ModelFolder:
    """Train the decoder of a config's model on ``run.paths.corpus`` and write what it is a start for.

    The vocabulary holds the words of the training pairs too; they have captions.

    Raises:
        ConfigInvalid: no corpus, something given that only images need, or no decoder to train.
        DatasetLayoutInvalid: the corpus cannot be read.
        ModelFolderInvalid: a start that does not fit.
        NonFiniteLoss: see :meth:`rscc.training.loop.Trainer.run`.
    """
    config, paths = run.config, run.paths
    if paths.corpus is None:
        raise ConfigInvalid("train.objective 'language' learns a corpus of captions; give one with --corpus")
    if paths.trunk or paths.masks or paths.backbone_weights or paths.also or paths.roads or paths.labelled:
        raise ConfigInvalid(
            "train.objective 'language' sees no images; leave trunk, masks, roads, labels, "
            "weights and further folders out"
        )
    corpus = read_corpus(paths.corpus)
    backwards = [reverse_captions(sentences) for sentences in corpus.train] if config.data.reversed else []
    captions = [one for record in train for one in record.captions]
    captions += [one for sentences in (*corpus.train, *backwards) for one in sentences]
    start = None if paths.start is None else open_start(paths.start)
    learn_words = Vocabulary.build if start is None else start.vocabulary.extended
    vocabulary = learn_words(captions, config.data.min_count)
    torch.manual_seed(config.train.seed)
    model = model_class(config.model.paper)(
        config=config.model if start is None else start.prepared(config.model),
        backbone=build_backbone(config.model.backbone),
        vocabulary=vocabulary,
    )
    if start is not None:
        take_start(model, start)
    train_decoder_only(model)
    source = TextSource(
        corpus.train,
        CaptionText(vocabulary, config.model.max_words),
        batch_size=config.train.batch_size,
        seed=config.train.seed,
        augment=config.data.augment,
        reversed=config.data.reversed,
        backwards=backwards,
    )
    trainer = Trainer(
        model.to(run.device),
        source,
        text_validation(corpus, bf16=config.train.bf16),
        config=config,
        folder=paths.output,
        report=run.report,
        objective=Language(config.loss, label_smoothing=config.train.label_smoothing),
    )
    result = trainer.run(resume=resume)
    lengths = [sum(map(len, pairs)) for pairs in (corpus.train, corpus.val)]
    card = make_card(
        run,
        model,
        result,
        data=f"{lengths[0]} training and {lengths[1]} validation sentences",
        scores=result.best_scores,
        description=config.card.description
        or "language stage: a decoder that has seen sentences but no image",
        threshold=0.5,
        changed_threshold=0.0,
        localisation="nothing: it sees no images",
        limits=("Not for captioning: a start for rscc train --from.", *config.card.limits),
        localiser="attention",
        parts=LEARNT,
    )
    return save_model_folder(
        paths.output / "model",
        load_best(model, result),
        card=card,
        card_text=card_text(card, config),
        no_change_prefixes=(),
    )
