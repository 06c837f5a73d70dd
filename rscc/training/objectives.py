"""What a step of the training loop learns: an objective turns a model and a batch into loss terms."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import torch
from torch import Tensor, nn

from rscc.config import Config
from rscc.data.pairs import FLIPS, PairRecord, flip_words
from rscc.errors import ConfigInvalid
from rscc.models.shared.captioner import ChangeCaptioner
from rscc.models.shared.generation import sample_search, sentence_log_probabilities
from rscc.models.shared.search_rules import SearchRules
from rscc.structures import DifferenceFeatures, PairBatch
from rscc.text.parsing import extract_segments
from rscc.text.rewards import CiderD, Reward, usual_nouns
from rscc.training.no_change import learns_the_flag, no_change_prefixes

Losses = tuple[dict[str, Tensor], dict[str, float]]


class Likelihood:
    """The terms of the model itself: captions word by word, change masks, flags, alignments.

    The loop weights them by the config and adds them up; other objectives give others.
    """

    def __init__(self, weights: dict[str, float], *, label_smoothing: float = 0.0):
        """Take the weights of the terms and the label smoothing of the caption cross-entropy."""
        self.weights, self.label_smoothing = weights, label_smoothing

    def loss_terms(self, model: ChangeCaptioner) -> tuple[str, ...]:
        """Return the names of all terms; the config must weight each of them, with 0 to leave one out."""
        return model.loss_terms()

    def losses(self, model: ChangeCaptioner, batch: PairBatch, *, place: tuple[int, int]) -> Losses:
        """Return the unweighted terms whose weight is above 0, and numbers that are only logged.

        Args:
            model: in training mode.
            batch: on the model's device.
            place: (epoch, batch within the epoch), both from 0; what is drawn at random depends on it alone.

        Raises:
            ConfigInvalid: a term that the batch cannot give.
        """
        return model.losses(batch, self.weights, label_smoothing=self.label_smoothing), {}


REWARD = "reward"


class SelfCritical(Likelihood):
    """The terms of the likelihood, and ``reward`` on sampled captions; logs the ``mean_reward``.

    Samples are drawn without dropout, as in use, and with the sentence beginnings forbidden that are
    forbidden in use; runs of words that are forbidden in use may be drawn, and are scored. Which words are
    drawn depends on (seed, epoch, batch) and the weights alone.
    """

    def __init__(
        self,
        weights: dict[str, float],
        reward: Reward,
        *,
        samples: int = 5,
        rules: SearchRules | None = None,
        seed: int = 1,
        label_smoothing: float = 0.0,
    ):
        """Take the weights of all terms, what scores a caption, and how many are drawn per pair (from 2)."""
        super().__init__(weights, label_smoothing=label_smoothing)
        self.reward, self.samples, self.rules, self.seed = reward, samples, rules, seed

    def loss_terms(self, model: ChangeCaptioner) -> tuple[str, ...]:
        """See :meth:`Likelihood.loss_terms`."""
        return (*super().loss_terms(model), REWARD)

    def losses(self, model: ChangeCaptioner, batch: PairBatch, *, place: tuple[int, int]) -> Losses:
        """See :meth:`Likelihood.losses`.

        Raises:
            ConfigInvalid: a term, or the references, that the batch does not hold.
        """
        features = model.encode_batch(batch)
        terms = model.losses_of(features, batch, self.weights, label_smoothing=self.label_smoothing)
        if not self.weights[REWARD] > 0:
            return terms, {}
        terms[REWARD], measured = self._reward_term(model, features, batch, place)
        return terms, measured

    def _reward_term(
        self, model: ChangeCaptioner, features: DifferenceFeatures, batch: PairBatch, place: tuple[int, int]
    ) -> tuple[Tensor, dict[str, float]]:
        if batch.references is None:
            raise ConfigInvalid(
                "train.objective 'self_critical' needs captions, which this data set does not give"
            )
        memory = model.memory(features)
        rows = may_have_changed(batch, len(memory))
        memory = memory[rows.to(memory.device)]
        if not len(rows):
            return memory.sum(), {}  # nothing to learn, but a term with a gradient all the same
        rules = self.rules or model.search_rules()
        epoch, number = place
        seed = ((self.seed * 1_000_003 + epoch) * 1_000_003 + number) % 2**63  # as large as a generator takes
        generator = torch.Generator(memory.device).manual_seed(seed)
        with torch.no_grad(), without_dropout(model.decoder):
            samples = sample_search(model.decoder, memory, rules, samples=self.samples, generator=generator)
        rewards = torch.tensor(
            [
                self.reward([model.vocabulary.decode(one.ids) for one in drawn], batch.references[row])
                for row, drawn in zip(rows.tolist(), samples, strict=True)
            ]
        )  # (R, K)
        sentences = [one.ids for drawn in samples for one in drawn]
        likely = sentence_log_probabilities(model.decoder, memory, rules, sentences)
        advantages = leave_one_out(rewards).to(likely.device)
        return -(advantages.flatten() * likely).mean(), {"mean_reward": rewards.mean().item()}


def leave_one_out(rewards: Tensor) -> Tensor:
    """Return r_k minus the mean of the other samples' rewards; (R, K) with K of at least 2."""
    count = rewards.shape[1]
    return (rewards - rewards.mean(1, keepdim=True)) * (count / (count - 1))


def may_have_changed(batch: PairBatch, count: int) -> Tensor:
    """Return the places of the pairs of a batch of ``count`` that are not known to be unchanged."""
    if batch.changed is None or batch.changed_known is None:
        return torch.arange(count)
    return ((batch.changed > 0) | ~batch.changed_known).nonzero().squeeze(1).cpu()


@contextmanager
def without_dropout(module: nn.Module) -> Iterator[None]:
    """Put a module into evaluation mode; afterwards each of its parts is in the mode that it was in."""
    training = [part for part in module.modules() if part.training]
    module.eval()
    try:
        yield
    finally:
        for part in training:
            part.training = True


def reference_documents(
    records: Sequence[PairRecord], *, flips: Sequence[str], reversed_share: float = 0.0
) -> Iterator[tuple[list[str], float]]:
    """Yield the references of each pair in every wording of a training, and how often it has that wording."""
    for record in records:
        backwards = reversed_share if record.reversed_captions else 0.0
        for captions, share in ((record.captions, 1 - backwards), (record.reversed_captions, backwards)):
            for flip in flips if share else ():
                yield [flip_words(caption, flip) for caption in captions], share / len(flips)


def self_critical(config: Config, model: ChangeCaptioner, train: Sequence[PairRecord]) -> SelfCritical:
    """Make the objective of a config; document frequencies and nouns come from the training pairs alone.

    Raises:
        ExtraNotInstalled, WeightsNotFound: ``train.hallucination`` needs the parser, which is not installed.
    """
    settings = config.train
    flips = FLIPS if config.data.augment else FLIPS[:1]
    documents = reference_documents(train, flips=flips, reversed_share=config.data.reversed)
    nouns: frozenset[str] = frozenset()
    if settings.hallucination > 0:
        captions = (one for record in train for one in (*record.captions, *record.reversed_captions))
        nouns = usual_nouns(one.words for one in extract_segments(captions))
    prefixes = no_change_prefixes(train) if learns_the_flag(config, train) else []
    return SelfCritical(
        config.loss,
        Reward(CiderD(documents), settings.reward, nouns=nouns, hallucination=settings.hallucination),
        samples=settings.samples,
        rules=model.search_rules(prefixes),
        seed=settings.seed,
        label_smoothing=settings.label_smoothing,
    )
