"""The words of a scene's changes state what the map and the fact heads measure."""

from fact_captioner import FactCaptioner
from scene_pairs import make_pair

from workflows import SceneOptions, caption_scene

# Row, column, height, width, brightness after: two in the north-west, one in the south-east.
PLACES = [(20, 20, 20, 24, 220), (50, 20, 20, 24, 220), (260, 380, 20, 24, 220)]


def captioned(tmp_path, **options):
    pair = make_pair(tmp_path, PLACES, size=(300, 420))
    return caption_scene(pair.before, pair.after, FactCaptioner(), SceneOptions(**options)).changes


def test_a_sentence_counts_the_outlines_and_names_the_part_of_the_map(tmp_path):
    two, one = captioned(tmp_path)
    assert (two.count, two.place, one.count, one.place) == (2, "north-west", 1, "south-east")
    assert two.caption.startswith("two houses and a road are built") and "in the north-west" in two.caption
    assert one.caption.startswith("a house and a road are built") and "in the south-east" in one.caption
    assert {change.direction for change in (two, one)} == {"appeared"}
    assert set(two.came) == {"building", "road"} and two.caption_confident


def test_without_facts_the_decoder_speaks_and_their_fields_stay_empty(tmp_path):
    for change in captioned(tmp_path, ground=False):
        assert change.caption.startswith("brightness") and change.direction is None and change.came == ()
