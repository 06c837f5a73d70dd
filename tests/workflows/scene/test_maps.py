"""Maps between the stages: ordinary GeoTIFFs, resumed after a kill, never trusted when damaged."""

from __future__ import annotations

import json
import os
import random
from contextlib import closing
from pathlib import Path

import numpy as np
import pytest
import rasterio
from captioners import BrightnessCaptioner, FactCaptioner, RoadCaptioner, captioned
from report_checks import without_times
from rscc_stand_in import SlowCaptioner
from scene_pairs import make_pair

from rscc.facts.answers import ANSWERS
from tiling import TilingError
from workflows import SceneOptions
from workflows.errors import MapsBusy, MapsUnusable
from workflows.scene.maps import read_maps
from workflows.scene.network.map_folder import remove_maps
from workflows.scene.opening import open_pair
from workflows.scene.run import detected

# Over the seams of the rows of tiles, and far apart.
SPOTS = [(row, 20 + (row * 7) % 130, 20, 30, 180 + row % 70) for row in range(15, 560, 45)]
SIZE = (600, 210)


class Stopped(Exception):
    pass


class Counting(SlowCaptioner):
    """Stops the run after ``most`` tiles; what it finds depends, in the last bits, on the batch."""

    def __init__(self, most=10**9, **values):
        super().__init__(0, **values)
        self.most = most

    def predict_change(self, before, after):
        if self.seen + len(before) > self.most:
            raise Stopped
        return super().predict_change(before, after)


@pytest.fixture
def pair(tmp_path):
    return make_pair(tmp_path, SPOTS, size=SIZE)


@pytest.fixture
def folder(tmp_path):
    return tmp_path / "maps"


def lasting(run):
    """Leave out of a run record what two runs may differ in."""
    return without_times(run, "resumed_tiles")


def stopped_after(pair, folder, tiles, **options):
    with pytest.raises(Stopped):
        captioned(pair, Counting(tiles), resume=folder, **options)


def resumed(pair, folder, model=None, **options):
    return captioned(pair, model or Counting(), resume=folder, **options).run["resumed_tiles"]


def test_maps_are_geotiffs_with_named_bands_that_lie_on_the_scenes(pair, folder):
    report = captioned(pair, RoadCaptioner(tile_size=128), keep_maps=folder)
    assert report.run["maps"] == str(folder)
    with rasterio.open(pair.after) as scene, rasterio.open(folder / "probability.tif") as change:
        assert change.descriptions == ("change", "new road", "clearing")
        assert (change.crs, change.transform, change.shape) == (scene.crs, scene.transform, scene.shape)
        with rasterio.open(pair.before) as earlier:
            difference = scene.read().mean(0) - earlier.read().mean(0)
        expected = np.minimum(np.abs(difference) / 100, 1)
        assert np.isnan(change.nodata) and change.overviews(1) == [2]
        np.testing.assert_allclose(change.read(1), expected, atol=1e-5)
        left, top = scene.bounds.left, scene.bounds.top
    with rasterio.open(folder / "evidence.tif") as evidence:
        answers = (*ANSWERS, "road before", "road after")
        assert evidence.descriptions == (*answers, "roughness", "greenness")
        assert evidence.res == (8.0, 8.0)
        assert abs(evidence.bounds.left - left) < 16 and abs(evidence.bounds.top - top) < 16


@pytest.mark.slow
def test_evidence_is_that_of_the_tile_in_whose_core_a_position_lies(pair):
    class Numbered(FactCaptioner):
        """Answers by the number of the call and the position in the tile."""

        def survey(self, before, after):
            found, logits = super().survey(before, after)
            rows, cols = logits.shape[2:]
            key = before.astype(float).mean((1, 2, 3)) + after.astype(float).mean((1, 2, 3))
            logits[:] = (np.arange(rows)[:, None] * 4 + np.arange(cols))[None, None] + key[
                :, None, None, None
            ]
            self.answers |= {image.tobytes(): answer for image, answer in zip(after, logits, strict=True)}
            return found, logits

    model, options = Numbered(), SceneOptions(batch_size=1)
    model.answers = {}
    with open_pair(pair.before, pair.after, model.card, options) as opened, detected(opened, model) as found:
        maps = found[0]
        for tile in opened.grid:
            answers = model.answers[opened.pair.read(tile.window)[1].tobytes()]
            got = maps.answers(tile.core)
            rows = (got.rows[:-1] - tile.window.row_off) // 16
            cols = (got.columns[:-1] - tile.window.col_off) // 16
            np.testing.assert_array_equal(got.values[0], answers[0][rows[:, None], cols])
            assert got.pixels == tile.core


