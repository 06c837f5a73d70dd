import pytest

from workflows.progress import duration


@pytest.mark.parametrize(
    ("seconds", "words"),
    [
        *[(0, "0 s"), (59.4, "59 s"), (60, "1 min"), (61, "1 min 1 s"), (100, "1 min 40 s")],
        *[(3725, "1 h 2 min"), (5400, "1 h 30 min"), (90_000, "1 d 1 h")],
    ],
)
def test_durations_have_two_units(seconds, words):
    assert duration(seconds) == words
