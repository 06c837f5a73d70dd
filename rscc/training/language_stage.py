"""The language stage: the decoder alone learns captions, without images, as a start for captioners.

The corpus is JSON, or gzipped JSON (``.json.gz``): ``{"train": [...], "val": [...]}``, each a list of
``{"filename": text, "sentences": [text, ...]}`` with the sentences of one pair. Other keys are ignored.
"""

import math
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional as F

from rscc.config import Config
from rscc.data.benchmarks.annotations import clean_captions, list_of
from rscc.data.pairs import FLIPS, PairRecord, flip_words
from rscc.data.sources import CaptionText
from rscc.errors import ConfigInvalid, DatasetLayoutInvalid
from rscc.files import parsed_json, read_file
from rscc.model_folder import ModelFolder, save_model_folder
from rscc.models.backbones import build_backbone
from rscc.models.cheers import GatedLayer
from rscc.models.papers import model_class
from rscc.models.shared.captioner import ChangeCaptioner
from rscc.models.shared.decoder import CaptionDecoder
from rscc.models.shared.losses import caption_cross_entropy
from rscc.sequences import batches
from rscc.structures import PairBatch
from rscc.text.no_change import is_no_change
from rscc.text.reversal import reverse_captions
from rscc.text.vocabulary import Vocabulary
from rscc.training.card_text import card_text, make_card
from rscc.training.training_loop import Losses, Trainer, Validate, load_best
from rscc.training.training_run import Run, load_start, open_start

TRAINED_PARTS = ("decoder.",)


@dataclass(frozen=True)
class TextCorpus:
    """Sentences by pair, lower case; pairs without any are left out."""

    train: tuple[tuple[str, ...], ...]
    val: tuple[tuple[str, ...], ...]


def read_corpus(path: str | Path) -> TextCorpus:
    """Read the training and the validation split of a corpus file.

    Raises:
        DatasetLayoutInvalid: the file is missing, no JSON, has another layout, or an empty split.
    """
    path = Path(path)
    if not path.is_file():
        raise DatasetLayoutInvalid(f"{path}: no such file; give a corpus of captions (.json or .json.gz)")
    try:
        content = parsed_json(read_file(path))
        splits = [
            tuple(filter(None, (clean_captions(pair["sentences"]) for pair in list_of(content[split], dict))))
            for split in ("train", "val")
        ]
    except (OSError, EOFError, ValueError, LookupError, TypeError) as error:
        raise DatasetLayoutInvalid(
            f"{path}: not a corpus of captions ({error!r}); see rscc/training/language_stage.py"
        ) from error
    for name, pairs in zip(("train", "val"), splits, strict=True):
        if not pairs:
            raise DatasetLayoutInvalid(f"{path}: no sentence in its split {name!r}; give a corpus with both")
    return TextCorpus(*splits)


