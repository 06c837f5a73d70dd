import numpy as np
import pytest
import torch
from veil_training import draw_samples, train_veils, veil_loss

from rscc.visibility.cells import CHANNELS


@pytest.fixture
def pairs():
    """Two pairs of textured ground, (3, 64, 96) uint8."""
    rng = np.random.default_rng(3)
    return [tuple(rng.integers(20, 160, (2, 3, 64, 96), dtype=np.uint8)) for _ in range(2)]


def test_samples_hold_the_drawn_veil_of_each_cell(pairs):
    samples = draw_samples(20 * pairs, np.random.default_rng(0))
    assert samples.cells.shape == (40, 2 * CHANNELS, 8, 12) and samples.veils.shape == (40, 2, 8, 12)
    assert samples.veils.min() >= 0 and samples.veils.max() <= 1
    clear = (samples.veils == 0).all(axis=(1, 2, 3))
    assert 0 < clear.sum() < 30
    opacity = samples.veils[:, 0]
    assert samples.cells[:, 0][opacity > 0.9].mean() > samples.cells[:, 0][opacity < 0.1].mean()


def test_the_same_seed_draws_and_trains_the_same_and_the_loss_falls(pairs):
    samples = draw_samples(4 * pairs, np.random.default_rng(1))
    np.testing.assert_array_equal(samples.cells, draw_samples(4 * pairs, np.random.default_rng(1)).cells)
    given = np.concatenate([samples.cells, np.ones_like(samples.cells[:, :1])], axis=1).astype(np.float32)
    losses = []
    for steps in (1, 8, 8):
        network = train_veils([samples], steps=steps, batch_size=2, learning_rate=1e-2)
        with torch.inference_mode():
            logits = network(torch.from_numpy(given))
            losses.append(veil_loss(logits, torch.from_numpy(samples.veils.astype(np.float32))).item())
    assert losses[1] == losses[2] < losses[0]


def test_shade_weighs_twice_and_certain_truth_costs_nothing():
    veils = torch.zeros(1, 2, 4, 4)
    assert veil_loss(torch.full_like(veils, -30), veils).item() == pytest.approx(0, abs=1e-6)
    wrong = torch.full_like(veils, -30)
    costs = []
    for layer in (0, 1):
        logits = wrong.clone()
        logits[:, layer] = 5
        costs.append(veil_loss(logits, veils).item())
    assert costs[1] == pytest.approx(2 * costs[0])
