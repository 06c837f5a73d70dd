"""Sampled captions that score above the others of their pair become likelier, the others less likely."""

from pathlib import Path

import pytest
import torch
from tiny_models import CAPTIONS, WORDS, full_batch, tiny_model
from training_runs import (
    FixedSource,
    log_of,
    settings,
    sum_of_weights,
    whole_config,
)

from rscc.config import Config
from rscc.data.benchmarks.levir_cc import LevirCC
from rscc.data.pairs import PairRecord
from rscc.errors import ConfigInvalid
from rscc.models.shared.generation import sentence_log_probabilities
from rscc.text.parsing import Segments
from rscc.text.rewards import CiderD, Reward
from rscc.training.loop import Trainer
from rscc.training.objectives import (
    Likelihood,
    SelfCritical,
    leave_one_out,
    may_have_changed,
    reference_documents,
    self_critical,
)

LOSS = {"caption": 0.2, "n2o": 0.0, "v2a": 0.0, "changed": 0.5, "change_mask": 0.0, "reward": 1.0}


@pytest.fixture
def model():
    return tiny_model()


def batch_of(model, changed=(1.0, 0.0, 1.0, 1.0)):
    batch = full_batch(model, CAPTIONS)
    batch.changed = torch.tensor(changed)
    batch.references = [[caption] for caption in CAPTIONS]
    return batch


PREFERRED = frozenset(WORDS[::2])


def preferred_share(caption: str) -> float:
    return sum(word in PREFERRED for word in caption.split()) / len(caption.split())


class Prefers:
    """Rewards the share of every second word of the vocabulary, and keeps what it was asked."""

    def __init__(self):
        self.asked = []

    def __call__(self, captions, references):
        self.asked.append((list(captions), list(references)))
        return list(map(preferred_share, captions))


def cider() -> Reward:
    return Reward(CiderD(([caption], 1.0) for caption in CAPTIONS), {"cider": 1.0})


def test_the_baseline_is_the_mean_of_the_other_samples() -> None:
    rewards = torch.tensor([[1.0, 2.0, 6.0], [3.0, 3.0, 3.0]])
    assert leave_one_out(rewards).tolist() == [[-3.0, -1.5, 4.5], [0.0, 0.0, 0.0]]


def test_pairs_known_to_be_unchanged_are_not_sampled(model) -> None:
    batch = batch_of(model)
    batch.changed_known[3] = False
    batch.changed[3] = 0.0
    assert may_have_changed(batch, 4).tolist() == [0, 2, 3]
    reward = Prefers()
    objective = SelfCritical(LOSS, reward, samples=3)
    terms, measured = objective.losses(model, batch, place=(0, 0))
    assert set(terms) == {"caption", "changed", "reward"}
    assert [references for _, references in reward.asked] == [[CAPTIONS[i]] for i in (0, 2, 3)]
    assert all(len(captions) == 3 for captions, _ in reward.asked)
    assert measured["mean_reward"] == pytest.approx(
        sum(preferred_share(one) for captions, _ in reward.asked for one in captions) / 9
    )


def test_the_likelihood_terms_are_those_of_the_model(model) -> None:
    batch = batch_of(model)
    terms, _ = SelfCritical(LOSS, cider(), label_smoothing=0.1).losses(model, batch, place=(0, 0))
    likelihood = Likelihood({k: v for k, v in LOSS.items() if k != "reward"}, label_smoothing=0.1)
    expected, _ = likelihood.losses(model, batch, place=(0, 0))
    for name, value in expected.items():
        assert torch.equal(terms[name], value)


def test_a_batch_without_change_gives_a_reward_of_nought_and_a_weight_of_nought_none(model) -> None:
    objective = SelfCritical(dict.fromkeys(LOSS, 0.0) | {"reward": 1.0}, Prefers())
    terms, measured = objective.losses(model, batch_of(model, (0.0,) * 4), place=(0, 0))
    assert set(terms) == {"reward"}
    assert terms["reward"].item() == 0
    terms["reward"].backward()
    assert not measured
    reward = Prefers()
    terms, _ = SelfCritical(LOSS | {"reward": 0.0}, reward).losses(model, batch_of(model), place=(0, 0))
    assert set(terms) == {"caption", "changed"}
    assert not reward.asked


def test_without_references_it_says_so(model) -> None:
    with pytest.raises(ConfigInvalid, match="needs captions"):
        SelfCritical(LOSS, cider()).losses(model, full_batch(model, CAPTIONS), place=(0, 0))


@pytest.mark.parametrize("paper", ["rdd", "cheers"])
def test_samples_above_the_baseline_become_likelier(paper) -> None:
    """One step of plain descent raises every better sample's probability and lowers every worse one's."""
    model = tiny_model(paper)
    batch = batch_of(model, (1.0, 0.0, 0.0, 0.0))
    reward = Prefers()
    weights = dict.fromkeys(model.loss_terms(), 0.0) | {"reward": 1.0}
    objective = SelfCritical(weights, reward, samples=60)

    def likelihoods(sentences):
        with torch.no_grad():
            memory = model.memory(model.encode_batch(batch))[:1]
            return sentence_log_probabilities(model.decoder, memory, model.search_rules(), sentences)

    terms, _ = objective.losses(model, batch, place=(0, 1))
    ((drawn, _),) = reward.asked
    sentences = [model.vocabulary.encode(caption, 99)[1:-1] for caption in drawn]
    before = likelihoods(sentences)
    advantages = leave_one_out(torch.tensor([[preferred_share(one) for one in drawn]]))[0]
    assert terms["reward"].item() == pytest.approx(-(advantages * before).mean().item(), abs=1e-5)
    terms["reward"].backward()
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.grad is not None:
                parameter -= 1e-3 * parameter.grad
    change = likelihoods(sentences) - before
    assert change[advantages > 0].mean() > 1e-5
    assert change[advantages < 0].mean() < -1e-5


