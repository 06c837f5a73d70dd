"""The counts that benchmarks/model_sizes.py prints, on small models, against counts by name and by hand."""

import model_sizes as sizes
import pytest
import torch
from tiny_models import tiny_config

from rscc.models import MODELS

pytestmark = pytest.mark.usefixtures("tiny_registered")

# Parts that only losses use, by the beginning of their names.
FOR_LOSSES = {
    "scorer": ("matching.", "reasoning."),
    "dirl": ("embed.",),
    "rdd": ("noun_tokens.", "verb_tokens."),
}


@pytest.mark.parametrize("paper", MODELS)
def test_every_parameter_is_counted_in_one_part(paper) -> None:
    model = sizes.build(tiny_config(paper))
    counts = sizes.count_parts(model, 64)
    assert tuple(counts) == sizes.PARTS
    assert sum(counts.values()) == sum(p.numel() for p in model.parameters())
    assert counts["trunk"] == sum(p.numel() for p in model.backbone.parameters())
    assert counts["decoder"] == sum(p.numel() for p in model.decoder.parameters())
    if paper in FOR_LOSSES:
        named = [p.numel() for n, p in model.named_parameters() if n.startswith(FOR_LOSSES[paper])]
        assert counts["auxiliary"] == sum(named) > 0


@pytest.mark.parametrize("paper", MODELS)
def test_a_caption_is_encoding_and_so_many_words(paper) -> None:
    model = sizes.build(tiny_config(paper, max_words=sizes.WORDS + 1))
    passes = []
    model.backbone.register_forward_hook(lambda *_: passes.append("trunk"))
    model.change_head.register_forward_hook(lambda *_: passes.append("head"))
    model.decoder.logits.register_forward_hook(lambda *_: passes.append("word"))
    with torch.no_grad():
        logits = sizes.caption(model, *sizes.generated_pair(3, 64))
    assert passes == ["trunk", *["word"] * sizes.WORDS]
    assert logits.shape == (3, sizes.VOCABULARY)
    assert sizes.seconds_per_pair(model, 64, 2, repeats=1, bf16=False) > 0


def test_operations_are_two_for_a_product_and_a_sum_and_attention_counts() -> None:
    """An added decoder layer costs what its matrices say; one memory of N tokens, 20 words."""
    found = {}
    for layers in (1, 2):
        model = sizes.build(tiny_config("dirl", decoder_layers=layers, max_words=sizes.WORDS + 1))
        found[layers] = sizes.operations(model, 64)
    width, tokens, words = 16, 16, sizes.WORDS
    projections = 2 * tokens + words * (4 + 2 + 8)  # memory; own attention, asking, feed-forward
    attention = words * tokens + sum(range(1, words + 1))  # over the memory; over the words so far
    assert found[2] - found[1] == 2 * (projections * width * width + 2 * attention * width)
