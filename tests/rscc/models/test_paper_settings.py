"""What the options, the loss terms and the configs of the papers' models decide."""

from dataclasses import replace

import numpy as np
import pytest
from tiny_models import (
    CAPTIONS,
    full_batch,
    pair_view,
    randoms,
    slow_linear,
    tiny_model,
    tiny_vocabulary,
    values,
)

from rscc.configs import load_config
from rscc.errors import ConfigInvalid, RsccError
from rscc.models.papers import MODELS
from rscc.training import train_model as runs

BAD_OPTIONS = {
    "scorer": {
        **{"layers": (0, 1.5), "matching_heads": (0, 3), "temperature": (0,)},
        **{"difference": ("addition",), "depth": (1,), "matching": ("sum",), "follow": ("text",)},
    },
    "dirl": {
        **{"alpha": (-0.1,), "diagonal": (-1,), "temperature": (0,), "difference": ("both",)},
        **{"beta": (1,), "follow": ("text",)},
    },
    "rdd": {
        **{"prompt": ("both",), "attributes": ("V-N",), "temperature": (0,), "object_vectors": (0,)},
        **{"distilling_steps": (0,), "vectors": (3,), "action_vectors": (2.5,), "memory": ("vectors",)},
    },
    "cheers": {
        **{"layers": (0,), "entities": (0, 6), "temperature": (0,), "retriever": ("clip",)},
        **{"phrases": ("verbs",), "least_count": (0,), "gates": (True,), "most_entities": (2,)},
    },
    "davir": {
        **{"size": ("small",), "attention_loss": ("l1",), "sigma_of": ("other",), "entities": (0, 6)},
        **{"blur": (-1.0,), "retriever": ("clip",), "delta": (-1.0,), "retrieval": ("chance",)},
    },
}


@pytest.mark.parametrize(
    ("paper", "options"),
    [
        *(
            (paper, {name: value})
            for paper, by_name in BAD_OPTIONS.items()
            for name, several in by_name.items()
            for value in several
        ),
        *((paper, {"follow": "code", "difference": "subtraction"}) for paper in ("scorer", "dirl")),
        ("scorer", {"follow": "code", "matching": "mean"}),
    ],
)
def test_bad_options_are_refused(paper, options) -> None:
    with pytest.raises(ConfigInvalid):
        tiny_model(paper, options=options)


@pytest.mark.parametrize(
    ("paper", "options", "missing"),
    [
        ("dirl", {"difference": "subtraction"}, "shared_attention"),
        ("scorer", {"difference": "subtraction"}, "reconstruction"),
        ("cheers", {"commonality": False, "difference": False, "gate": False}, "disentangling"),
    ],
)
def test_the_baseline_joins_both_subtractions(paper, options, missing) -> None:
    model = tiny_model(paper, width=8, options=options)
    before, after = randoms(1, 6, 8), randoms(1, 6, 8, seed=1)
    features = model.encode_pair(pair_view(before, after))
    difference = values(before[0]) - values(after[0])
    slow = slow_linear(model.join, np.concatenate([difference, -difference], axis=1))
    slow = slow if paper == "cheers" else np.maximum(slow, 0)
    np.testing.assert_allclose(values(features.tokens[0]), slow, atol=2e-5)
    assert not any(name.startswith(missing) for name in model.state_dict())
    assert model.entities(features) == [()]


@pytest.mark.parametrize(
    ("paper", "follow", "term", "taught", "untaught"),
    [
        ("dirl", "paper", "decorrelation", {"project", "embed"}, {"decoder", "shared_attention", "join"}),
        ("dirl", "paper", "ccr", {"decoder", "shared_attention", "join"}, {"embed"}),
        (
            "scorer",
            "paper",
            "view",
            {"project", "matching"},
            {"decoder", "reasoning", "reconstruction", "join"},
        ),
        ("scorer", "paper", "backward", {"decoder", "reasoning", "reconstruction", "join"}, {"matching"}),
        ("scorer", "code", "backward", {"decoder", "project", "join"}, {"reasoning"}),
    ],
)
def test_a_term_teaches_the_parts_that_it_is_about(paper, follow, term, taught, untaught) -> None:
    model = tiny_model(paper, options={"follow": follow}).train()
    weights = dict.fromkeys(model.loss_terms(), 0.0) | {term: 1.0}
    model.losses(full_batch(model, CAPTIONS), weights)[term].backward()
    parts = {name.split(".")[0] for name, p in model.named_parameters() if p.grad is not None}
    assert taught <= parts
    assert not untaught & parts


@pytest.mark.parametrize("paper", MODELS)
def test_only_models_that_need_one_load_a_text_encoder(tiny_registered, paper, tmp_path, monkeypatch) -> None:
    config = load_config(f"{paper}_levir_cc")
    config = replace(
        config,
        model=replace(config.model, backbone="tiny"),
        train=replace(config.train, text_encoder="no such encoder"),
    )
    run = runs.Run(config, runs.RunPaths(data=tmp_path, output=tmp_path), "x", "x")
    if MODELS[paper].needs_text_encoder(config.loss):
        with pytest.raises(RsccError):
            runs.build_model(run, tiny_vocabulary())
    else:
        assert isinstance(runs.build_model(run, tiny_vocabulary()), MODELS[paper])
    assert set(MODELS[paper].text_terms) <= set(MODELS[paper].auxiliary_terms)
