"""Roads are learnt from masks of single dates."""

import numpy as np
import pytest
import torch
from datasets import write_image, write_index
from tiny_models import tiny_model
from training_runs import quick_config

from rscc.data.single_dates import road_crops
from rscc.training import head_training
from rscc.training.head_training import fit_roads

NAMES = tuple(f"{number}.png" for number in range(24))


def single_dates(root, *, gsd=0.5, size=(96, 96), kind="road", names=NAMES):
    """Write dark images with a bright road across each, at a row that follows from its name."""
    write_index(root, "file,class,gsd_m", [(name, kind, gsd) for name in names])
    for number, name in enumerate(names):
        mask = np.zeros(size, np.uint8)
        mask[(top := 16 * (number % 5)) : top + 16] = 255
        noise = np.random.default_rng(number).integers(0, 60, (*size, 3), dtype=np.uint8)
        write_image(root / "image" / name, np.where(mask[..., None] > 0, 230, noise).astype(np.uint8))
        write_image(root / "mask" / name, mask)
    return root


@pytest.mark.parametrize(
    ("gsd", "size", "count"),
    [(0.5, (96, 96), 4), (0.5, (64, 128), 2), (1.0, (64, 64), 4), (0.25, (64, 64), 1), (0.5, (40, 40), 1)],
)
def test_crops_are_as_large_as_tiles_at_the_gsd_of_the_model(tmp_path, gsd, size, count):
    crops = list(road_crops(single_dates(tmp_path, gsd=gsd, size=size, names=("a.png",)), 64, 0.5))
    assert len(crops) == count and any(road.any() for _, _, road in crops)
    for name, image, road in crops:
        assert (name, image.shape, road.shape) == ("a.png", (3, 64, 64), (64, 64))
        assert image[:, ~road].mean() < 100 and (not road.any() or image[:, road].mean() > 200)


def test_a_head_tells_the_roads_of_images_held_out(tmp_path, monkeypatch):
    model, said = tiny_model(seed=2), []
    state = {name: value.clone() for name, value in model.state_dict().items()}
    fitted, fit = [], head_training._fit_road_head

    def watched(maps, shares, members, seed):
        fitted.append({*members.tolist()})
        return fit(maps, shares, members, seed)

    monkeypatch.setattr(head_training, "_fit_road_head", watched)
    head = fit_roads(model, single_dates(tmp_path), quick_config(), report=said.append)
    assert len(fitted[0]) < len(fitted[1]) == 96, "the head that is measured has not seen all of them"
    assert head.stored["area"] > 0.9
    assert "96 crops" in said[0] and f"{head.stored['area']:.3f}" in said[1]
    assert all(torch.equal(value, state[name]) for name, value in model.state_dict().items())
    same = fit_roads(model, tmp_path, quick_config())
    assert all(torch.equal(a, b) for a, b in zip(head.parameters(), same.parameters(), strict=True))
