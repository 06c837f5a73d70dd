"""Scores of events of series: recall, precision, dates, look-alikes, SCOT, and the command."""

import json

import numpy as np
import pytest
from painted_months import ROOF, months, paint, write_months
from shapely.geometry import box
from typer.testing import CliRunner

from rscc.errors import DatasetLayoutInvalid
from workflows.cli.commands import app
from workflows.errors import OptionInvalid
from workflows.monitor.evaluation.baselines import plain_steps, two_dates
from workflows.monitor.evaluation.scores import Reported, StackScores, scot
from workflows.monitor.evaluation.truth import PlaceTruth, TrueEvent, read_truth

SIZE = (40, 40)
MONTHS = list(range(100, 112))
HALL = (slice(12, 24), slice(12, 24))


def mask(left, top, right, bottom):
    inside = np.zeros(SIZE, bool)
    inside[top:bottom, left:right] = True
    return inside


def event(*sides, seen=105, sure=True):
    return TrueEvent(box(*sides), sure, seen - 1, seen, seen)


TRUTH = PlaceTruth(
    (event(0, 0, 10, 10), event(20, 20, 30, 30), event(0, 30, 8, 38, sure=False)),
    ((20.0, 0.0, 30.0, 10.0),),
    ((32.0, 32.0, 40.0, 40.0),),
)


def scored(*reported):
    scores = StackScores()
    scores.add(TRUTH, reported, MONTHS, SIZE)
    return scores.as_dict()


def test_perfect_events_have_perfect_scores():
    boxes = (0, 0, 10, 10), (20, 20, 30, 30), (0, 30, 8, 38)
    found = scored(*(Reported(mask(*one), 105) for one in boxes))
    assert (found["recall"], found["precision"], found["scot"]) == (1.0, 1.0, 1.0)
    assert (found["dates_within_2_months"], found["look_alikes_reported"]) == (1.0, 0.0)


def test_a_look_alike_and_a_late_date_cost():
    found = scored(Reported(mask(0, 0, 10, 10), 109), Reported(mask(20, 0, 30, 10), 105))
    assert (found["recall"], found["precision"], found["look_alikes_reported"]) == (0.5, 0.5, 1.0)
    assert (found["dates_within_2_months"], found["mean_date_error_months"]) == (0.0, 4.0)
    assert found["false_per_place_and_year"] == pytest.approx(1.0)


def test_what_is_doubtful_counts_neither_way():
    found = scored(Reported(mask(0, 0, 10, 10), 105), Reported(mask(33, 33, 39, 39), 105))
    assert (found["precision"], found["false_per_place_and_year"]) == (1.0, 0.0)


def test_scot_by_hand():
    true = [Reported(mask(0, 0, 10, 10), 102)]
    # Two months late: 8 of 10 frames tracked; both appear for the first time in different months.
    late = [Reported(mask(0, 0, 10, 10), 104)]
    assert scot(true, true, MONTHS) == 1.0
    assert scot(true, late, MONTHS) == 0.0
    # A second, false event of the same months: tracking 10 / 15, change 1 / 1.5.
    more = [*true, Reported(mask(30, 30, 35, 35), 102)]
    assert scot(true, more, MONTHS) == pytest.approx(2 / 3)
    # The proposal is split in time: from month 107 on another id is a mismatch, 5 of 10 frames.
    split = [Reported(mask(0, 0, 10, 10), 102, 107), Reported(mask(0, 0, 10, 10), 107)]
    track, change = 9 / 10, 1 / 1.5
    assert scot(true, split, MONTHS) == pytest.approx(5 * change * track / (4 * change + track))


def test_simple_methods_find_a_step_and_its_date():
    values = np.random.default_rng(0).normal(100, 3, (12, 3, *SIZE))
    values[5:, :, 10:20, 22:30] += 80
    for method, month in ((two_dates, MONTHS[-1]), (plain_steps, MONTHS[5])):
        (found,) = [one for one in method(values, MONTHS) if one.mask.sum() > 20]
        assert found.first == month
        assert not (found.mask != mask(22, 10, 30, 20)).any()
    assert plain_steps(values[4:7], MONTHS[4:7]) == [], "two dates on each side are needed"


def test_a_plain_step_weighs_the_noise_of_both_sides_by_their_dates():
    values = np.full((12, 3, *SIZE), 100.0)
    values[:2, :, *HALL] = np.array([90, 110])[:, None, None, None]
    values[2:, :, *HALL] = 125
    (found,) = plain_steps(values, MONTHS)
    assert found.first == MONTHS[2], "a restless start is no noise of all dates"
    assert plain_steps(values[::-1], MONTHS)[0].first == MONTHS[10]


@pytest.fixture
def folder(tmp_path):
    dates = months(20)
    write_months(tmp_path / "town", paint(dates, [(HALL, 8, 99, ROOF)]), dates)
    hall = {
        "polygon": [[12, 12], [24, 12], [24, 24], [12, 24]],
        "certainty": "sure",
        "last_absent": "2018-08",
        "first_present": "2018-09",
        "grows_until": None,
    }
    look = {"box": [40, 40, 50, 50], "months": ["2018-05"], "what": "cloud"}
    truth = {"town": {"events": [hall], "not_events": [look], "doubtful": []}}
    (tmp_path / "truth.json").write_text(json.dumps(truth))
    return tmp_path


@pytest.mark.slow
def test_the_command_scores_a_folder(folder, tmp_path):
    command = ["evaluate", "--stacks", str(folder), "--no-baselines", "--json", str(tmp_path / "scores.json")]
    done = CliRunner().invoke(app, command)
    assert done.exit_code == 0, done.output
    scores = json.loads((tmp_path / "scores.json").read_text())
    monitor = scores["methods"]["rscc monitor"]
    assert (monitor["recall"], monitor["dates_within_2_months"], monitor["look_alikes_reported"]) == (1, 1, 0)
    assert (scores["places"], scores["held_out"]) == (1, 0)


@pytest.mark.parametrize("options", [[], ["--data", ".", "--stacks", "."]])
def test_the_command_scores_either_pairs_or_series(options):
    assert isinstance(CliRunner().invoke(app, ["evaluate", *options]).exception, OptionInvalid)


@pytest.mark.parametrize(
    "content", ["", "[]", "{}", '{"town": {}}', '{"../town": {"events": []}}', '{"no": {"events": []}}']
)
def test_bad_truth_is_named(folder, content):
    (folder / "truth.json").write_text(content)
    with pytest.raises(DatasetLayoutInvalid, match=r"truth\.json"):
        read_truth(folder)
