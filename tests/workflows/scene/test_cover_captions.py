"""The words of a coarse scene's changes are measured in its bands."""

import numpy as np
import pytest
from captioners import BrightnessCaptioner
from rasters import north_up, write_scene
from shapely import box
from shapely.affinity import affine_transform

from tiling import ChangeRegion, ScenePair, Window
from workflows import SceneOptions, caption_scene
from workflows.errors import OptionInvalid
from workflows.scene.found import FoundChange
from workflows.scene.outline import outlines_of
from workflows.scene.visibility.layer import HIDDEN_BY, VISIBILITY, Visibility
from workflows.scene.visibility.survey import survey
from workflows.scene.words.land_cover import describe_by_cover

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
    assert cleared.caption == "6 ha of vegetation disappeared in the north-west"
    assert (cleared.gone, cleared.came, cleared.before_cover) == (("vegetation",), (), ("vegetation",))
    assert cleared.direction == "disappeared" and cleared.caption_confident
    assert cleared.changed_m2 == pytest.approx(60_000, rel=0.02)
    assert (
        cleared.alternatives[0]
        == "Vegetation disappeared from 6 ha in the north-west, 1.5 percent of the scene"
    )
    assert (
        flooded.caption == "Water spread over 8 ha in the south-east, most of it where there was vegetation"
    )
    assert (flooded.came, flooded.gone, flooded.direction) == (("water",), ("vegetation",), "replaced")
    measured = report.run["land_cover"]
    assert measured["indices"] == {"water": "NDWI", "vegetation": "NDVI"}
    assert measured["bands"]["after"] == {"blue": 3, "green": 2, "red": 1, "nir": 4}
    assert abs(measured["moved"]["vegetation"]) < 0.01
    assert report.run["summary"]["text"].startswith("2 changes were found, 14.0 ha in all. 8 ha of water")


def test_hidden_ground_has_no_land_cover(scenes, tmp_path):
    before, after = scenes()
    with ScenePair.open(before, after, scale=(0, 4000)) as pair:
        corners = box(30, 20, 60, 40)
        drawn = affine_transform(corners, pair.grid.transform.to_shapely())
        region = ChangeRegion(corners, drawn, 1.0, 600)
        change = FoundChange(tuple(outlines_of([region], pair.grid, 0)))
        whole = Window(0, 0, pair.grid.width, pair.grid.height)
        survey(pair, whole, tmp_path, CloudInTheWest())
        layer = Visibility(tmp_path / VISIBILITY, pair.grid.anchor, whole)
        clear_from = layer.grid.pixels(Window(0, 0, CloudInTheWest.columns, 1)).col_end
        shown, hidden = (describe_by_cover([change], pair, None, one)[0][0].facts for one in (None, layer))
    assert shown.area_m2 == pytest.approx(60_000, rel=0.02)
    assert 30 < clear_from < 60  # in the middle of the outline
    assert hidden.area_m2 == pytest.approx(60_000 * (60 - clear_from) / 30, rel=0.02)


class CloudInTheWest:
    """Hides the first columns of cells on AFTER."""

    columns = 7

    def layers(self, before, after):
        layers = np.zeros((10, *before.shape[1:]), np.uint8)
        layers[1, :, : self.columns] = HIDDEN_BY.index("cloud")
        return layers


def test_a_change_that_reaches_beyond_a_box_is_no_share_of_it(scenes):
    paths = scenes()
    whole = captioned(paths).changes[0]
    lon, lat = whole.geometry.centroid.coords[0]
    [boxed] = captioned(paths, bounds=(lon - 1e-4, lat - 1e-4, lon + 1e-4, lat + 1e-4)).changes
    assert boxed.changed_m2 == whole.changed_m2
    assert not any("percent" in text for text in (boxed.caption, *boxed.alternatives))


def test_backwards_everything_is_the_other_way_round(scenes):
    grown, dried = captioned(scenes(swap=True)).changes
    assert grown.caption == "6 ha of vegetation grew in the north-west"
    assert grown.before_cover == ("open ground",) and grown.direction == "appeared"
    assert dried.caption == "8 ha of water disappeared in the south-east and vegetation grew on most of it"


def test_without_ground_or_with_another_card_the_decoder_speaks(scenes):
    paths = scenes()
    for report in (captioned(paths, ground=False), captioned(paths, "decoder")):
        assert all(change.caption.startswith("brightness") for change in report.changes)
        assert report.run["land_cover"] is None
        assert all(change.changed_m2 is None and change.came == () for change in report.changes)


def test_names_that_are_given_stand_for_those_that_the_files_lack(scenes):
    paths = scenes(names=None)
    assert not any("water" in change.caption.lower() for change in captioned(paths, bands=(1, 2, 3)).changes)
    report = captioned(paths, band_names=("red", "green", "blue", "nir"))
    assert [change.caption[:5] for change in report.changes] == ["6 ha ", "Water"]
    assert report.run["settings"]["band_names"] == ["red", "green", "blue", "nir"]
    assert report.run["bands"]["before"] == [1, 2, 3]


def test_more_names_than_bands_are_refused_with_the_file(scenes):
    with pytest.raises(OptionInvalid):
        captioned(scenes(), band_names=tuple("abcde"))
    with pytest.raises(OptionInvalid):
        SceneOptions(band_names=("red", " "))


def test_colours_alone_tell_green_cover_and_nothing_of_water(scenes):
    cleared, flooded = captioned(scenes(names=NAMES[:3], bands=3)).changes
    assert cleared.caption == "6 ha of green cover disappeared in the north-west"
    assert "water" not in (*flooded.came, *flooded.gone)
    backwards = captioned(scenes(names=NAMES[:3], bands=3, swap=True)).changes
    assert {change.caption for change in backwards} == {"Something changed"}, "growth is not told by colours"


def test_bands_that_tell_nothing_leave_something_changed(scenes):
    for change in captioned(scenes(names=["B01", "B05", "B06", "B07"]), bands=(1, 2, 3)).changes:
        assert (change.caption, change.score, change.caption_confident) == ("Something changed", 0.0, False)
        assert change.changed_m2 is None and change.direction is None and change.place is not None


def test_progress_ends_with_all_changes_and_a_tile_grid_of_blocks_counts_each_pixel_once(scenes, monkeypatch):
    monkeypatch.setattr("workflows.scene.words.land_cover._BLOCK", 16)
    told = []
    report = captioned(scenes(), progress=lambda *step: told.append(step))
    assert told[-1] == ("captions", 2, 2)
    assert report.changes[0].changed_m2 == pytest.approx(60_000, rel=0.02)


@pytest.mark.parametrize(("gsd", "least"), [(0.5, 20), (1.5, 20), (10, 800)])
def test_the_smallest_change_is_eight_pixels_of_a_coarse_grid(gsd, least):
    assert SceneOptions().smallest_outline_for(gsd) == least
    assert SceneOptions(min_area=5).smallest_outline_for(gsd) == 5
    assert SceneOptions(min_area=5000).smallest_outline_for(gsd) == least