@pytest.mark.slow
def test_a_stopped_run_continues_with_the_finished_rows(pair, tmp_path):
    # Two batches run side by side: either of them may be stopped.
    for overlap, stops in ((None, (1, 17, -1)), (31, (17,))):
        asked = {"overlap": overlap, "batch_size": 4, "group_distance": 0}
        calm = captioned(pair, Counting(), **asked)
        total = calm.run["tiling"]["tiles"]
        assert len(calm.changes) == len(SPOTS)
        for tiles in (stop % total for stop in stops):
            folder, model = tmp_path / f"{overlap}_{tiles}", Counting()
            stopped_after(pair, folder, tiles, **asked)
            report = captioned(pair, model, resume=folder, **asked)
            assert report.changes == calm.changes
            assert lasting(report.run) == lasting(calm.run)
            assert total - model.seen <= report.run["resumed_tiles"] or tiles == 1
            assert (report.run["resumed_tiles"] > 0) == (tiles > 12)
            report.write(tmp_path / "report.geojson", overwrite=True)
            assert not folder.exists()


@pytest.mark.slow
@pytest.mark.parametrize("kind", [FactCaptioner, RoadCaptioner])
def test_finished_rows_keep_facts_and_roads(tmp_path, kind):
    class Stopping(kind):
        def survey(self, before, after):
            if self.surveyed > 20:
                raise Stopped
            return super().survey(before, after)

    spots = [(20, 20, 20, 24, 220), (50, 20, 20, 24, 220), (150, 48, 16, 320, 140)]
    pair, folder = make_pair(tmp_path, spots, size=(300, 420)), tmp_path / "maps"
    with pytest.raises(Stopped):
        captioned(pair, Stopping(), resume=folder, batch_size=4)
    model = kind()
    report, expected = (
        captioned(pair, model, resume=folder, batch_size=4),
        captioned(pair, kind(), batch_size=4),
    )
    assert report.changes == expected.changes
    assert any(change.outline_of == "road" for change in report.changes) == (kind is RoadCaptioner)
    assert report.run["resumed_tiles"] > 0


@pytest.mark.slow
def test_kept_maps_serve_the_same_run_again_without_the_network(pair, folder):
    first, model = captioned(pair, Counting(), keep_maps=folder), Counting()
    second = captioned(pair, model, keep_maps=folder)
    assert model.seen == 0 and second.changes == first.changes
    assert second.run["resumed_tiles"] == second.run["tiling"]["tiles"]


@pytest.mark.slow
@pytest.mark.parametrize(
    "other", [{"overlap": 20, "bands": (3, 2, 1)}, {"batch_size": 5}, {"normalize": True}]
)
def test_other_settings_start_again(pair, folder, other):
    stopped_after(pair, folder, 60)
    with pytest.raises(MapsUnusable):  # a folder that a person named is not overwritten
        captioned(pair, keep_maps=folder, **other)
    assert resumed(pair, folder, **other) == 0


@pytest.mark.slow
def test_the_outlines_have_no_influence_on_the_maps_but_inputs_and_models_have(pair, folder):
    stopped_after(pair, folder, 60)
    options = {"min_area": 120, "threshold": 0.7, "group_distance": 0}
    options |= {"regularize": True, "direction": "appeared"}
    report = captioned(pair, Counting(), resume=folder, **options)
    assert report.run["resumed_tiles"] > 0
    assert report.changes == captioned(pair, Counting(), **options).changes
    assert resumed(pair, folder, Counting(weights_sha256="1" * 64)) == 0
    os.utime(pair.after, ns=(1, 1))
    assert resumed(pair, folder) == 0


@pytest.mark.slow
def test_damaged_rows_are_detected_again(pair, folder):
    calm = captioned(pair, Counting(), batch_size=4)
    stopped_after(pair, folder, 50, batch_size=4)
    rows = json.loads((folder / "maps.json").read_text())["rows"]
    assert len(rows) > 3
    with rasterio.open(folder / "probability.tif", "r+") as file:
        pixels = np.full((1, 1, 5), 0.9, np.float32)
        file.write(pixels, window=((rows[2]["start"], rows[2]["start"] + 1), (3, 8)))
    report = captioned(pair, Counting(), batch_size=4, resume=folder)
    assert (
        report.run["resumed_tiles"]
        == sum(row["counts"]["tiles"] for row in rows) - rows[2]["counts"]["tiles"]
    )
    assert report.changes == calm.changes and lasting(report.run) == lasting(calm.run)
    (folder / "probability.tif").write_bytes(b"nonsense")
    assert resumed(pair, folder, batch_size=4) == 0


