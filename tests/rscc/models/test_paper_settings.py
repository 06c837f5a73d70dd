"""What the options, the loss terms and the configs of the papers' models decide."""

import re
from dataclasses import replace

import numpy as np
import pytest
import torch
from slow_blocks import randoms, slow_linear, values
from tiny_models import (
    CAPTIONS,
    ENTITIES,
    fill_retriever,
    full_batch,
    pair_view,
    tiny_backbone,
    tiny_model,
    tiny_vocabulary,
)

from rscc.config import CONFIG_FOLDER, load_config
from rscc.errors import ConfigInvalid, RsccError
from rscc.models import MODELS
from rscc.training import run as runs

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
    own = rf"model\.options(\.{next(iter(options))})?[: ]"
    with pytest.raises(ConfigInvalid, match=rf"{own}|extraction of changes needs delta"):
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


@pytest.mark.parametrize(("follow", "dropped"), [("paper", []), ("code", [0.3])])
def test_the_codes_dropout_stands_where_it_does_there(follow, dropped) -> None:
    """In Eq. 7 of both, in Eq. 2 of DIRL+CCR."""
    scorer, dirl = (tiny_model(one, dropout=0.3, options={"follow": follow}) for one in ("scorer", "dirl"))
    for parts in ([scorer.drop], dirl.even.modules(), dirl.embed):
        assert [one.p for one in parts if isinstance(one, torch.nn.Dropout) and one.p] == dropped


@pytest.mark.parametrize(
    ("name", "tokens"),
    [
        ("scorer_levir_cc", 14 * 14),
        ("dirl_levir_cc", 14 * 14),
        ("rdd_levir_cc", 14 * 14),
        *((f"cheers_{data}", 14 * 14) for data in ("clevr_change", "clevr_dc", "spot_the_diff", "levir_cc")),
    ],
)
def test_the_papers_configs_give_the_papers_sizes(name, tokens) -> None:
    config = load_config(name).model
    assert (config.width, config.word_width, config.decoder_layers) == (512, 300, 2)
    assert load_config(name).data.size // 16 == 14
    if config.paper == "cheers":
        config = replace(config, options={**config.options, "entity_names": list(ENTITIES)})
    kind = MODELS[config.paper]
    model = kind(config=config, backbone=tiny_backbone(), vocabulary=tiny_vocabulary()).eval()
    fill_retriever(model, 0)
    with torch.no_grad():
        features = model.encode_last_maps(torch.zeros(1, 12, 14, 14), torch.zeros(1, 12, 14, 14))
    assert features.tokens.shape == (1, tokens, 512)
    if config.paper == "cheers":
        assert features.entities.shape == (1, 3, 512)
    if config.paper == "scorer":
        assert len(model.reconstruction) == 3
    if config.paper == "dirl":
        assert model.options.temperature == 0.5


PAPER_CONFIGS = sorted(path for paper in MODELS for path in CONFIG_FOLDER.glob(f"{paper}_*.toml"))
# A place in the paper, what its authors published, another paper's model, or this project.
SOURCE = re.compile(
    r"#.*(Sec\. \d|Tables? \d|Figure \d|Eq\. \d|Appendix [A-Z]|Implementation Details"
    r"|\bpapers?\b|\bauthors|\bthe same\b|\bours\b)"
)


@pytest.mark.parametrize("path", PAPER_CONFIGS, ids=lambda path: path.stem)
def test_every_value_of_a_papers_config_says_where_it_is_from(path) -> None:
    settings = path.read_text().partition("[card]")[0].splitlines()
    values = [line for line in settings if " = " in line and not line.startswith(("paper =", "name =", "#"))]
    assert len(values) > 15
    assert [line for line in values if not SOURCE.search(line)] == []
    # What would matter most if it were left to a default.
    required = {"backbone", "width", "size", "optimizer", "schedule", "learning_rate", "batch_size", "epochs"}
    required |= {
        "rdd": {"memory", "prompt", "noun_template", "verb_template", "text_encoder"},
        "cheers": {"layers", "retriever", "most_entities", "least_count"},
        "davir": {"retrieval", "retriever", "segmenter", "most_entities", "least_count"},
    }.get(load_config(path.stem).model.paper, set())
    assert required <= {line.partition(" = ")[0] for line in values}


@pytest.mark.parametrize("paper", MODELS)
def test_a_papers_model_speaks_by_its_own_decoder(paper) -> None:
    """With masks LEVIR-CC could teach it facts, of which the sentences would be made instead."""
    assert load_config(f"{paper}_levir_cc").train.facts is False


