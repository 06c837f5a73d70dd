"""The training steps of the released codes of SCORER+CBR and DIRL+CCR, written out with plain tensors."""

import math

import pytest
import torch
from tiny_models import CAPTIONS, full_batch, tiny_model
from torch import Tensor, nn
from torch.nn import functional as F

from rscc.config import ModelConfig
from rscc.models import scorer
from rscc.models.shared.blocks import Attention
from rscc.models.shared.captioner import ChangeCaptioner
from rscc.models.shared.released_code import ReleasedDecoder
from rscc.structures import PairBatch

WIDTH, HEADS, WORDS = 8, 2, 16
CODES = [("scorer", "code"), ("dirl", "code"), ("dirl", "code-clevr-change")]


def released(paper: str, follow: str = "code", **options) -> ChangeCaptioner:
    options = {"follow": follow, **options}
    return tiny_model(paper, width=WIDTH, heads=HEADS, max_words=WORDS, options=options)


def attention(part: Attention, asking: Tensor, asked: Tensor, hidden: Tensor | None = None) -> Tensor:
    """Softmax of q k / sqrt(d) over the keys that are not hidden, times v, head by head."""
    outputs = []
    heads = zip(
        *(
            layer(x).chunk(HEADS, -1)
            for layer, x in ((part.query, asking), (part.key, asked), (part.value, asked))
        ),
        strict=True,
    )
    for query, key, value in heads:
        scores = torch.einsum("blc,bmc->blm", query, key) / math.sqrt(query.shape[-1])
        if hidden is not None:
            scores = scores.masked_fill(hidden, float("-inf"))
        outputs.append(scores.softmax(-1) @ value)
    joined = torch.cat(outputs, -1)
    return part.out(joined) if isinstance(part.out, nn.Linear) else joined


def norm(x: Tensor, layer: nn.LayerNorm, epsilon: float) -> Tensor:
    centred = x - x.mean(-1, keepdim=True)
    deviation = (centred.square().mean(-1, keepdim=True) + epsilon).sqrt()
    return centred / deviation * layer.weight + layer.bias


def tokens_of(model: ChangeCaptioner, images: Tensor, *, coordinates: bool) -> Tensor:
    """Eq. 1, position by position."""
    maps = model.backbone(images)[-1]
    height, width = maps.shape[-2:]

    def along(vectors: Tensor, size: int) -> Tensor:
        places = [index * (len(vectors) - 1) / (size - 1) for index in range(size)]
        low = [min(int(place), len(vectors) - 2) for place in places]
        return torch.stack(
            [vectors[k] * (k + 1 - p) + vectors[k + 1] * (p - k) for k, p in zip(low, places, strict=True)]
        )

    columns, rows = along(model.positions.columns, width), along(model.positions.rows, height)
    tokens = []
    for row in range(height):
        for column in range(width):
            place = torch.tensor([2 * column / width - 1, 2 * row / height - 1]).expand(len(maps), 2)
            value = maps[:, :, row, column]
            value = torch.cat([value, place], 1) if coordinates else value
            tokens.append(model.project(value) + torch.cat([columns[column], rows[row]]))
    return torch.stack(tokens, 1)


def embedded(model: ChangeCaptioner, tokens: Tensor) -> Tensor:
    """Words plus sines and cosines of their places, projected."""
    width = model.config.word_width
    places = torch.zeros(tokens.shape[1], width)
    for place in range(tokens.shape[1]):
        for channel in range(width):
            angle = place / 10_000 ** ((channel - channel % 2) / width)
            places[place, channel] = math.cos(angle) if channel % 2 else math.sin(angle)
    return model.decoder.widen(model.decoder.words.weight[tokens] + places)


def hidden_keys(model: ChangeCaptioner, tokens: Tensor) -> Tensor:
    """(B, L, L): later words and padding."""
    later = torch.ones(tokens.shape[1], tokens.shape[1]).triu(1).bool()
    return later | (tokens == model.vocabulary.pad)[:, None]


def padded(model: ChangeCaptioner, batch: PairBatch) -> Tensor:
    tokens = torch.full((len(batch.tokens), WORDS), model.vocabulary.pad)
    tokens[:, : batch.tokens.shape[1]] = batch.tokens
    return tokens


def caption_loss(model: ChangeCaptioner, hidden: Tensor, tokens: Tensor) -> Tensor:
    """Mean over all words of the batch."""
    log = model.decoder.logits(hidden).log_softmax(-1)
    losses = [
        -log[sample, place, tokens[sample, place + 1]]
        for sample in range(len(tokens))
        for place in range(WORDS - 1)
        if tokens[sample, place + 1] != model.vocabulary.pad
    ]
    return torch.stack(losses).mean()


