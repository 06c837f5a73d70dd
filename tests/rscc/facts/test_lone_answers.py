"""New roads and clearings in one picture: from what on it shows one."""

import numpy as np
import pytest
from saved_models import plain_rules

from rscc.facts.answers import ANSWERS
from rscc.facts.lone_changes import GONE_TREES, lone_answers
from rscc.facts.road_head import CAME_ROAD, CHANNELS

METRES, NOTHING = 8.0, -8.0
ROAD_NOW = len(ANSWERS) + 1


def picture(rows: str, *answers: int, logit: float = 4.0) -> np.ndarray:
    """Answers of 8 by 8 positions without anything, but those that are asked for at each ``#``."""
    found = np.full((len(ANSWERS) + CHANNELS, 8, 8), NOTHING, np.float32)
    for row, line in enumerate(rows.split()):
        for column in np.flatnonzero([letter == "#" for letter in line]):
            found[list(answers), row, column] = logit
    return found


STREET = "........ .######."
SHORT = "........ .#####.."
TWO_SHORT = ".#####.. ........ ..#####."
WOOD = " ".join(["........", *[".#####.."] * 5])
GROVE = " ".join(["........", *[".###...."] * 3])


@pytest.mark.parametrize(
    ("rows", "answers", "is_found"),
    [
        (STREET, (CAME_ROAD, ROAD_NOW), True),
        (SHORT, (CAME_ROAD, ROAD_NOW), False),  # 5 positions of 64 m2, of 384 m2
        (TWO_SHORT, (CAME_ROAD, ROAD_NOW), False),  # apart
        (STREET, (CAME_ROAD,), False),  # no road where one is said to have come
        (STREET, (ROAD_NOW,), False),  # nobody would speak of it
        (STREET, (CAME_ROAD, ROAD_NOW, ROAD_NOW - 1), False),  # it was there before
        (WOOD, (GONE_TREES,), True),
        (GROVE, (GONE_TREES,), False),
    ],
)
def test_a_picture_shows_a_change_by_itself(rows, answers, is_found) -> None:
    found = lone_answers(picture(rows, *answers), plain_rules().on_maps(), METRES)
    assert found == ({ANSWERS[answers[0]]: pytest.approx(4.0)} if is_found else {})


def test_it_is_found_where_a_map_would_state_it() -> None:
    sure, less = (float(np.log(p / (1 - p))) for p in (0.71, 0.69))
    found = [
        lone_answers(picture(WOOD, GONE_TREES, logit=one), plain_rules().on_maps(), METRES)
        for one in (sure, less)
    ]
    assert found == [{"gone trees": pytest.approx(sure)}, {}]
