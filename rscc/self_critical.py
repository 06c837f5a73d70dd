"""Self-critical training: captions that the model draws itself are scored, and the better ones made likelier.

Rennie et al. (2017) compare the reward of a drawn caption with that of the greedy one; here the baseline is
the mean reward of the other samples of the same pair (Luo 2020), which needs no further search. With the
reward r_k and the mean log-probability per word l_k of sample k of K::

    loss = -mean_k (r_k - b_k) * l_k,    b_k = mean of r_j over j != k

Pairs that are known to be unchanged are not sampled: in use, P(anything changed) answers for them. They keep
the terms of the likelihood, as all pairs do.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import torch
from torch import Tensor, nn

from rscc.config import Config
from rscc.data.pairs import FLIPS, PairRecord, flip_words
from rscc.errors import ConfigInvalid
from rscc.finishing import learns_the_flag, no_change_prefixes
from rscc.language import words_and_nouns
from rscc.models.captioner_base import ChangeCaptioner
from rscc.models.generation import ForbiddenWords, sample_search, sentence_log_probabilities
from rscc.objectives import Likelihood
from rscc.rewards import CiderD, Reward, usual_nouns
from rscc.structures import DifferenceFeatures, PairBatch

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
        forbidden: ForbiddenWords | None = None,
        seed: int = 1,
        label_smoothing: float = 0.0,
    ):
        """Take the weights of all terms, what scores a caption, and how many are drawn per pair (from 2)."""
        super().__init__(weights, label_smoothing=label_smoothing)
        self.reward, self.samples, self.forbidden, self.seed = reward, samples, forbidden, seed

    def loss_terms(self, model: ChangeCaptioner) -> tuple[str, ...]:
        """See :meth:`rscc.objectives.Objective.loss_terms`."""
        return (*super().loss_terms(model), REWARD)

    def losses(
        self, model: ChangeCaptioner, batch: PairBatch, *, place: tuple[int, int]
    ) -> tuple[dict[str, Tensor], dict[str, float]]:
        """See :meth:`rscc.objectives.Objective.losses`.

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
        settings = model.search_settings(self.forbidden)
        generator = torch.Generator(memory.device).manual_seed(_seed(self.seed, *place))
        with torch.no_grad(), without_dropout(model.decoder):
            found = sample_search(
                model.decoder, memory, samples=self.samples, generator=generator, **settings
            )
        rewards = torch.tensor(
            [
                self.reward([model.vocabulary.decode(one.ids) for one in drawn], batch.references[row])
                for row, drawn in zip(rows.tolist(), found, strict=True)
            ]
        )  # (R, K)
        sentences = [one.ids for drawn in found for one in drawn]
        likely = sentence_log_probabilities(model.decoder, memory, sentences, **settings)
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


def _seed(seed: int, epoch: int, batch: int) -> int:
    return (seed * 1_000_003 + epoch) * 1_000_003 + batch


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
        nouns = usual_nouns(words_and_nouns(captions))
    prefixes = no_change_prefixes(train) if learns_the_flag(config, train) else []
    return SelfCritical(
        config.loss,
        Reward(CiderD(documents), settings.reward, nouns=nouns, hallucination=settings.hallucination),
        samples=settings.samples,
        forbidden=ForbiddenWords.of_words(prefixes, model.vocabulary),
        seed=settings.seed,
        label_smoothing=settings.label_smoothing,
    )
