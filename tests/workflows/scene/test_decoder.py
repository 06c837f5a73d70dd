from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from captioners import card
from scene_pairs import GROUND, make_pair
from shapely.geometry import MultiPolygon, Polygon, box

from rscc.structures import Caption
from tiling import ScenePair, Window
from workflows.options import SceneOptions
from workflows.scene.network.memory import MemoryPlan
from workflows.scene.network.models import Network
from workflows.scene.visibility.layer import HIDDEN_BY, VISIBILITY, Visibility
from workflows.scene.visibility.survey import survey
from workflows.scene.words.decoder import describe_by_decoder

TILE = 96
# Row, column, height, width, brightness after; each lies in the crop of the other, 30 pixels apart.
BRIGHT, DARK = (60, 40, 10, 12, 240), (62, 82, 10, 12, 10)


@dataclass
class Looker:
    """Says how much brighter and how much darker the later date is, where it is asked to look."""

    shown: list[tuple[np.ndarray, np.ndarray]] = field(default_factory=list)
    batches: list[int] = field(default_factory=list)
    card: object = field(default_factory=lambda: card(tile_size=TILE))

    def caption(self, before, after, *, beams=3, assume_changed=False, placeless=False):
        assert assume_changed and before.dtype == after.dtype == np.uint8
        self.batches.append(len(before))
        self.shown += list(zip(before, after, strict=True))
        moved = after.astype(float).mean(1) - before.astype(float).mean(1)
        texts = [["bright"] * bool((one > 80).any()) + ["dark"] * bool((one < -60).any()) for one in moved]
        return [Caption(" and ".join(words) or "nothing", 0.5, True) for words in texts]


def outline(rectangle) -> Polygon:
    row, col, height, width, _ = rectangle
    return box(col, row, col + width, row + height)


def described(folder, rectangles, changes, looker=None, others=(), batch_size=16, veils=None):
    made = make_pair(folder, rectangles)
    with ScenePair.open(made.before, made.after, scale=(0, 255)) as pair:
        reported = []
        memory = MemoryPlan(None, batch_size, 0)
        network = Network(looker or Looker(), pair, SceneOptions(), memory)
        captions = describe_by_decoder(
            [MultiPolygon(list(map(outline, change))) for change in changes],
            [MultiPolygon([outline(other)]) for other in others],
            pair,
            network,
            lambda *step: reported.append(step),
            None if veils is None else _surveyed(pair, folder, veils),
        )
    return [caption.text for caption in captions], reported


def _surveyed(pair, folder, veils):
    whole = Window(0, 0, pair.grid.width, pair.grid.height)
    survey(pair, whole, folder, veils)
    return Visibility(folder / VISIBILITY, pair.grid.anchor, whole)


class CloudAt:
    """Hides some cells of AFTER."""

    def __init__(self, rows, columns):
        self.place = (slice(*rows), slice(*columns))

    def layers(self, before, after):
        layers = np.zeros((10, *before.shape[1:]), np.uint8)
        layers[1, *self.place] = HIDDEN_BY.index("cloud")
        return layers


def test_the_decoder_is_shown_what_a_cloud_hides_as_the_other_date_has_it(tmp_path):
    looker, cloud = Looker(), CloudAt((7, 10), (10, 12))
    texts, _ = described(tmp_path, [BRIGHT, DARK], [[BRIGHT, DARK]], looker, veils=cloud)
    _, after = looker.shown[0]
    assert texts == ["bright"] and after.max() > GROUND + 60 and after.min() > GROUND - 60


def test_a_group_is_one_event_whose_members_are_no_neighbours(tmp_path):
    looker = Looker()
    texts, told = described(tmp_path, [BRIGHT, DARK], [[BRIGHT, DARK]], looker)
    assert texts == ["bright and dark"] and told == [("captions", 1, 1)]
    # Centred on both.
    after = looker.shown[0][1]
    rows, cols = np.nonzero(np.abs(after[0].astype(int) - GROUND) > 60)
    assert abs(rows.mean() - TILE / 2) < 1 and abs(cols.mean() - TILE / 2) < 1


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
