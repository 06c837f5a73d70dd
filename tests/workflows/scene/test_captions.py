from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import pytest
from fakes import card
from scene_pairs import GROUND, make_pair
from shapely.geometry import box

from rscc.structures import Caption
from tiling import ChangeRegion, ScenePair
from workflows.options import FOCUS_WAYS, SceneOptions
from workflows.scene.captions import describe_regions
from workflows.scene.carrier import OpenRun

TILE = 96
# Row, column, height, width, brightness after; each lies in the crop of the other, 30 pixels apart.
BRIGHT, DARK = (60, 40, 10, 12, 240), (62, 82, 10, 12, 10)


@dataclass
class Looker:
    """Says how much brighter and how much darker the later date is, where it is asked to look."""

    shown: list[tuple[np.ndarray, np.ndarray]] = field(default_factory=list)
    batches: list[int] = field(default_factory=list)
    card: object = field(default_factory=lambda: card(tile_size=TILE))

    def caption(self, before, after, *, beams=3, assume_changed=False, placeless=False, focus=None):
        assert assume_changed and before.dtype == after.dtype == np.uint8
        self.batches.append(len(before))
        self.shown += list(zip(before, after, strict=True))
        moved = after.astype(float).mean(1) - before.astype(float).mean(1)
        if focus is not None:
            moved = moved * focus
        texts = [["bright"] * bool((one > 80).any()) + ["dark"] * bool((one < -60).any()) for one in moved]
        return [Caption(" and ".join(words) or "nothing", 0.5, True) for words in texts]


def region(rectangle) -> ChangeRegion:
    row, col, height, width, _ = rectangle
    outline = box(col, row, col + width, row + height)
    return ChangeRegion(outline, outline, 0.9, height * width)


def described(folder, rectangles, events, looker=None, others=(), **options):
    made = make_pair(folder, rectangles)
    with ScenePair.open(made.before, made.after, scale=(0, 255)) as pair:
        reported = []
        run = OpenRun(pair, looker or Looker(), SceneOptions(**options), lambda *step: reported.append(step))
        descriptions = describe_regions(
            run, [[region(one) for one in event] for event in events], [[region(one)] for one in others]
        )
    return [caption.text for caption, _ in descriptions], reported


def test_a_plain_crop_mixes_two_changes_that_share_it(tmp_path):
    texts, _ = described(tmp_path, [BRIGHT, DARK], [[BRIGHT], [DARK]], focus_captions="none")
    assert texts == ["bright and dark"] * 2


@pytest.mark.parametrize("way", [way for way in FOCUS_WAYS if way not in ("none", "zoom")])
def test_every_change_is_told_alone_in_the_order_of_the_events(tmp_path, way):
    texts, told = described(tmp_path, [BRIGHT, DARK], [[DARK], [BRIGHT]], focus_captions=way, batch_size=1)
    assert texts == ["dark", "bright"]
    assert told == [("captions", 1, 2), ("captions", 2, 2)]


def test_a_zoom_shows_a_tighter_crop_enlarged(tmp_path):
    looker = Looker()
    texts, _ = described(tmp_path, [BRIGHT, DARK], [[BRIGHT], [DARK]], looker, focus_captions="zoom")
    assert texts == ["bright", "dark"]
    before, after = looker.shown[0]
    assert after.shape == (3, TILE, TILE)
    # 64 pixels from column 14 and row 33 on became 96.
    bright = (after.astype(int) - before).min(0) > 80
    rows, cols = np.flatnonzero(bright.any(1)), np.flatnonzero(bright.any(0))
    assert np.abs(np.array([cols[0], cols[-1] + 1]) - (np.array([40, 52]) - 14) * 1.5).max() <= 1
    assert np.abs(np.array([rows[0], rows[-1] + 1]) - (np.array([60, 70]) - 33) * 1.5).max() <= 1


def test_a_group_is_one_event_whose_members_are_no_neighbours(tmp_path):
    looker = Looker()
    texts, told = described(tmp_path, [BRIGHT, DARK], [[BRIGHT, DARK]], looker)
    assert texts == ["bright and dark"] and told == [("captions", 1, 1)]
    # Centred on both.
    after = looker.shown[0][1]
    rows, cols = np.nonzero(np.abs(after[0].astype(int) - GROUND) > 60)
    assert abs(rows.mean() - TILE / 2) < 1 and abs(cols.mean() - TILE / 2) < 1


def test_a_change_without_neighbours_is_shown_its_plain_crop(tmp_path):
    for way in FOCUS_WAYS:
        looker = Looker()
        described(tmp_path, [BRIGHT, DARK], [[BRIGHT]], looker, focus_captions=way)
        before, after = looker.shown[0]
        # What is no event of the report stays, wherever it lies.
        assert (np.abs(after.astype(int) - before).max(0) > 60).sum() == 2 * 10 * 12


def test_what_is_known_but_not_described_is_a_neighbour_too(tmp_path):
    texts, told = described(tmp_path, [BRIGHT, DARK], [[BRIGHT]], others=[DARK])
    assert texts == ["bright"] and told == [("captions", 1, 1)]
    assert described(tmp_path, [BRIGHT, DARK], [[BRIGHT]])[0] == ["bright and dark"]
    assert described(tmp_path, [BRIGHT, DARK], [[BRIGHT], [DARK]])[0] == ["bright", "dark"]


def test_a_large_change_takes_the_sentence_of_most_of_it(tmp_path):
    bright, dark = (60, 10, 10, 170, 240), (60, 180, 10, 25, 10)
    whole = (60, 10, 10, 195, 0)
    looker = Looker()
    texts, told = described(tmp_path, [bright, dark], [[whole]], looker)
    assert texts == ["bright"]
    assert told[-1] == ("captions", 4, 4) and len(looker.shown) == 4


def test_no_change_asks_for_no_words(tmp_path):
    looker = Looker()
    assert described(tmp_path, [BRIGHT], [], looker) == ([], [])
    assert looker.batches == []


def test_a_captioner_that_knows_no_focus_does_for_the_other_ways(tmp_path):
    class Simple(Looker):
        def caption(self, before, after, *, beams=3, assume_changed=False, placeless=False):
            return super().caption(before, after, beams=beams, assume_changed=assume_changed)

    alone, mixed = ["bright", "dark"], ["bright and dark"] * 2
    for way, expected in {"mask": alone, "others": alone, "zoom": alone, "none": mixed}.items():
        texts, _ = described(tmp_path, [BRIGHT, DARK], [[BRIGHT], [DARK]], Simple(), focus_captions=way)
        assert texts == expected, way
