from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from bright_objects import BrightObjects
from captioned import captioned
from fakes import BrightnessCaptioner, card
from scene_pairs import make_pair
from shapely.geometry import box
from tiny_sam import tiny_sam

from rscc.errors import WeightsNotFound
from tiling import ChangeRegion, ScenePair
from workflows.errors import OptionInvalid
from workflows.options import SceneOptions
from workflows.scene.carrier import OpenRun
from workflows.scene.events import Event, Events, places_of
from workflows.scene.refinement import ROOM, Refinement, open_segmenter, refine_events, refine_regions

TILE = 64
HOUSE = (40, 50, 12, 16, 240)
FAR = (110, 170, 14, 12, 240)


def region(row, col, height, width, pair) -> ChangeRegion:
    transform = pair.grid.transform
    west, north = transform.c + col * transform.a, transform.f + row * transform.e
    outline = box(col, row, col + width, row + height)
    on_map = box(west, north - height * 0.5, west + width * 0.5, north)
    return ChangeRegion(outline, on_map, 0.75, height * width)


def opened(pair, progress=None, **options) -> OpenRun:
    return OpenRun(pair, card(tile_size=TILE), SceneOptions(**{"simplify": 0.0} | options), progress)


@pytest.fixture
def refine(tmp_path):
    def run(rectangles, roughs, progress=None, segmenter=None, options=None, **values):
        """Return the refinement, the regions as they were, and the segmenter."""
        made, segmenter = make_pair(tmp_path, rectangles), segmenter or BrightObjects()
        with ScenePair.open(made.before, made.after, scale=(0, 255)) as pair:
            regions = [region(*rough, pair) for rough in roughs]
            scene_run = opened(pair, progress, **options or {})
            return refine_regions(scene_run, regions, segmenter, **values), regions, segmenter

    return run


def test_outlines_become_those_of_the_objects_in_pixels_and_on_the_map(refine):
    reported = []
    refinement, _, segmenter = refine(
        [HOUSE, FAR], [(41, 48, 12, 16), (110, 168, 14, 12)], progress=lambda *step: reported.append(step)
    )
    assert (refinement.redrawn, refinement.too_large) == (2, 0)
    for one, (row, col, height, width, _) in zip(refinement.regions, (HOUSE, FAR), strict=True):
        assert one.pixel_polygon.equals(box(col, row, col + width, row + height))
        assert one.area_px == height * width and one.mean_probability == 0.75
        west, north = 500_000 + col * 0.5, 5_600_000 - row * 0.5
        assert one.polygon.equals(box(west, north - height * 0.5, west + width * 0.5, north))
    assert len(segmenter.images) == 4 and reported == [("outlines", 1, 2), ("outlines", 2, 2)]
    assert refinement.as_dict()["redrawn"] == 2


def test_a_region_that_shows_nothing_or_agrees_too_little_stays_as_it_was(refine):
    refinement, regions, _ = refine([HOUSE], [(90, 100, 10, 10), (41, 48, 12, 16)])
    assert refinement.regions[0] is regions[0]
    assert refinement.redrawn == 1 and refinement.regions[1] is not regions[1]
    refinement, regions, _ = refine([HOUSE], [(44, 56, 12, 16)], least=0.9)
    assert refinement.regions == regions and refinement.redrawn == 0


def test_regions_that_fit_into_one_crop_share_it(refine):
    beside = (44, 70, 12, 10, 240)
    refinement, _, segmenter = refine([HOUSE, beside], [(41, 49, 12, 16), (45, 71, 12, 10)])
    assert refinement.redrawn == 2 and len(segmenter.images) == 2


def test_no_outline_grows_into_another_region(refine):
    block = (40, 50, 12, 32, 240)
    refinement, _, _ = refine([block], [(40, 50, 12, 16), (40, 68, 12, 14)])
    first, second = (one.pixel_polygon for one in refinement.regions)
    assert refinement.redrawn == 2
    assert first.intersection(box(68, 40, 82, 52)).area == 0
    assert second.intersection(box(50, 40, 66, 52)).area == 0


def test_what_does_not_fit_into_a_crop_with_room_stays(refine):
    most = TILE - 2 * ROOM
    refinement, regions, segmenter = refine([(20, 20, 12, 100, 240)], [(20, 20, 12, most + 1)])
    assert refinement.regions == regions and refinement.too_large == 1 and not segmenter.images
    assert refine([(20, 20, 12, most, 240)], [(20, 21, 12, most)])[0].redrawn == 1


