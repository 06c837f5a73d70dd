from __future__ import annotations

import random
from collections import Counter
from itertools import pairwise

import pytest
from fakes import BrightnessCaptioner
from scene_pairs import make_pair

from tiling import TileGrid, Window
from workflows import SceneOptions, caption_scene
from workflows.detecting import search_area, tile_grid
from workflows.errors import OptionInvalid
from workflows.parts import LEAST_ROWS, find_part, join_parts, plan_parts, planned_tiles, split_of
from workflows.rows import row_edges
from workflows.scene import open_run

# 21 rows of 16 tiles of 64 pixels that share 16: tiles are fixed to the ground, not to the edges.
SIZE = (976, 736)
chance = random.Random(7)
# Over many seams of rows, small and tall ones, some side by side.
SPOTS = [
    (row + chance.randrange(20), col + chance.randrange(40), chance.choice([9, 30, 120]), 12, 170 + row % 80)
    for row in range(10, 840, 60)
    for col in range(10, 640, 150)
]


class InBatches(BrightnessCaptioner):
    """As of a real network, the last bits depend on what else is in the batch."""

    def predict_change(self, before, after):
        found = super().predict_change(before, after)
        found.change_probability[:] *= 1 - 1e-6 * len(before)
        found.change_probability[:] *= 1 - 1e-6 * float(before.mean())
        return found


def same(report, other):
    assert report.changes == other.changes
    times = ("started", "seconds")
    one, two = ({key: run[key] for key in run if key not in times} for run in (report.run, other.run))
    assert one == two


@pytest.mark.parametrize("other", [{}, {"batch_size": 5}, {"group_distance": 12.0, "threshold": 0.8}])
def test_parts_in_any_order_give_the_report_of_the_whole(tmp_path, other):
    pair = make_pair(tmp_path, SPOTS, size=SIZE)
    whole = caption_scene(pair.before, pair.after, InBatches(), SceneOptions(**other))
    assert whole.run["tiling"]["tiles"] == 21 * 16
    options = SceneOptions(tile_cache=tmp_path / "cache", **other)
    parts = split_of(pair.before, pair.after, InBatches().card, options, 60)
    assert len(parts) == 7
    counts = Counter()
    for rows in random.Random(3).sample(parts, len(parts)):
        counts.update(find_part(pair.before, pair.after, InBatches(), options, rows))
    expected = whole.run["tiling"]
    assert counts == {name: expected[name] for name in ("tiles", "blank", "changed")}

    class Idle(InBatches):
        def predict_change(self, before, after):
            raise AssertionError("all tiles are done")

    same(join_parts(pair.before, pair.after, Idle(), options), whole)
