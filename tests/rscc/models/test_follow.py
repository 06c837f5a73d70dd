"""SCORER+CBR and DIRL+CCR by their released code, against slow transcriptions of what that computes."""

import math

import numpy as np
import pytest
from slow_blocks import randoms, slow_attention, slow_linear, slow_norm, values
from tiny_models import CAPTIONS, full_batch, joint_losses, pair_view, tiny_model
from torch import nn

from rscc.errors import ConfigInvalid

WIDTH, HEADS = 8, 2


def by_code(paper, **options):
    return tiny_model(paper, width=WIDTH, heads=HEADS, max_words=16, options={"follow": "code", **options})


def slow_entropy(similarity) -> float:
    """Cross-entropy of the diagonal, mean over the rows."""
    rows = np.asarray(similarity)
    return float(np.mean([np.logaddexp.reduce(row) - row[k] for k, row in enumerate(rows)]))


def slow_similarity(query: np.ndarray, key: np.ndarray) -> float:
    """Largest dot products over all heads at once, mean over the tokens, both ways."""
    table = [[float(np.dot(q, k)) for k in key] for q in query]
    return (
        np.mean([max(row) for row in table]) + np.mean([max(column) for column in zip(*table, strict=True)])
    ) / 2


def inputs_and_outputs(model, before, after):
    """The last layer's inputs, and what it makes of them; its attention has no output projection."""
    for layer in model.reconstruction:
        given = before, after
        before, after = (
            slow_norm(layer.norm, one + slow_attention(layer.attention, one, other))
            for one, other in (given, given[::-1])
        )
    return given, (before, after)


def test_scorer_rebuilds_without_an_output_projection() -> None:
    model = by_code("scorer", layers=3)
    before, after = randoms(1, 6, WIDTH), randoms(1, 6, WIDTH, seed=1)
    tokens = model.encode_pair(pair_view(before, after)).tokens
    _, rebuilt = inputs_and_outputs(model, values(before[0]), values(after[0]))
    slow = np.maximum(slow_linear(model.join, np.concatenate(rebuilt, axis=1)), 0)
    np.testing.assert_allclose(values(tokens[0]), slow, atol=2e-5)
    assert not any(".out." in name for name in model.reconstruction.state_dict())


@pytest.mark.parametrize("exponent", [1.0, 6.0])
def test_scorer_contrasts_as_its_code_does(exponent) -> None:
    model = by_code("scorer", layers=2)
    model.exponent.data.fill_(exponent)
    batch, terms, features, decoded = joint_losses(model)
    matching = model.reconstruction[-1].attention
    pairs = list(zip(values(features.before), values(features.after), strict=True))
    given = [inputs_and_outputs(model, *pair)[0] for pair in pairs]
    asking = [[slow_linear(matching.query, one) for one in pair] for pair in given]
    asked = [[slow_linear(matching.key, one) for one in pair] for pair in given]
    factor = min(math.exp(exponent), 100)
    forth, back = (
        [[factor * slow_similarity(q[date], k[1 - date]) for k in asked] for q in asking] for date in (0, 1)
    )
    slow = (slow_entropy(forth) + slow_entropy(back)) / 2
    assert float(terms["view"]) == pytest.approx(slow, rel=1e-3, abs=1e-4)

    places = 15  # of the longest sentence, whatever the batch's longest is
    assert batch.tokens.shape[1] - 1 < places
    reasoning, queries = model.reasoning, []
    for (before, _), words, ids in zip(
        pairs, values(decoded.hidden), batch.tokens[:, 1:].numpy(), strict=True
    ):
        sentence = sum(words[ids != model.vocabulary.pad]) / places  # padding counts as zeros
        fused = slow_linear(reasoning.fuse, np.stack([np.concatenate([place, sentence]) for place in before]))
        queries.append(
            slow_linear(reasoning.matching.query, slow_attention(reasoning.attention, fused, fused))
        )
    keys = [slow_linear(reasoning.matching.key, after) for _, after in pairs]
    similarity = np.array([[math.e * slow_similarity(q, k) for k in keys] for q in queries])
    slow = (slow_entropy(similarity) + slow_entropy(similarity.T)) / 2
    assert float(terms["backward"]) == pytest.approx(slow, rel=1e-3, abs=1e-4)


