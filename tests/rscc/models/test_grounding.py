"""A grounded captioner sees where things lie and what the change head sees there."""

import numpy as np
import pytest
import torch
from levir_cc_fixture import write_levir_cc
from tiny_models import CAPTIONS, full_batch, tiny_model

from rscc.data.benchmarks.levir_cc import LevirCC
from rscc.data.caches import build_feature_cache
from rscc.data.pairs import FLIPS, read_pair
from rscc.models.shared.grounding import Grounding

GRID = (2, 3)


@pytest.fixture(scope="module")
def records(tmp_path_factory):
    return LevirCC(write_levir_cc(tmp_path_factory.mktemp("levir_cc"), train=4), "train").records


@pytest.fixture
def grounding():
    torch.manual_seed(0)
    return Grounding(width=16, hidden=4).eval()


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


def test_positions_differ_where_nothing_changed(grounding) -> None:
    with torch.no_grad():
        vectors = grounding(torch.zeros(1, 64, 64), (16, 16))[0, 17:-17]
    distances = torch.cdist(vectors, vectors) + 10 * torch.eye(len(vectors))
    assert distances.min() > 0.1


def test_a_coarser_grid_reads_the_same_map(grounding) -> None:
    with torch.no_grad():
        assert grounding(torch.rand(2, 16, 16), (2, 2)).shape == (2, 4, 16)


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
    cache = build_feature_cache(
        model.backbone, records, tmp_path, size=64, bf16=False, head=model.change_head
    )
    sample = read_pair(records[1])
    images = [torch.from_numpy(image[None]) for image in (sample.before, sample.after)]
    index, view = np.array([1]), np.array([0])
    maps = torch.from_numpy(cache.read(index, view))
    change = cache.change(index, view)
    with torch.no_grad():
        fresh = model.encode(*images, head=False).tokens
        cached = model.encode_last_maps(maps[:, 0], maps[:, 1], change=change).tokens
    torch.testing.assert_close(cached, fresh, rtol=2e-2, atol=2e-2)


def test_disturbed_views_are_other_views_of_the_same_pairs(tmp_path, records) -> None:
    trunk = tiny_model("rdd").backbone
    records = records[:3]
    plain, disturbed, again = (
        build_feature_cache(trunk, records, tmp_path / name, size=64, bf16=False, disturbance=strength)
        for name, strength in (("plain", 0.0), ("disturbed", 1.0), ("again", 1.0))
    )
    every = np.arange(3)
    for view in range(len(FLIPS)):
        views = np.full(3, view)
        same = np.array_equal(plain.read(every, views), disturbed.read(every, views))
        assert same == (view == 0)
        np.testing.assert_array_equal(disturbed.read(every, views), again.read(every, views))
    assert plain.change(every, np.zeros(3, dtype=int)) is None