def contrast(similarity: Tensor) -> Tensor:
    return -similarity.log_softmax(-1).diagonal().mean()


def best_matches(queries: Tensor, keys: Tensor) -> Tensor:
    similar = torch.einsum("ald,bmd->ablm", queries, keys)
    return (similar.amax(3).mean(2) + similar.amax(2).mean(2)) / 2


def scorer_step(model: ChangeCaptioner, batch: PairBatch) -> dict[str, Tensor]:
    before, after = (tokens_of(model, x, coordinates=True) for x in (batch.before, batch.after))
    one, other = before, after
    for layer in model.reconstruction:
        part, last = layer.attention, (one, other)
        forth = best_matches(part.query(one), part.key(other))
        back = best_matches(part.query(other), part.key(one))
        one = norm(last[0] + attention(part, *last), layer.norm, 1e-6)
        other = norm(last[1] + attention(part, *last[::-1]), layer.norm, 1e-6)
    memory = model.join(torch.cat([one, other], -1)).relu()
    factor = min(math.exp(float(model.exponent)), 100)
    view = (contrast(factor * forth) + contrast(factor * back)) / 2

    tokens = padded(model, batch)
    x = norm(embedded(model, tokens), model.decoder.finish[1], 1e-6)
    for layer in model.decoder.layers:
        x = norm(x + attention(layer.self_attention, x, x, hidden_keys(model, tokens)), layer.norms[0], 1e-6)
        x = norm(x + attention(layer.cross_attention, x, memory), layer.norms[1], 1e-6)
        hidden = F.gelu(layer.widen(x))
        x = norm(hidden + layer.feed_forward[0](hidden), layer.norms[2], 1e-6)

    known = (tokens != model.vocabulary.pad).float()
    sentence = (x * known[..., None]).sum(1) / WORDS
    part = model.reasoning
    fused = part.fuse(torch.cat([before, sentence[:, None].expand_as(before)], -1))
    imagined = part.finish(attention(part.attention, fused, fused))
    similar = math.e * best_matches(part.matching.query(imagined), part.matching.key(after))
    backward = (contrast(similar) + contrast(similar.T)) / 2
    return {"caption": caption_loss(model, x, tokens), "view": view, "backward": backward}


def dirl_step(model: ChangeCaptioner, batch: PairBatch) -> dict[str, Tensor]:
    on_dc = model.options.follow == "code"
    before, after = (tokens_of(model, x, coordinates=not on_dc) for x in (batch.before, batch.after))
    standard = []
    for image in (before, after):
        samples = model.embed(image).flatten(0, 1)
        standard.append((samples - samples.mean(0)) / samples.std(0, unbiased=True))
    correlation = standard[0].T @ standard[1] / len(standard[0])
    same = torch.eye(WIDTH).bool()
    decorrelation = (correlation[same] - 1).square().sum() + 0.003 * correlation[~same].square().sum()

    one, other = before, after
    for layer in model.shared_layers:
        one, other = (
            norm(x + attention(layer.attention, x, y), layer.norm, 1e-5)
            for x, y in ((one, other), (other, one))
        )
    memory = model.join(torch.cat([before - one, after - other], -1))
    memory = (norm(memory, model.even[0], 1e-5) if on_dc else memory).relu()

    tokens = padded(model, batch)
    x = embedded(model, tokens)
    x = norm(x, model.decoder.finish[0], 1e-5) if on_dc else x
    for layer in model.decoder.layers:
        words = norm(
            x + attention(layer.self_attention, x, x, hidden_keys(model, tokens)), layer.norms[0], 1e-5
        )
        seen = norm(words + attention(layer.cross_attention, words, memory), layer.norms[1], 1e-5)
        net = layer.feed_forward
        x = norm(seen + net[3](net[0](seen).relu()), layer.norms[2], 1e-5)
    text, visual = words.mean(1), seen.mean(1)
    similar = (text @ visual.T / 0.5 + visual @ text.T / 0.5) / 2
    return {
        "caption": caption_loss(model, x, tokens),
        "decorrelation": decorrelation,
        "ccr": contrast(similar),
    }


STEPS = {"scorer": scorer_step, "dirl": dirl_step}


