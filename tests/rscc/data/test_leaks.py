"""Test images that lie in training data are found, however they were changed; others are not."""

from __future__ import annotations

import pytest
from painted_ground import drawn_ground, planted, write_grounds
from PIL import Image

from rscc.data.leaks import THRESHOLD, find_leaks, image_files
from rscc.errors import DatasetLayoutInvalid

COPIES = {
    "flipped, zoomed, recoloured crop": {"side": 150, "zoom": 1.7, "turns": 0, "mirrored": True},
    "turned and mirrored, twice as large": {"side": 140, "zoom": 2.0, "turns": 3, "mirrored": True},
    "upside down, half as large": {"side": 226, "zoom": 0.6, "turns": 2, "mirrored": False},
    "a little larger": {"side": 230, "zoom": 1.09, "turns": 0, "mirrored": False},
    "between two zooms": {"side": 170, "zoom": 1.3, "turns": 2, "mirrored": True},
}


@pytest.fixture(scope="module")
def test_images(tmp_path_factory):
    return write_grounds(tmp_path_factory.mktemp("tested"), range(6))


@pytest.fixture(scope="module")
def training(tmp_path_factory):
    return write_grounds(tmp_path_factory.mktemp("learnt"), range(100, 130), ".jpg")


@pytest.mark.slow
@pytest.mark.parametrize("copy", COPIES)
def test_a_planted_copy_is_found_and_nothing_else(test_images, training, tmp_path, copy):
    leak = tmp_path / "leak.jpg"
    planted(drawn_ground(3), **COPIES[copy]).save(leak, quality=85)
    result = find_leaks(test_images, [*training, leak])
    (found,) = result.leaks
    assert (found.test, found.training) == (test_images[3], leak)
    assert found.correlation > THRESHOLD + 0.05
    assert found.zoom == pytest.approx(COPIES[copy]["zoom"], rel=0.06)
    assert (result.test, result.training, result.unread) == (6, 31, ())


def test_a_corner_that_both_show_is_found(test_images, tmp_path):
    """As where tiles were cut twice from one scene, with other corners."""
    scene, (tested, learnt) = (
        drawn_ground(300, 600),
        (tmp_path / name for name in ("tested.png", "learnt.png")),
    )
    scene.crop((100, 100, 356, 356)).save(tested)
    scene.crop((210, 190, 600, 600)).save(learnt)
    (found,) = find_leaks([*test_images, tested], [learnt]).leaks
    assert found.test == tested and found.zoom == pytest.approx(1, rel=0.06)


def test_an_image_that_is_there_whole_and_in_part_counts_by_the_whole(tmp_path):
    tested, training = drawn_ground(300, 600).crop((100, 100, 356, 356)), Image.new("RGB", (512, 256))
    part = tested.crop((23, 23, 233, 233))
    for image, place in ((drawn_ground(7, 256), (0, 0)), (part, (23, 23)), (tested, (256, 0))):
        training.paste(image, place)
    paths = tmp_path / "tested.png", tmp_path / "training.png"
    tested.save(paths[0])
    training.save(paths[1])
    (found,) = find_leaks(paths[:1], paths[1:]).leaks
    assert found.correlation > 0.98


def test_what_cannot_be_read_is_named_and_an_empty_folder_is_refused(test_images, tmp_path):
    broken, small = tmp_path / "broken.png", tmp_path / "small.png"
    broken.write_bytes(b"\x89PNG")
    drawn_ground(1, 60).save(small)
    result = find_leaks(test_images, [broken, small, test_images[0]])
    assert result.unread == (broken, small)
    assert result.training == 1
    with pytest.raises(DatasetLayoutInvalid):
        find_leaks(test_images, [broken])
    (tmp_path / "label" / "train" / "label").mkdir(parents=True)
    for folder in ("label/train", "label/train/label"):
        drawn_ground(1, 60).save(tmp_path / folder / "a.png")
    assert image_files(tmp_path / "label") == [tmp_path / "label" / "train" / "a.png"], "no mask"
    (tmp_path / "empty").mkdir()
    with pytest.raises(DatasetLayoutInvalid):
        image_files(tmp_path / "empty")
