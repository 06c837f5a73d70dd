"""Features of dates that are kept change no answer, and spare the trunk."""

import numpy as np
import pytest
from saved_models import saved, tiny_facts
from tiny_models import random_arrays

from rscc.captioner import Captioner
from rscc.facts.answers import ANSWERS
from rscc.trunk_memory import ENDING, remembering

pytestmark = pytest.mark.usefixtures("tiny_registered")


@pytest.fixture
def captioner(tmp_path) -> Captioner:
    facts = tiny_facts(sure=(0.5,) * len(ANSWERS))
    return Captioner.load(saved(tmp_path / "model", name="facts", facts=facts).path, device="cpu")


def trunk_calls(captioner: Captioner, monkeypatch) -> list[int]:
    seen: list[int] = []
    trunk = captioner.detector.backbone
    own = trunk.forward
    monkeypatch.setattr(trunk, "forward", lambda images: [seen.append(len(images)), own(images)][1])
    return seen


def test_answers_are_those_without_memory_and_each_date_is_seen_once(captioner, tmp_path, monkeypatch):
    before, after = random_arrays(2)
    expected = captioner.survey(before, after)
    calls = trunk_calls(captioner, monkeypatch)
    found = []
    for _ in range(2):
        with remembering(captioner, tmp_path / "kept"):
            found.append(captioner.survey(before, after))
    assert calls == [1] * 4
    for one, other, wanted in zip(*found, expected, strict=True):
        np.testing.assert_array_equal(one, other)
        np.testing.assert_allclose(one, wanted, atol=5e-3)
    with remembering(captioner, tmp_path / "kept"):
        captioner.survey(after, before)
    assert calls == [1] * 4
    captioner.survey(before, after)
    assert calls == [1] * 4 + [2] * 2


def test_a_damaged_or_missing_file_is_made_again(captioner, tmp_path, monkeypatch):
    before, after = random_arrays(2)
    with remembering(captioner, tmp_path / "kept"):
        expected = captioner.survey(before, after)
    first, second, *_ = sorted((tmp_path / "kept").rglob(f"*{ENDING}"))
    first.write_bytes(first.read_bytes()[:100])
    second.unlink()
    calls = trunk_calls(captioner, monkeypatch)
    with remembering(captioner, tmp_path / "kept"):
        found = captioner.survey(before, after)
    assert calls == [1] * 2
    for one, wanted in zip(found, expected, strict=True):
        np.testing.assert_array_equal(one, wanted)


def test_the_detector_is_restored_after_an_error(captioner, tmp_path):
    detector = captioner.detector
    with pytest.raises(KeyError), remembering(captioner, tmp_path / "kept"):
        raise KeyError
    assert captioner.detector is detector


def test_features_of_another_number_format_are_not_taken(captioner, tmp_path, monkeypatch):
    before, after = random_arrays(1)
    calls = trunk_calls(captioner, monkeypatch)
    for name in ("int8", "bf16"):
        with remembering(captioner, tmp_path / name):
            captioner.survey(before, after)
        monkeypatch.setattr(captioner, name, not getattr(captioner, name))
        with remembering(captioner, tmp_path / name):
            captioner.survey(before, after)
    assert calls == [1] * 8


def test_images_of_the_same_bytes_and_another_shape_are_told_apart(captioner, tmp_path):
    with remembering(captioner, tmp_path / "kept"):
        for height, width in ((64, 128), (128, 64)):
            grey = np.full((1, 3, height, width), 90, np.uint8)
            *_, down, across = captioner.survey(grey, grey)[1].shape
            assert (down < across) == (height < width)
