"""The benchmark of false changes, on textures instead of painted scenes and a captioner without weights."""

import false_change
import false_change_scenes
import numpy as np
import pytest
from fakes import BrightnessCaptioner
from false_change_scenes import MARGIN, Disturbance, Ground, write_scene
from markdown_tables import cells_of
from rasters import textured
from scipy import ndimage

SIDE = 288


@pytest.fixture
def ground(monkeypatch):
    def texture(layout, season, *, after, gsd, ground_seed, date_seed):
        noise = np.random.default_rng(0).normal(size=(SIDE + 2 * MARGIN,) * 2)
        fine = ndimage.gaussian_filter(noise, 1.5)
        return np.repeat((128 + 30 * fine / fine.std()).clip(0, 255).astype(np.uint8)[..., None], 3, -1)

    monkeypatch.setattr(false_change_scenes, "paint", texture)
    monkeypatch.setattr(false_change_scenes, "make_layout", lambda *_: None)
    return Ground(1, False, SIDE)


@pytest.mark.slow
def test_tables_have_a_row_for_each_disturbance_and_each_choice(tmp_path, ground, monkeypatch):
    rows = (Disturbance("nothing"), Disturbance("darker, displaced", shift=(3.0, 0.0), gain=0.45))
    monkeypatch.setattr(false_change, "DISTURBANCES", rows)
    monkeypatch.setattr(false_change, "PICTURED", [rows[1].name])
    runner = false_change.Runner(BrightnessCaptioner())
    picture = tmp_path / "picture.png"
    cells = cells_of(false_change.false_change(runner, [ground], tmp_path, picture))
    assert cells[0][3:] == ["no flags", "--align", "--normalize", "both"]
    assert cells[2][:3] == ["nothing", "0.0", "0.0 to 0.0"] and set(cells[2][3:]) == {"0.00 (0.00)"}
    assert cells[3][:3] == ["darker, displaced", "3.0", "3.0 to 3.0"]
    none, both = (float(cells[3][place].split()[0]) for place in (3, 6))
    assert none > 50 and both < 1
    assert picture.stat().st_size > 1000


def test_real_changes_are_counted(tmp_path):
    before = textured(256, 256) // 4
    after = before.copy()
    after[:, 50:100, 60:160] += 150
    truth = np.zeros((256, 256), bool)
    truth[50:100, 60:160] = True
    truth[200:220, 200:220] = True  # missed
    paths = [write_scene(tmp_path / f"{name}.tif", date) for name, date in (("a", before), ("b", after))]
    runner = false_change.Runner(BrightnessCaptioner())
    cells = cells_of(false_change.real_change(runner, iter([("made", *paths, truth)])))[-1]
    assert cells[:2] == ["made", "1"] and float(cells[4]) == pytest.approx(5000 / 5400, abs=0.02)
    assert float(cells[5]) > 0.97