@pytest.mark.parametrize("layers", [1, 3])
@pytest.mark.parametrize(("paper", "follow"), CODES)
@torch.no_grad()
def test_the_training_step_is_that_of_the_released_code(paper, follow, layers) -> None:
    model = released(paper, follow, layers=layers)
    batch = full_batch(model, CAPTIONS)
    assert (batch.tokens == model.vocabulary.pad).any()
    assert batch.tokens.shape[1] < WORDS
    weights = dict.fromkeys(model.loss_terms(), 0.0) | dict.fromkeys(model.auxiliary_terms, 1.0)
    terms = model.losses(batch, weights | {"caption": 1.0})
    halves = [STEPS[paper](model, batch.select(torch.tensor(rows))) for rows in ([1, 3], [0, 2])]
    for name in ("caption", *model.auxiliary_terms):
        expected = sum(float(half[name]) for half in halves) / 2
        assert float(terms[name]) == pytest.approx(expected, rel=1e-4, abs=1e-4), name


@pytest.mark.parametrize(("paper", "follow"), CODES)
@torch.no_grad()
def test_pairs_of_unknown_kind_are_one_batch(paper, follow) -> None:
    model = released(paper, follow)
    batch = full_batch(model, CAPTIONS)
    batch.changed = batch.changed_known = None
    weights = dict.fromkeys(model.loss_terms(), 0.0) | {model.auxiliary_terms[-1]: 1.0}
    (value,) = model.losses(batch, weights).values()
    assert float(value) == pytest.approx(
        float(STEPS[paper](model, batch)[model.auxiliary_terms[-1]]), rel=1e-4
    )


@torch.no_grad()
def test_the_learnt_factor_of_the_similarities_is_limited() -> None:
    model = released("scorer")
    batch = full_batch(model, CAPTIONS)
    weights = dict.fromkeys(model.loss_terms(), 0.0) | {"view": 1.0}
    values = []
    for exponent in (math.log(100), 6.0):
        model.exponent.fill_(exponent)
        values.append(float(model.losses(batch, weights)["view"]))
    assert values[0] == pytest.approx(values[1])


def fresh(paper: str, follow: str) -> ChangeCaptioner:
    torch.manual_seed(1)
    model = released(paper, follow)
    return type(model)(config=model.config, backbone=model.backbone, vocabulary=model.vocabulary)


@torch.no_grad()
def test_new_models_start_as_the_released_codes_do() -> None:
    model = fresh("scorer", "code")
    assert float(model.positions.rows.std()) == pytest.approx(1, abs=0.3)
    assert float(model.decoder.logits.weight.std()) == pytest.approx(0.02, rel=0.3)
    assert not any(p.requires_grad for p in model.reasoning.parameters())
    dirl = fresh("dirl", "code")
    for part in (dirl.project, dirl.decoder.logits, dirl.decoder.layers[0].cross_attention.out):
        bound = math.sqrt(6 / sum(part.weight.shape))
        assert bound / 2 < float(part.weight.abs().max()) <= bound
    assert not dirl.decoder.layers[0].cross_attention.out.bias.any()
    query = dirl.shared_layers[0].attention.query.weight
    assert float(query.abs().max()) <= math.sqrt(6 / (4 * WIDTH))
    assert float(fresh("dirl", "code-clevr-change").decoder.words.weight.std()) == pytest.approx(1, abs=0.3)


def test_the_decoder_of_scorer_is_as_small_as_in_the_released_code() -> None:
    """It has 4.43 million parameters at the paper's sizes with the 76 words of CLEVR-Change."""
    decoder = ReleasedDecoder(
        config=ModelConfig(),
        vocabulary_size=76,
        pad=0,
        layer=scorer.CodeDecoderLayer,
        finish=nn.LayerNorm(512),
    )
    assert sum(p.numel() for p in decoder.parameters()) == pytest.approx(4.43e6, abs=0.005e6)


@pytest.mark.parametrize(("paper", "follow"), CODES)
def test_word_by_word_decoding_equals_teacher_forcing(paper, follow) -> None:
    model = released(paper, follow)
    batch = full_batch(model, CAPTIONS[2:3])
    with torch.no_grad():
        features = model.encode(batch.before, batch.after)
        memory = model.memory(features)
        whole = model.decoder(memory, batch.tokens).logits
        cache = model.decoder.start(memory)
        steps = [model.decoder.step(batch.tokens[:, place], cache) for place in range(batch.tokens.shape[1])]
    torch.testing.assert_close(torch.stack(steps, 1), whole, atol=1e-4, rtol=1e-4)
