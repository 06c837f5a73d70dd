"""The costs that benchmarks/step_cost.py measures, on small models, against counts by hand."""

from dataclasses import replace

import pytest
import step_cost as cost
import torch
from markdown_tables import cells_of
from tiny_models import TinyTextEncoder, tiny_config

from rscc.config import CONFIG_FOLDER, Config, DataConfig, load_config
from rscc.models import MODELS

pytestmark = pytest.mark.usefixtures("tiny_registered")


def small(paper: str, **train) -> Config:
    """The shipped config of a paper with a model of a few weights."""
    config = load_config(f"{paper}_levir_cc")
    return replace(
        config,
        model=replace(tiny_config(paper), max_words=20),
        data=DataConfig(size=64),
        train=replace(config.train, **{"bf16": False, **train}),
    )


def stepper(paper: str, pairs: int = 2, **train):
    config = small(paper, **train)
    model = cost.build(config.model, TinyTextEncoder() if paper == "rdd" else None)
    return cost.Stepper(config, model, cost.generated_batch(model, 64, pairs), "cpu")


@pytest.mark.parametrize("paper", MODELS)
def test_a_step_of_every_paper_moves_what_is_trained_alone(paper) -> None:
    one = stepper(paper)
    before = {name: p.detach().clone() for name, p in one.model.named_parameters()}
    one.step()
    trained = {name for name, p in one.model.named_parameters() if p.requires_grad}
    moved = {name for name, p in one.model.named_parameters() if not torch.equal(p, before[name])}
    assert moved <= trained
    assert len(moved) > 0.9 * len(trained)
    assert not any(p.requires_grad for p in one.model.backbone.parameters())


def test_a_measured_step_has_time_and_memory() -> None:
    config = small("dirl")
    found = cost.measure(config, cost.build(config.model), pairs=2, steps=1, device="cpu")
    assert found.batch == 2
    assert min(found.seconds, found.operations, found.kept_bytes) > 0
    assert found.peak_bytes > 50e6, "a process with torch"


def test_whole_protocols_follow_from_a_pair() -> None:
    found = cost.StepCost(
        batch=4, seconds=2.0, operations=400 * 10**9, state_bytes=10**9, kept_bytes=4 * 10**8, peak_bytes=1
    )
    assert cost.hours(found, 7200, 2) == pytest.approx(2.0)
    assert cost.estimated_hours(found, 3600, 10, tflops=10, utilisation=0.1) == pytest.approx(1.0)
    steps = cells_of(cost.step_rows({"rdd_levir_cc": found}))[-1]
    batch = load_config("rdd_levir_cc").train.batch_size
    assert steps[3] == "100.0", "GFLOP per pair"
    assert float(steps[-1]) == pytest.approx(1 + 0.1 * batch, abs=0.05), "GB at the config's batch"
    table = cost.protocol_rows({"rdd_levir_cc": found}, 0.01, tflops=10, utilisation=0.5)
    assert len(table.splitlines()) == 2 + len(cost.TRAINING_PAIRS)
    assert "rdd_levir_cc" in table


def test_every_paper_and_data_set_has_its_config() -> None:
    assert set(cost.PAPERS) == set(MODELS)
    for paper in cost.PAPERS:
        for name in cost.TRAINING_PAIRS:
            assert (CONFIG_FOLDER / f"{paper}_{name}.toml").is_file()