@dataclass
class TextSource:
    """Batches of captions alone, one random caption per pair; a :class:`~rscc.data.sources.BatchSource`.

    Attributes:
        config: batch size, seed, ``data.augment`` (flip the words of direction at random) and
            ``data.reversed`` (share of pairs that use a sentence of ``reversed_pairs``).
        reversed_pairs: the sentences of each pair that are true when its dates are swapped, or none; unused
            if ``data.reversed`` is 0.
    """

    pairs: Sequence[Sequence[str]]
    text: CaptionText
    config: Config
    reversed_pairs: Sequence[Sequence[str]] = ()

    def steps(self) -> int:
        """Return the number of batches in an epoch."""
        return -(-len(self.pairs) // self.config.train.batch_size)

    def epoch(self, number: int) -> Iterator[PairBatch]:
        """Yield the batches of epoch ``number``, counted from 0; they hold tokens only."""
        settings = self.config.train
        rng = np.random.default_rng((settings.seed, number))
        order = rng.permutation(len(self.pairs)).tolist()
        for start in range(0, len(order), settings.batch_size):
            chosen = [self._sentence(i, rng) for i in order[start : start + settings.batch_size]]
            yield text_batch(chosen, self.text)

    def _sentence(self, index: int, rng: np.random.Generator) -> str:
        data, sentences = self.config.data, self.pairs[index]
        if data.reversed and self.reversed_pairs[index] and rng.random() < data.reversed:
            sentences = self.reversed_pairs[index]
        sentence = sentences[int(rng.integers(len(sentences)))]
        return flip_words(sentence, FLIPS[int(rng.integers(len(FLIPS)))]) if data.augment else sentence


def text_batch(sentences: Sequence[str], text: CaptionText) -> PairBatch:
    """Return a batch that holds only the tokens of sentences."""
    batch = PairBatch()
    text.add(batch, sentences)
    return batch


def blank_memory(model: ChangeCaptioner, count: int) -> Tensor:
    """Return an empty memory of zeros, (B, 1, D); for gated decoders one more zero vector per entity."""
    entities = max((m.entities for m in model.decoder.modules() if isinstance(m, GatedLayer)), default=0)
    weight = next(model.decoder.parameters())
    return torch.zeros(count, entities + 1, model.config.width, device=weight.device)


def train_decoder_only(model: ChangeCaptioner) -> None:
    """Freeze everything but the decoder.

    Raises:
        ConfigInvalid: the decoder is a trained language model already.
    """
    if not isinstance(model.decoder, CaptionDecoder):
        raise ConfigInvalid(
            f"train.objective 'language': {model.config.backbone} has a trained language model already"
        )
    for name, parameter in model.named_parameters():
        if not name.startswith(TRAINED_PARTS):
            parameter.requires_grad_(False)


def language_losses(config: Config) -> Losses:
    """Return the cross-entropy of captions without images, as the only loss term.

    Raises:
        ConfigInvalid: ``caption`` has no weight, or another term has one.
    """
    others = [name for name, weight in config.loss.items() if weight > 0 and name != "caption"]
    if others:
        raise ConfigInvalid(
            f"loss.{others[0]} needs images; train.objective 'language' has none: set it to 0"
        )
    if "caption" not in config.loss:
        raise ConfigInvalid("loss.caption has no weight; train.objective 'language' learns nothing else")

    def losses(model: ChangeCaptioner, batch: PairBatch) -> dict[str, Tensor]:
        assert batch.tokens is not None
        decoded = model.decoder(blank_memory(model, len(batch.tokens)), batch.tokens[:, :-1])
        entropy = caption_cross_entropy(
            decoded.logits,
            batch.tokens,
            pad=model.vocabulary.pad,
            label_smoothing=config.train.label_smoothing,
        )
        return {"caption": entropy}

    return losses


@torch.no_grad()
def perplexity(model: ChangeCaptioner, sentences: Sequence[str], *, bf16: bool = True) -> float:
    """Return exp of the mean negative log-likelihood of a word, including the end of the sentence.

    Args:
        sentences: at least one; a word that is not in the vocabulary counts as ``<unk>``.
    """
    device = next(model.parameters()).device
    text = CaptionText(model.vocabulary, model.config.max_words)
    total, words = 0.0, 0
    occurrences = Counter(sentences)
    # By length: a batch then has little padding.
    ordered = sorted(occurrences, key=lambda sentence: (len(sentence.split()), sentence))
    for part in batches(ordered, 256):
        batch = text_batch(part, text)
        assert batch.tokens is not None
        tokens = batch.tokens.to(device)
        counts = torch.tensor([occurrences[sentence] for sentence in part], device=device)
        with torch.autocast(device.type, torch.bfloat16, enabled=bf16):
            logits = model.decoder(blank_memory(model, len(tokens)), tokens[:, :-1]).logits
        losses = F.cross_entropy(logits.float().transpose(1, 2), tokens[:, 1:], reduction="none")  # (B, L)
        is_word = tokens[:, 1:] != model.vocabulary.pad
        total += float(((losses * is_word).sum(1) * counts).sum())
        words += int((is_word.sum(1) * counts).sum())
    return math.exp(total / words)


def text_validation(corpus: TextCorpus, *, bf16: bool = True) -> Validate:
    """Return the validation of the language stage.

    It gives the perplexity of the validation sentences (``perplexity``), of those that describe a change
    (``perplexity_changed``) and of about as many training sentences (``perplexity_train``).
    """
    val = [sentence for sentences in corpus.val for sentence in sentences]
    step = max(1, len(corpus.train) // len(corpus.val))
    train = [sentence for sentences in corpus.train[::step] for sentence in sentences]
    changed = [sentence for sentence in val if not is_no_change(sentence)]

    def validate(model: ChangeCaptioner) -> dict[str, float]:
        parts = {"perplexity": val, "perplexity_changed": changed, "perplexity_train": train}
        return {name: perplexity(model, part, bf16=bf16) for name, part in parts.items() if part}

    return validate


def train_language(run: Run, train: Sequence[PairRecord], *, resume: bool) -> ModelFolder:
    """Train the decoder of a config's model on ``run.paths.corpus`` and write a folder to start from.

    The vocabulary also holds the words of the training pairs' captions.

    Raises:
        ConfigInvalid: no corpus, an input that needs images, or no decoder to train.
    """
    config, paths = run.config, run.paths
    if paths.corpus is None:
        raise ConfigInvalid("train.objective 'language' learns a corpus of captions; give one with --corpus")
    if paths.trunk or paths.masks or paths.backbone_weights or paths.also or paths.roads or paths.labelled:
        raise ConfigInvalid(
            "train.objective 'language' reads no images; leave trunk, masks, roads, labels, "
            "weights and further folders out"
        )
    corpus = read_corpus(paths.corpus)
    swapped = [reverse_captions(sentences) for sentences in corpus.train] if config.data.reversed else []
    model = _build_language_model(run, train, [*corpus.train, *swapped])
    trainer = Trainer(
        model.to(run.device),
        TextSource(corpus.train, CaptionText(model.vocabulary, config.model.max_words), config, swapped),
        text_validation(corpus, bf16=config.train.bf16),
        config=config,
        folder=paths.output,
        report=run.report,
        losses=language_losses(config),
    )
    result = trainer.run(resume=resume)
    train_count, val_count = (sum(map(len, pairs)) for pairs in (corpus.train, corpus.val))
    card = make_card(
        run,
        model,
        result,
        data=f"{train_count} training and {val_count} validation sentences",
        scores=result.best_scores,
        description=config.card.description
        or "language stage: a decoder that has seen sentences but no image",
        threshold=0.5,
        changed_threshold=0.0,
        localisation="nothing: it sees no images",
        limits=("Not for captioning: a start for rscc train --from.", *config.card.limits),
        localiser="attention",
        parts=TRAINED_PARTS,
    )
    return save_model_folder(
        paths.output / "model",
        load_best(model, result),
        card=card,
        card_text=card_text(card, config),
        no_change_prefixes=(),
    )


def _build_language_model(
    run: Run, train: Sequence[PairRecord], corpus: Sequence[Sequence[str]]
) -> ChangeCaptioner:
    config = run.config
    start = None if run.paths.start is None else open_start(run.paths.start)
    captions = [caption for record in train for caption in record.captions]
    captions += [sentence for sentences in corpus for sentence in sentences]
    build_vocabulary = Vocabulary.build if start is None else start.vocabulary.extended
    vocabulary = build_vocabulary(captions, config.data.min_count)
    torch.manual_seed(config.train.seed)
    model = model_class(config.model.paper)(
        config=config.model if start is None else start.prepared(config.model),
        backbone=build_backbone(config.model.backbone),
        vocabulary=vocabulary,
    )
    if start is not None:
        load_start(model, start)
    train_decoder_only(model)
    return model