def test_dropout_is_off_while_sampling_and_on_again_afterwards() -> None:
    model = tiny_model(dropout=0.3).train()
    model.decoder.words.eval()
    modes = {name: part.training for name, part in model.named_modules()}
    seen = []
    model.decoder.logits.register_forward_hook(lambda part, *_: seen.append(part.training))
    SelfCritical(LOSS, cider()).losses(model, batch_of(model), place=(0, 0))
    assert {name: part.training for name, part in model.named_modules()} == modes
    assert (seen[0], seen[-1]) == (True, True)  # the caption term and the sampled sentences
    assert seen[1:-1] and not any(seen[1:-1])


def test_forbidden_beginnings_are_never_drawn(model) -> None:
    words = model.vocabulary.words[4:]
    allowed = ("villas", "are")
    rules = model.search_rules([[word] for word in words if word not in allowed])
    reward = Prefers()
    objective = SelfCritical(LOSS, reward, samples=20, rules=rules)
    terms, _ = objective.losses(model, batch_of(model), place=(0, 0))
    assert {one.split()[0] for captions, _ in reward.asked for one in captions} == set(allowed)
    assert torch.isfinite(terms["reward"])


def test_what_is_drawn_depends_on_seed_epoch_and_batch_alone(model) -> None:
    def drawn(seed, place):
        reward = Prefers()
        torch.rand(int(torch.randint(9, ())))
        SelfCritical(LOSS, reward, seed=seed).losses(model, batch_of(model), place=place)
        return reward.asked

    first = drawn(1, (0, 0))
    assert drawn(1, (0, 0)) == first
    assert all(drawn(*other) != first for other in ((2, (0, 0)), (1, (1, 0)), (1, (0, 1))))


def critical_config(**values) -> Config:
    return whole_config(settings(objective="self_critical", samples=3, **values), **LOSS)


@pytest.mark.slow
def test_training_raises_the_mean_reward(tmp_path) -> None:
    model = tiny_model(dropout=0.2)
    train = settings(objective="self_critical", epochs=25, bf16=False, learning_rate=3e-3)
    config = whole_config(train, **LOSS | {"caption": 0.0})
    Trainer(
        model,
        FixedSource(batch_of(model), batch_of(model, (0.0, 1.0, 0.0, 1.0))),
        sum_of_weights,
        config=config,
        folder=tmp_path,
        report=lambda line: None,
        objective=SelfCritical(config.loss, Prefers(), samples=3),
    ).run()
    losses = [line["loss"] for line in log_of(tmp_path)]
    assert set(losses[0]) == {"changed", "reward", "mean_reward", "total"}
    total = LOSS["changed"] * losses[0]["changed"] + LOSS["reward"] * losses[0]["reward"]
    assert losses[0]["total"] == pytest.approx(total, abs=1e-3)
    rewards = [one["mean_reward"] for one in losses]
    assert sum(rewards[-3:]) / 3 > sum(rewards[:3]) / 3 + 0.3


def test_the_objective_of_a_config_reads_the_training_pairs_alone(model, data) -> None:
    records = LevirCC(data, "train").records
    objective = self_critical(critical_config(), model, records)
    assert objective.samples == 3
    said = ["a house is built on the right side", "a villa"]
    right, wrong = objective.reward(said, ["one house is built"])
    assert right > wrong == 0
    beginning = model.vocabulary.encode("there is no", 9)[1:-1]
    assert objective.rules.forbidden.along([beginning]), "beginnings of sentences without change"


def test_the_nouns_of_a_penalty_come_from_the_parser(monkeypatch, data) -> None:
    def parsed(captions):
        nouns = ("house", "road", "tree")
        return [Segments((), (), words=tuple((w, w in nouns) for w in one.split())) for one in captions]

    monkeypatch.setattr("rscc.training.objectives.extract_segments", parsed)
    records = LevirCC(data, "train").records
    plain = self_critical(critical_config(), tiny_model(), records)
    strict = self_critical(critical_config(hallucination=0.5), tiny_model(), records)
    asked = (["a house is built", "a road is built"], ["one house is built"])
    lost = [a - b for a, b in zip(plain.reward(*asked), strict.reward(*asked), strict=True)]
    assert lost == pytest.approx([0.0, 0.5])


def test_wordings_count_as_often_as_they_are_shown() -> None:
    records = [
        PairRecord("a", Path("a"), Path("a"), captions=("a house on the left",), reversed_captions=("gone",)),
        PairRecord("b", Path("b"), Path("b"), captions=("no change",)),
    ]
    found = list(reference_documents(records, flips=("none", "horizontal"), reversed_share=0.25))
    sides = [(["a house on the left"], 0.375), (["a house on the right"], 0.375)]
    assert found == [*sides, *[(["gone"], 0.125)] * 2, *[(["no change"], 0.5)] * 2]
    plain = list(reference_documents(records, flips=("none",)))
    assert plain == [(["a house on the left"], 1.0), (["no change"], 1.0)]