@pytest.mark.slow
def test_a_row_with_damaged_evidence_is_not_finished(pair, folder):
    captioned(pair, FactCaptioner(), keep_maps=folder)
    with closing(read_maps(folder)) as maps:
        first, *others = maps.rows
        assert others and all(map(maps.is_finished, maps.rows))
        row = maps.rows[first].positions[0]
    with rasterio.open(folder / "evidence.tif", "r+", IGNORE_COG_LAYOUT_BREAK="YES") as file:
        file.write(file.read(1, window=((row, row + 1), (0, 1))) + 1, 1, window=((row, row + 1), (0, 1)))
    with closing(read_maps(folder)) as maps:
        assert not maps.is_finished(first) and all(map(maps.is_finished, others))


def test_answers_under_other_names_are_refused(tmp_path, folder):
    captioned(make_pair(tmp_path, [], size=(64, 64)), FactCaptioner(), keep_maps=folder)
    about = json.loads((folder / "maps.json").read_text())
    first, second, *rest = about["answers"]
    for answers in ([second, first, *rest], [first, first, *rest], [first, "colour", *rest]):
        (folder / "maps.json").write_text(json.dumps({**about, "answers": answers}))
        with pytest.raises(MapsUnusable):
            read_maps(folder)


@pytest.mark.slow
def test_no_damage_is_taken_for_maps(pair, folder):
    captioned(pair, FactCaptioner(), keep_maps=folder)
    chance = random.Random(4)
    for name in ("probability.tif", "evidence.tif", "maps.json"):
        sound = (folder / name).read_bytes()
        for _ in range(12):
            damaged = bytearray(sound)
            place = chance.randrange(len(sound))
            damaged[place] ^= chance.randrange(1, 256)
            (folder / name).write_bytes(damaged if chance.random() < 0.7 else sound[:place])
            try:
                maps = read_maps(folder)
                for band in range(3):
                    for rows in maps.bands(band):
                        assert rows.probability.min() >= 0 and rows.probability.max() <= 1
                maps.answers(maps.area)
                maps.close()
            except (MapsUnusable, TilingError):
                pass
        (folder / name).write_bytes(sound)


@pytest.mark.slow
def test_two_runs_on_one_folder_are_refused(pair, folder):
    class Nested(BrightnessCaptioner):
        refused = 0

        def predict_change(self, before, after):
            if not self.refused:
                with pytest.raises(MapsBusy):
                    captioned(pair, keep_maps=folder)
                self.refused += 1
            return super().predict_change(before, after)

    model = Nested()
    report = captioned(pair, model, keep_maps=folder, group_distance=0)
    assert model.refused and len(report.changes) == len(SPOTS)


def test_drafts_have_names_that_are_removed(pair, folder, monkeypatch):
    seen, rename = set(), Path.replace

    def noting(draft, target):
        seen.update(path.name for path in folder.iterdir() if path.is_file())
        return rename(draft, target)

    monkeypatch.setattr(Path, "replace", noting)
    captioned(pair, FactCaptioner(tile_size=128), keep_maps=folder)
    assert seen > {"maps.json", ".probability.tif", ".evidence.tif"}
    for name in seen:
        (folder / name).touch()
    remove_maps(folder)
    assert not folder.exists()


def test_a_folder_of_something_else_is_left_alone(tmp_path):
    pair = make_pair(tmp_path, [], size=(64, 64))
    (tmp_path / "file").write_text("")
    (tmp_path / "photos").mkdir()
    (tmp_path / "photos" / "cat.jpg").write_bytes(b"cat")
    (tmp_path / "like").mkdir()
    (tmp_path / "like" / "maps.json").write_text("{}")
    for name in ("link", "pipe"):
        (tmp_path / name).mkdir()
    (tmp_path / "link" / "probability.tif").symlink_to(tmp_path / "photos" / "cat.jpg")
    os.mkfifo(tmp_path / "pipe" / ".evidence.tif")
    before = sorted(tmp_path.rglob("*"))
    for name in ("file", "photos", "like", "link", "pipe"):
        for place in ("keep_maps", "resume"):
            with pytest.raises(MapsUnusable) as caught:
                captioned(pair, **{place: tmp_path / name})
            assert name in str(caught.value) and caught.value.exit_code == 1
    assert [path for path in sorted(tmp_path.rglob("*")) if not path.name.endswith(".lock")] == before
