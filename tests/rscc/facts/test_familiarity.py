"""What is unlike the training data: the measure on trunk maps, scores and thresholds that follow, rubble."""

import numpy as np
import pytest
import torch

from rscc.errors import ModelFolderInvalid
from rscc.facts.familiarity import WEIGHTS, Familiarity, blocks
from rscc.facts.ground_after import ground_after, is_clear
from rscc.facts.unfamiliar import discounted, is_familiar, least_mean
from rscc.training.head_training import familiarity_of

CHANNELS, SIDE = 40, 16


def ground(seed, axes):
    """Features (200, 2 * CHANNELS) that vary along some axes, and a little everywhere."""
    draw = torch.Generator().manual_seed(seed)
    spread = torch.randn(200, len(axes), generator=draw) @ axes
    return spread + 0.1 * torch.randn(200, 2 * CHANNELS, generator=draw)


@pytest.fixture(scope="module")
def measure():
    home = torch.eye(2 * CHANNELS)[:20]
    return familiarity_of(ground(1, home), ground(2, home))


def test_ground_like_that_of_training_is_familiar_and_other_ground_is_not(measure):
    home, away = (ground(3, torch.eye(2 * CHANNELS)[part]) for part in (slice(20), slice(40, 60)))
    assert abs(measure.unfamiliarity(home).mean()) < 0.5 < 5 < measure.unfamiliarity(away).min()


def test_ground_that_is_just_the_mean_is_familiar(measure):
    unfamiliarity = measure.unfamiliarity(measure.mean)
    assert unfamiliarity.isfinite() and unfamiliarity < 0


def test_positions_of_a_block_have_its_logit_and_blocks_their_own(measure):
    draw = torch.Generator().manual_seed(4)
    maps = 0.1 * torch.rand(2, CHANNELS, 32, 16, generator=draw)
    maps[:, :, 16:] *= 100
    found = measure.maps(maps, maps, SIDE)
    assert found.shape == (2, 1, 32, 16)
    upper, lower = found[:, :, :16].flatten(1), found[:, :, 16:].flatten(1)
    assert (upper == upper[:, :1]).all() and (lower == lower[:, :1]).all()
    assert (upper[:, 0] > lower[:, 0]).all()


def test_positions_without_data_count_for_nothing():
    maps = torch.rand(1, CHANNELS, 8, 8, generator=torch.Generator().manual_seed(6))
    canvas, share = torch.full((1, CHANNELS, 16, 16), 9.0), torch.zeros(1, 1, 16, 16)
    canvas[..., :8, :8], share[..., :8, :8] = maps, 1
    assert torch.allclose(blocks(canvas, SIDE, share), blocks(maps, SIDE), atol=1e-4)


def test_a_measure_with_nan_is_refused(measure, tmp_path):
    measure.save(tmp_path)
    broken = Familiarity.load(tmp_path)
    broken.mean[0] = torch.nan
    broken.save(tmp_path)
    with pytest.raises(ModelFolderInvalid, match=WEIGHTS):
        Familiarity.load(tmp_path)


def test_scores_fall_with_familiarity_and_never_rise():
    scores = [discounted(0.95, f, 0.9, of_buildings=True, is_gone=False) for f in (None, 0.8, 0.7, 0.4, 0.0)]
    assert scores[0] == scores[1] == 0.95 > scores[2] > scores[3] == scores[4]
    assert discounted(1.0, 0.49, 1.0, of_buildings=True, is_gone=False) < 0.8
    assert discounted(0.3, 0.0, 0.99, of_buildings=True, is_gone=False) == pytest.approx(0.3)
    gone = discounted(0.95, 0.7, 0.9, of_buildings=True, is_gone=True)
    assert gone < discounted(0.95, 0.7, 0.9, of_buildings=True, is_gone=False)


def test_only_unfamiliar_ground_has_a_stricter_threshold():
    assert least_mean(0.5, None) == least_mean(0.5, 0.5) == 0 and is_familiar(None)
    assert 0.5 < least_mean(0.5, 0.4) < least_mean(0.5, 0.1) < 1


def test_rubble_is_rough_ground_without_plants():
    draw = np.random.default_rng(6)
    roof = np.full((3, 32, 32), 120, np.uint8)
    rubble = np.repeat(draw.integers(60, 200, (1, 32, 32)), 3, 0).astype(np.uint8)
    trees = rubble * np.array([0.5, 1.0, 0.5])[:, None, None]
    found = {
        name: ground_after(roof, after.astype(np.uint8), SIDE)
        for name, after in {"rubble": rubble, "trees": trees, "clear": roof}.items()
    }
    assert all(one.shape == (2, 2, 2) for one in found.values())
    clear = {name: is_clear(*one.mean((1, 2))) for name, one in found.items()}
    assert clear == {"rubble": False, "trees": True, "clear": True}
    assert not is_clear(np.nan, np.nan)
