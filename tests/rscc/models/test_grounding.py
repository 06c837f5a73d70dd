"""A grounded captioner sees where things lie and what the change head sees there."""

import numpy as np
import pytest
import torch
from datasets import write_levir_cc
from tiny_models import CAPTIONS, full_batch, tiny_model
from training_runs import quick_config

from rscc.data.benchmarks.levir_cc import LevirCC
from rscc.data.caches import PairCache
from rscc.data.pairs import read_pair
from rscc.data.trunk_maps import store_trunk_maps
from rscc.models.shared.change_detector import Grounding
from rscc.structures import PairBatch

GRID = (2, 3)


@pytest.fixture(scope="module")
def records(tmp_path_factory):
    return LevirCC(write_levir_cc(tmp_path_factory.mktemp("levir_cc"), train=4), "train")


@pytest.fixture
def grounding():
    torch.manual_seed(0)
    return Grounding(width=16).eval()


def test_every_position_gets_a_vector_that_depends_on_the_change_there(grounding) -> None:
    change = torch.zeros(1, 8, 12)
    with torch.no_grad():
        empty = grounding(change, GRID)
        change[0, 5:7, 9:11] = 1.0
        seen = grounding(change, GRID)
    assert seen.shape == (1, 6, 16)
    moved = (seen - empty).abs().amax(-1)[0]
    assert moved.argmax() == 5  # the lower right of 2 x 3 positions
    assert moved[0] == 0  # the upper left is out of reach of the two convolutions


@pytest.mark.parametrize("paper", ["scorer", "dirl", "cheers", "rdd", "davir"])
def test_a_grounded_model_of_every_paper_says_something_else_of_another_change_map(paper) -> None:
    model = tiny_model(paper, grounded=True)
    maps = torch.rand(2, 1, 12, 4, 4)
    with torch.no_grad():
        empty, full = (
            model.encode_last_maps(maps[0], maps[1], change=torch.full((1, 16, 16), share)).tokens
            for share in (0.0, 1.0)
        )
    assert not torch.allclose(empty, full)


def test_captions_do_not_train_the_change_head_that_they_read() -> None:
    model = tiny_model("rdd", grounded=True).train()
    weights = dict.fromkeys(model.loss_terms(), 0.0) | {"caption": 1.0}
    model.losses(full_batch(model, CAPTIONS), weights)["caption"].backward()
    assert all(parameter.grad is None for parameter in model.change_head.parameters())
    assert all(parameter.grad.abs().sum() > 0 for parameter in model.grounding.parameters())


def test_cached_and_fresh_pairs_are_encoded_alike(tmp_path, records) -> None:
    model = tiny_model("rdd", grounded=True)
    config, batch = quick_config(), PairBatch()
    cache = PairCache(*store_trunk_maps(model.backbone, records, tmp_path, config, head=model.change_head))
    sample = read_pair(records[1])
    images = [torch.from_numpy(image[None]) for image in (sample.before, sample.after)]
    cache.add(batch, np.array([1]), np.array([0]))
    with torch.no_grad():
        fresh = model.encode(*images, head=False).tokens
        cached = model.encode_batch(batch).tokens
    torch.testing.assert_close(cached, fresh, rtol=2e-2, atol=2e-2)