def test_regions_at_the_corners_of_the_scene_are_redrawn_too(refine):
    corners = [(0, 0, 12, 16, 240), (138, 194, 12, 16, 240), (0, 194, 12, 16, 240), (138, 0, 12, 16, 240)]
    refinement, _, _ = refine(corners, [(row, col, 11, 15) for row, col, *_ in corners])
    assert refinement.redrawn == 4
    for one, (row, col, height, width, _) in zip(refinement.regions, corners, strict=True):
        assert one.pixel_polygon.equals(box(col, row, col + width, row + height))


def test_no_regions_are_no_work(refine):
    refinement, _, segmenter = refine([HOUSE], [])
    assert refinement == Refinement([], 0, 0) and not segmenter.images


def test_outlines_are_simplified_as_asked(refine):
    class Disc(BrightObjects):
        def segment(self, image, boxes, points):
            rows, cols = np.mgrid[: image.shape[1], : image.shape[2]]
            x, y = points[:, :1, None], points[:, 1:, None]
            return (cols[None] - x) ** 2 + (rows[None] - y) ** 2 < 100

    rough, smooth = (
        refine([], [(60, 60, 20, 20)], segmenter=Disc(), options={"simplify": pixels})[0].regions[0]
        for pixels in (0.0, 1.0)
    )
    rough, smooth = rough.pixel_polygon, smooth.pixel_polygon
    assert len(smooth.exterior.coords) < 0.7 * len(rough.exterior.coords)
    assert rough.area > 300 and smooth.area == pytest.approx(rough.area, rel=0.05)


def test_events_keep_their_members_and_what_would_become_too_small_stays(tmp_path, monkeypatch):
    made = make_pair(tmp_path, [HOUSE, FAR])
    with ScenePair.open(made.before, made.after, scale=(0, 255)) as pair:
        roughs = [region(41, 48, 12, 16, pair), region(110, 168, 14, 12, pair)]
        places = places_of(roughs, pair, 0)
        refinement = Events([Event((places[0],)), Event((places[1],))], [], {}, ["kept"])
        whole = refine_events(opened(pair, simplify=1.0), refinement, BrightObjects())
        # 16 x 12 pixels are 48 square metres, 12 x 14 are 42.
        with monkeypatch.context() as patched:
            patched.setattr("workflows.options.LEAST_AREA", 45.0)
            large = refine_events(opened(pair, simplify=1.0), refinement, BrightObjects())
        group = replace(refinement, events=[Event(tuple(places))])
        together = refine_events(opened(pair, simplify=1.0), group, BrightObjects())
    assert whole.refinement["redrawn"] == 2 and whole.warnings == ["kept"]
    outlines = [event.regions[0].pixel_polygon.bounds for event in whole.events]
    assert outlines == [(50, 40, 66, 52), (170, 110, 182, 124)]
    assert whole.events[0].area_m2 == pytest.approx(48, rel=0.01)
    assert large.events[0].area_m2 == pytest.approx(48, rel=0.01)
    assert large.events[1].places == (places[1],)
    assert [one.area_px for one in together.events[0].regions] == [192, 168]


@pytest.mark.parametrize("name", ["mobile_sam", "sam:", "fast:model.pt", "mobile_sam.pt", ":x"])
def test_a_name_of_another_form_is_refused_with_the_forms_there_are(name):
    with pytest.raises(OptionInvalid, match=r"sam:FOLDER .* mobile_sam:FILE"):
        open_segmenter(name)


def test_a_real_segmenter_opens_by_its_name(refine, tmp_path):
    tiny_sam().save_pretrained(tmp_path / "sam")
    segmenter = open_segmenter(f"sam:{tmp_path / 'sam'}")
    refinement, *_ = refine([HOUSE], [(41, 48, 12, 16)], segmenter=segmenter, least=0.01)
    assert refinement.redrawn in (0, 1) and refinement.regions[0].pixel_polygon.is_valid


def test_a_run_redraws_what_it_found_and_records_it(tmp_path):
    tiny_sam().save_pretrained(tmp_path / "sam")
    made = make_pair(tmp_path, [HOUSE, FAR])
    name = f"sam:{tmp_path / 'sam'}"
    report, plain = captioned(made, refine=name), captioned(made)
    assert report.run["settings"]["refine"] == name
    assert report.run["refinement"]["regions"] == len(report.changes) == 2
    assert plain.run["refinement"] is None
    both = zip(report.changes, plain.changes, strict=True)
    moved = sum(not one.geometry.equals(other.geometry) for one, other in both)
    assert moved <= report.run["refinement"]["redrawn"]


def test_a_run_without_the_weights_ends_before_the_work(tmp_path):
    made = make_pair(tmp_path, [HOUSE])
    captioner = BrightnessCaptioner()
    with pytest.raises(WeightsNotFound, match="no such file"):
        captioned(made, captioner, refine="mobile_sam:none.pt")
    assert captioner.shapes == []
