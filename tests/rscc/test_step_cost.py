"""The costs that benchmarks/step_cost.py measures, on small models, against counts by hand."""

import subprocess
import sys
from dataclasses import replace

import pytest
import torch
from tiny_models import TinyTextEncoder, tiny_backbone, tiny_config

from rscc.config import CONFIG_FOLDER, Config, DataConfig, load_config
from rscc.models import MODELS, backbone


@pytest.fixture
def cost(repository, monkeypatch):
    monkeypatch.setitem(backbone.BACKBONES, "tiny", tiny_backbone)
    monkeypatch.syspath_prepend(str(repository / "benchmarks"))
    yield pytest.importorskip("step_cost")
    for name in ("step_cost", "model_sizes", "compare_models"):
        sys.modules.pop(name, None)


def small(paper: str, **train) -> Config:
    """The shipped config of a paper with a model of a few weights."""
    config = load_config(f"{paper}_levir_cc")
    return replace(
        config,
        model=replace(tiny_config(paper), max_words=20),
        data=DataConfig(size=64),
        train=replace(config.train, **{"bf16": False, **train}),
    )


def stepper(cost, paper: str, pairs: int = 2, **train):
    config = small(paper, **train)
    model = cost.build(config.model, TinyTextEncoder() if paper == "rdd" else None)
    return cost.Stepper(config, model, cost.generated_batch(model, 64, pairs), "cpu")


@pytest.mark.parametrize("paper", MODELS)
def test_a_step_of_every_paper_moves_what_is_trained_alone(cost, paper) -> None:
    one = stepper(cost, paper)
    before = {name: p.detach().clone() for name, p in one.model.named_parameters()}
    one.step()
    trained = {name for name, p in one.model.named_parameters() if p.requires_grad}
    moved = {name for name, p in one.model.named_parameters() if not torch.equal(p, before[name])}
    assert moved <= trained
    assert len(moved) > 0.9 * len(trained)
    assert not any(p.requires_grad for p in one.model.backbone.parameters())


def test_a_measured_step_has_time_and_memory(cost) -> None:
    config = small("dirl")
    found = cost.measure(config, cost.build(config.model), pairs=2, steps=1, device="cpu")
    assert found.batch == 2
    assert min(found.seconds, found.operations, found.kept_bytes) > 0
    assert found.peak_bytes > 50e6, "a process with torch"


def test_operations_and_what_is_kept_grow_with_the_batch(cost) -> None:
    small_batch, large = (stepper(cost, "dirl", pairs) for pairs in (2, 6))
    assert large.operations() == pytest.approx(3 * small_batch.operations(), rel=0.05)
    assert 2 * small_batch.kept_bytes() < large.kept_bytes() < 3.1 * small_batch.kept_bytes()


def test_a_frozen_trunk_costs_one_pass_and_a_trained_one_three(cost) -> None:
    frozen, trained = (stepper(cost, "dirl", frozen=names) for names in (("backbone",), ()))
    trunk = 0
    outputs = {4: (6, 3, 4), 8: (8, 6, 3), 16: (12, 8, 3)}  # stride: channels out, in, kernel
    for stride, (out, channels, kernel) in outputs.items():
        trunk += 2 * (64 // stride) ** 2 * out * channels * kernel**2
    # Backward: as much again for the weights, and for the inputs of all layers but the first; what stands
    # right behind the trunk then hands its gradients on, which is little.
    first = 2 * 16**2 * 6 * 3 * 4**2
    more = (trained.operations() - frozen.operations()) / (2 * 2 * (2 * trunk - first))
    assert 1 < more < 1.2
    assert trained.kept_bytes() > frozen.kept_bytes()


def test_state_is_weights_and_four_more_of_what_is_trained_with_an_average(cost) -> None:
    plain, averaged = (stepper(cost, "scorer", ema=ema) for ema in (0.0, 0.9))
    sizes = {True: 0, False: 0}
    for parameter in plain.model.parameters():
        sizes[parameter.requires_grad] += 4 * parameter.numel()
    assert plain.state_bytes() == sizes[False] + 4 * sizes[True]
    assert averaged.state_bytes() == sizes[False] + 5 * sizes[True]


def test_whole_protocols_follow_from_a_pair(cost) -> None:
    found = cost.StepCost(
        batch=4, seconds=2.0, operations=400 * 10**9, state_bytes=10**9, kept_bytes=4 * 10**8, peak_bytes=1
    )
    assert cost.hours(found, 7200, 2) == pytest.approx(2.0)
    assert cost.estimated_hours(found, 3600, 10, tflops=10, utilisation=0.1) == pytest.approx(1.0)
    steps = [cell.strip() for cell in cost.step_rows({"rdd_levir_cc": found}).splitlines()[-1].split("|")]
    batch = load_config("rdd_levir_cc").train.batch_size
    assert steps[4] == "100.0", "GFLOP per pair"
    assert float(steps[-2]) == pytest.approx(1 + 0.1 * batch, abs=0.05), "GB at the config's batch"
    table = cost.protocol_rows({"rdd_levir_cc": found}, 0.01, tflops=10, utilisation=0.5)
    assert len(table.splitlines()) == 2 + len(cost.TRAINING_PAIRS)
    assert "rdd_levir_cc" in table


def test_every_paper_and_data_set_has_its_config(cost) -> None:
    assert set(cost.PAPERS) == set(MODELS)
    for paper in cost.PAPERS:
        for name in cost.TRAINING_PAIRS:
            assert (CONFIG_FOLDER / f"{paper}_{name}.toml").is_file()


def test_reading_a_pair_takes_time(cost) -> None:
    assert 0 < cost.reading_seconds(64, pairs=8) < 5


@pytest.mark.slow
def test_the_paper_sized_model_takes_a_step_in_a_process_of_its_own(repository) -> None:
    done = subprocess.run(
        [sys.executable, "benchmarks/step_cost.py", "--one", "dirl_levir_cc", "--batch", "1", "--steps", "1"],
        capture_output=True,
        text=True,
        cwd=repository,
        env={"PYTHONPATH": str(repository), "OMP_NUM_THREADS": "1", "PATH": ""},
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert '"seconds"' in done.stdout
