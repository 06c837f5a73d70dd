"""The words of a coarse scene's changes are measured in its bands."""

import numpy as np
import pytest
from fakes import BrightnessCaptioner, card
from rasters import north_up, write_scene

from tiling import describe
from workflows import SceneOptions, caption_scene
from workflows.errors import OptionInvalid
from workflows.inspection.event import ReportedRun
from workflows.inspection.inspect import inspect_pair
from workflows.options import ServerOptions
from workflows.scene.run import SceneRun

NAMES = ["B04", "B03", "B02", "B08"]
# Digital numbers of Sentinel-2: red, green, blue, near infrared.
FOREST, SOIL, WATER = (400, 500, 350, 3200), (3200, 2200, 1700, 3300), (3000, 3200, 3400, 200)
COARSE = {"gsd": 10.0, "gsd_range": (8.0, 35.0)}
CLEARED, FLOODED = (slice(20, 40), slice(30, 60)), (slice(150, 170), slice(140, 180))


@pytest.fixture
def scenes(tmp_path):
    """Write a forest of 200 x 200 pixels of 10 m in which 6 ha were cleared and 8 ha flooded."""

    def write(names=NAMES, swap=False, bands=4):
        paths = []
        for number in range(2):
            image = np.empty((4, 200, 200), np.float32)
            image[:] = np.array(FOREST)[:, None, None]
            image[:, 90:110] = np.array(SOIL)[:, None, None]
            image[:, 112:136] = 250
            if number != swap:
                image[:, *CLEARED] = np.array(SOIL)[:, None, None]
                image[:, *FLOODED] = np.array(WATER)[:, None, None]
            image *= np.random.default_rng(number).uniform(0.97, 1.03, image.shape)
            path = tmp_path / f"{number}.tif"
            said = {"colors": ["gray", *["undefined"] * (bands - 1)], "names": names}
            values = image[:bands].astype(np.uint16)
            write_scene(path, values, transform=north_up(cell=10), photometric="MINISBLACK", **said)
            paths.append(path)
        return paths

    return write


def captioned(paths, sentences="land cover", progress=None, **options):
    model = BrightnessCaptioner(**COARSE, sentences=sentences)
    return caption_scene(*paths, model, SceneOptions(scale=(0, 4000), **options), progress)


def test_hectares_direction_and_place_are_measured(scenes):
    report = captioned(scenes())
    cleared, flooded = report.changes
    assert cleared.caption == "6 ha of vegetation are gone in the north-west"
    assert (cleared.gone, cleared.came, cleared.before_cover) == (("vegetation",), (), ("vegetation",))
    assert cleared.direction == "disappeared" and cleared.caption_confident
    assert cleared.changed_m2 == pytest.approx(60_000, rel=0.02)
    assert (
        cleared.alternatives[0] == "vegetation is gone from 6 ha in the north-west, 1.5 percent of the scene"
    )
    assert (
        flooded.caption == "water spread over 8 ha in the south-east, most of it where there was vegetation"
    )
    assert (flooded.came, flooded.gone, flooded.direction) == (("water",), ("vegetation",), "replaced")
    measured = report.run["land_cover"]
    assert measured["indices"] == {"water": "NDWI", "vegetation": "NDVI"}
    assert measured["bands"]["after"] == {"blue": 3, "green": 2, "red": 1, "nir": 4}
    assert abs(measured["moved"]["vegetation"]) < 0.01
    assert report.run["summary"]["text"].startswith("2 changes were found, 14.0 ha in all: 8 ha of water")


def test_a_change_that_reaches_beyond_a_box_is_no_share_of_it(scenes):
    paths = scenes()
    whole = captioned(paths).changes[0]
    lon, lat = whole.geometry.centroid.coords[0]
    [boxed] = captioned(paths, bounds=(lon - 1e-4, lat - 1e-4, lon + 1e-4, lat + 1e-4)).changes
    assert boxed.changed_m2 == whole.changed_m2
    assert not any("percent" in text for text in (boxed.caption, *boxed.alternatives))


def test_backwards_everything_is_the_other_way_round(scenes):
    grown, dried = captioned(scenes(swap=True)).changes
    assert grown.caption == "6 ha of vegetation have grown in the north-west"
    assert grown.before_cover == ("open ground",) and grown.direction == "appeared"
    assert dried.caption == "8 ha of water are gone in the south-east and vegetation has grown on most of it"