OWN_DATA = ("clevr_change", "clevr_dc", "spot_the_diff", "spot_the_diff_multi", "image_editing_request")


@pytest.mark.parametrize("path", PAPER_CONFIGS, ids=lambda path: path.stem)
def test_only_papers_whose_code_has_a_schedule_train_by_it(path) -> None:
    settings = load_config(path.stem).train
    paper, _, data = path.stem.partition("_")
    by_paper = paper in ("scorer", "dirl") and data in OWN_DATA
    assert settings.schedule == ("paper" if by_paper else "cosine")
    if by_paper:
        assert (settings.clip, settings.warmup_steps, settings.ema, settings.bf16) == (0, 0, 0, False)
        assert settings.decay_epochs == 15


def test_the_trunks_of_the_papers_have_named_weights() -> None:
    trunks = {path.stem: load_config(path.stem).model.backbone for path in PAPER_CONFIGS}
    others = {name: trunk for name, trunk in trunks.items() if not name.startswith("davir_instructblip")}
    assert len(others) == 35
    assert set(others.values()) == {"torchvision/resnet101.IMAGENET1K_V1"}


# By config and key, as the papers print them; what is not legible there or not given is not listed.
ON_FOUR = ("clevr_change", "clevr_dc", "image_editing_request", "spot_the_diff")
PRINTED = {
    ("scorer", "model.options.layers"): (2, 1, 2, 3),
    # Images, of which CLEVR-Change has two pairs each.
    ("scorer", "train.batch_size"): (2 * 128, 128, 16, 32),
    **{
        ("scorer", "loss.view"): (0.1, 0.01, 0.003, 0.3),
        ("scorer", "loss.backward"): (None, 0.004, 0.06, 0.5),
    },
    ("scorer", "model.options.matching_heads"): (8, 8, 8, 8),
    ("dirl", "loss.decorrelation"): (0.5, 0.03, 0.001, 0.5),
    ("dirl", "loss.ccr"): (0.3, 0.05, 0.05, 0.004),
    ("dirl", "model.options.temperature"): (0.5, 0.5, 0.5, 0.5),
    ("cheers", "model.options.entities"): (3, 3, None, 3),
    ("rdd", "model.options.object_vectors"): (32, None, None, 32),
    ("rdd", "model.options.action_vectors"): (5, None, None, 10),
    ("rdd", "model.options.prompt"): ("learnable", None, None, "learnable"),
    ("davir", "model.options.entities"): (None, None, None, 1),
    ("davir", "loss.attention"): (None, None, 0.1, 0.1),
    ("davir_instructblip", "train.learning_rate"): (None, None, 1e-5, 1e-5),
    ("davir_instructblip", "train.batch_size"): (None, None, 16, 16),
    ("davir_instructblip", "train.epochs"): (None, None, 20, 20),
}


@pytest.mark.parametrize(("paper", "key"), PRINTED)
def test_what_a_paper_prints_for_a_data_set_stands_in_its_config(paper, key) -> None:
    for data, printed in zip(ON_FOUR, PRINTED[paper, key], strict=True):
        if printed is None:
            continue
        value = load_config(f"{paper}_{data}").to_dict()
        for name in key.split("."):
            value = value[name]
        assert value == printed, data


@pytest.mark.parametrize(
    ("data", "rate", "batch"),
    [
        *(("clevr_change", 1e-3, 128), ("clevr_dc", 1e-3, 128)),
        *(("spot_the_diff", 5e-4, 96), ("levir_cc", 5e-4, 96)),
    ],
)
def test_cheers_trains_as_its_paper_says(data, rate, batch) -> None:
    config = load_config(f"cheers_{data}")
    assert (config.train.learning_rate, config.train.batch_size) == (rate, batch)
    assert (config.loss["consistency"], config.loss["contrast"]) == (0.75, 0.5)


@pytest.mark.parametrize("paper", MODELS)
def test_only_models_that_need_one_load_a_text_encoder(tiny_registered, paper, tmp_path, monkeypatch) -> None:
    config = load_config(f"{paper}_levir_cc")
    config = replace(
        config,
        model=replace(config.model, backbone="tiny"),
        train=replace(config.train, text_encoder="no such encoder"),
    )
    paths = runs.RunPaths(data=tmp_path, output=tmp_path)
    if MODELS[paper].needs_text_encoder(config.loss):
        with pytest.raises(RsccError, match="no such encoder"):
            runs.build_model(config, tiny_vocabulary(), paths)
    else:
        assert isinstance(runs.build_model(config, tiny_vocabulary(), paths), MODELS[paper])
    assert set(MODELS[paper].text_terms) <= set(MODELS[paper].auxiliary_terms)