def test_backward_reasoning_teaches_but_is_not_taught() -> None:
    model = by_code("scorer").train()
    weights = dict.fromkeys(model.loss_terms(), 0.0) | {"backward": 1.0}
    model.losses(full_batch(model, CAPTIONS), weights)["backward"].backward()
    taught = {name.split(".")[0] for name, p in model.named_parameters() if p.grad is not None}
    assert {"decoder", "project", "join"} <= taught
    assert "reasoning" not in taught


def test_dirl_shares_by_layers_with_residual_and_norm() -> None:
    model = by_code("dirl", layers=3)
    before, after = randoms(1, 6, WIDTH), randoms(1, 6, WIDTH, seed=1)
    tokens = model.encode_pair(pair_view(before, after)).tokens
    first = one, other = values(before[0]), values(after[0])
    for layer in model.shared_layers:
        one, other = (
            slow_norm(layer.norm, image + slow_attention(layer.attention, image, shown))
            for image, shown in ((one, other), (other, one))
        )
    joined = slow_linear(model.join, np.concatenate([first[0] - one, first[1] - other], axis=1))
    slow = np.maximum(slow_norm(model.even[0], joined), 0)
    np.testing.assert_allclose(values(tokens[0]), slow, atol=5e-5)
    assert len(by_code("dirl").shared_layers) == 2, "as in the code"


def test_dirl_centres_channels_and_compares_words_with_what_holds_them() -> None:
    model = by_code("dirl", alpha=0.1, temperature=1.5)
    _, terms, features, decoded = joint_losses(model)
    first, last = model.embed[0], model.embed[-1]
    one, other = (
        np.concatenate([slow_linear(last, np.maximum(slow_linear(first, values(i)), 0)) for i in images])
        for images in (features.before, features.after)
    )
    c = np.corrcoef(one.T, other.T)[:WIDTH, WIDTH:]
    slow = sum((1 - np.diag(c)) ** 2) + 0.1 * (np.sum(c**2) - np.sum(np.diag(c) ** 2))
    assert float(terms["decorrelation"]) == pytest.approx(slow, rel=1e-3)

    layer = model.decoder.layers[-1]
    words, visual = [], []
    for sample in range(len(CAPTIONS)):
        asking = values(decoded.words[sample])
        found = slow_attention(layer.cross_attention, asking, values(features.tokens[sample]))
        words.append(np.mean(asking, axis=0))
        visual.append(np.mean(slow_norm(layer.norms[1], asking + found), axis=0))
    logits = np.array([[np.dot(w, v) / 1.5 for v in visual] for w in words])
    assert float(terms["ccr"]) == pytest.approx(slow_entropy((logits + logits.T) / 2), rel=1e-3)


@pytest.mark.parametrize(
    ("paper", "options"),
    [
        *((paper, {"follow": "text"}) for paper in ("scorer", "dirl")),
        *((paper, {"follow": "code", "difference": "subtraction"}) for paper in ("scorer", "dirl")),
        ("scorer", {"follow": "code", "matching": "mean"}),
    ],
    ids=str,
)
def test_other_readings_are_refused(paper, options) -> None:
    with pytest.raises(ConfigInvalid, match=r"model\.options\.follow"):
        tiny_model(paper, options=options)


@pytest.mark.parametrize(("follow", "dropped"), [("paper", []), ("code", [0.3])])
def test_the_codes_dropout_stands_where_it_does_there(follow, dropped) -> None:
    """In Eq. 7 of both, in Eq. 2 of DIRL+CCR."""
    scorer, dirl = (tiny_model(one, dropout=0.3, options={"follow": follow}) for one in ("scorer", "dirl"))
    for parts in ([scorer.drop], dirl.even.modules(), dirl.embed):
        assert [one.p for one in parts if isinstance(one, nn.Dropout) and one.p] == dropped