def test_without_ground_or_with_another_card_the_decoder_speaks(scenes):
    paths = scenes()
    for report in (captioned(paths, ground=False), captioned(paths, "decoder")):
        assert all(change.caption.startswith("brightness") for change in report.changes)
        assert report.run["land_cover"] is None
        assert all(change.changed_m2 is None and change.came == () for change in report.changes)


def test_names_that_are_given_stand_for_those_that_the_files_lack(scenes):
    paths = scenes(names=None)
    assert not any("water" in change.caption for change in captioned(paths, bands=(1, 2, 3)).changes)
    report = captioned(paths, band_names=("red", "green", "blue", "nir"))
    assert [change.caption[:5] for change in report.changes] == ["6 ha ", "water"]
    assert report.run["settings"]["band_names"] == ["red", "green", "blue", "nir"]
    assert report.run["bands"]["before"] == [1, 2, 3]


def test_more_names_than_bands_are_refused_with_the_file(scenes):
    with pytest.raises(OptionInvalid, match=r"0\.tif: it has 4 bands, and band-names has 5 names"):
        captioned(scenes(), band_names=tuple("abcde"))
    with pytest.raises(OptionInvalid, match="names separated by commas"):
        SceneOptions(band_names=("red", " "))


def test_colours_alone_tell_green_cover_and_nothing_of_water(scenes):
    cleared, flooded = captioned(scenes(names=NAMES[:3], bands=3)).changes
    assert cleared.caption == "6 ha of green cover are gone in the north-west"
    assert "water" not in (*flooded.came, *flooded.gone)
    backwards = captioned(scenes(names=NAMES[:3], bands=3, swap=True)).changes
    assert {change.caption for change in backwards} == {"something changed"}, "growth is not told by colours"


def test_bands_that_tell_nothing_leave_something_changed(scenes):
    for change in captioned(scenes(names=["B01", "B05", "B06", "B07"]), bands=(1, 2, 3)).changes:
        assert (change.caption, change.score, change.caption_confident) == ("something changed", 0.0, False)
        assert change.changed_m2 is None and change.direction is None and change.place is not None


def test_progress_ends_with_all_changes_and_a_tile_grid_of_blocks_counts_each_pixel_once(scenes, monkeypatch):
    monkeypatch.setattr("workflows.scene.land_cover._BLOCK", 16)
    told = []
    report = captioned(scenes(), progress=lambda *step: told.append(step))
    assert told[-1] == ("captions", 2, 2)
    assert report.changes[0].changed_m2 == pytest.approx(60_000, rel=0.02)


@pytest.mark.parametrize(("gsd", "least"), [(0.5, 20), (1.5, 20), (10, 800)])
def test_the_smallest_change_is_eight_pixels_of_a_coarse_grid(gsd, least):
    assert SceneOptions().least_outline_for(gsd) == least
    assert SceneOptions(min_area=5).least_outline_for(gsd) == 5
    assert SceneOptions(min_area=5000).least_outline_for(gsd) == least


def test_a_scene_is_opened_with_the_names_and_described_without(scenes):
    paths = scenes(names=None)
    model = BrightnessCaptioner(**COARSE)
    options = SceneOptions(band_names=("nir", "red"))
    with SceneRun.open(*paths, model, options) as run:
        assert run.infos[0].descriptions == ("nir", "red", None, None)
    assert describe(paths[0]).descriptions == (None,) * 4


BY_NAME = {"band_names": ("swir16", "nir", "red", "green"), "bands": ("swir16", "nir", "red")}


def test_pictures_of_a_report_have_the_bands_that_were_named(scenes, tmp_path):
    report = captioned(scenes(names=None), "decoder", **BY_NAME)
    run = ReportedRun(report.write(tmp_path / "changes.geojson"), report.run)
    with run.opened(run.scenes(), ServerOptions()) as pair:
        assert [list(bands) for bands in pair.bands] == [[1, 2, 3]] * 2


def test_an_inspection_takes_the_names_too(scenes):
    inspection = inspect_pair(*scenes(names=None), card(**COARSE), SceneOptions(**BY_NAME))
    assert inspection.refusals == () and inspection.before["shown"] == [1, 2, 3]
