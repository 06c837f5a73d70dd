"""Pairs read from files, turned, resized and put into batches."""

import os
import subprocess
from dataclasses import replace

import numpy as np
import pytest
import torch
from datasets import write_image
from PIL import Image
from training_runs import sample

from rscc.data.leaks import _grey
from rscc.data.pairs import (
    FLIPS,
    PairRecord,
    collate,
    contradicts_itself,
    flip_sample,
    flip_words,
    read_mask,
    read_rgb,
)
from rscc.data.sources import CaptionText
from rscc.errors import DatasetLayoutInvalid
from rscc.text.vocabulary import Vocabulary


def patch(value, *, ground=0) -> np.ndarray:
    array = np.full((4, 6), ground, np.uint8)
    array[1:3, 2:5] = value
    return array


@pytest.mark.parametrize("values", [(0, 255), (0, 1), (0, 2), (0, 15), (0, 100), (4, 250), (0, 0)])
def test_masks_of_either_range_are_read(tmp_path, values) -> None:
    write_image(tmp_path / "mask.png", patch(values[1], ground=values[0]))
    mask = read_mask(tmp_path / "mask.png")
    assert mask.dtype == bool
    assert mask.sum() == (6 if values[1] else 0)


@pytest.mark.parametrize("colours", [((0, 0, 0), (128, 0, 0), (0, 0, 90)), ((255, 255, 255), (0, 0, 0))])
def test_masks_with_a_palette_are_read_by_class_if_coloured_and_by_brightness_if_grey(
    tmp_path, colours
) -> None:
    array = patch(np.arange(3) % (len(colours) - 1) + 1)
    image = Image.fromarray(array).convert("P")
    image.putpalette([value for colour in colours for value in colour])
    image.save(tmp_path / "mask.png")
    expected = array > 0 if len(colours) == 3 else array == 0
    np.testing.assert_array_equal(read_mask(tmp_path / "mask.png"), expected)


@pytest.mark.parametrize("colour", [(255, 0, 0), (0, 0, 255), (255, 255, 0)])
def test_masks_in_colour_mark_what_is_bright_in_a_band(tmp_path, colour) -> None:
    array = np.zeros((4, 6, 3), np.uint8)
    array[1:3, 2:5] = colour
    array[0, 0] = 60  # the soft edge of something
    write_image(tmp_path / "mask.png", array)
    np.testing.assert_array_equal(read_mask(tmp_path / "mask.png"), array.max(axis=-1) == 255)


@pytest.mark.parametrize(("name", "kind"), [("a.png", np.uint16), ("a.tif", np.int32), ("b.tif", np.float32)])
def test_images_of_more_than_8_bits_are_refused_not_whitened(tmp_path, name, kind) -> None:
    Image.fromarray(np.arange(24, dtype=kind).reshape(4, 6) * 100).save(tmp_path / name)
    with pytest.raises(DatasetLayoutInvalid, match=name):
        read_rgb(tmp_path / name)


@pytest.mark.parametrize("error", [ValueError("odd"), Image.DecompressionBombError("large"), OSError("torn")])
def test_an_image_that_pillow_refuses_is_named(error, tmp_path, monkeypatch) -> None:
    def refuse(*_, **__):
        raise error

    (tmp_path / "odd.png").touch()
    monkeypatch.setattr(Image, "open", refuse)
    with pytest.raises(DatasetLayoutInvalid, match=r"odd\.png"):
        read_rgb(tmp_path / "odd.png")


def test_a_right_angle_is_no_direction() -> None:
    turned = flip_words("right of a left turn, at a right angle", "horizontal")
    assert turned == "left of a right turn, at a right angle"


@pytest.mark.parametrize("flip", FLIPS)
def test_words_go_where_the_pixels_go(flip) -> None:
    """A bright spot in one corner, named by its corner: after any flip the words still name its corner."""
    for row, vertical in ((0, "top"), (-1, "bottom")):
        for column, horizontal in ((0, "left"), (-1, "right")):
            one = sample((f"a spot in the {vertical} {horizontal} corner", f"the {vertical}-{horizontal}"))
            for part in (one.before, one.after):
                part[:] = 0
                part[:, row, column] = 255
            one.mask[:] = False
            one.mask[row, column] = True
            turned = flip_sample(one, flip)
            for part in (turned.before[0], turned.after[1], turned.mask):
                y, x = np.argwhere(part)[0]
                where = ("top" if y == 0 else "bottom", "left" if x == 0 else "right")
                words = (" ".join(where), "-".join(where))
                assert turned.captions == (f"a spot in the {words[0]} corner", f"the {words[1]}")


def test_collate_pads_captions_and_marks_what_is_known() -> None:
    vocabulary = Vocabulary.build(["a house on the left", "many trees"], min_count=1)
    one = sample(("a house on the left",))
    two = replace(sample(("many trees",), seed=1), mask=None, changed=None)
    segments = {"a house on the left": ("a house", ""), "many trees": ("many trees", "")}
    batch = collate([one, two])
    CaptionText(vocabulary, 40, segments).add(batch, [*segments])
    assert batch.before.shape == batch.after.shape == (2, 3, 24, 40)
    assert batch.before.dtype == torch.uint8
    assert batch.mask_known.tolist() == [True, False]
    assert batch.mask.dtype == torch.float32
    np.testing.assert_array_equal(batch.mask[0].numpy() > 0, one.mask)
    assert not batch.mask[1].any()
    assert batch.changed.tolist() == [1, 0]
    assert batch.changed_known.tolist() == [True, False]
    assert batch.tokens.dtype == torch.int64
    assert [vocabulary.decode(row) for row in batch.tokens] == ["a house on the left", "many trees"]
    assert batch.tokens[1].tolist()[-3:] == [vocabulary.pad] * 3
    assert (batch.nouns, batch.verbs) == (["a house", "many trees"], ["", ""])
    bare = collate([replace(one, mask=None), two])
    assert bare.mask is bare.mask_known is bare.tokens is bare.nouns is None


@pytest.mark.parametrize(
    ("changed", "marked", "contradicts"),
    [(False, 64, True), (False, 49, False), (False, None, False), (True, 0, False), (None, 64, True)],
)
def test_a_pair_contradicts_itself_where_it_is_called_unchanged_and_its_mask_is_not(
    changed, marked, contradicts, tmp_path
) -> None:
    mask = None
    if marked is not None:
        side = int(marked**0.5)
        pixels = np.zeros((32, 32), np.uint8)
        pixels[:side, :side] = 255
        mask = tmp_path / "mask.png"
        write_image(mask, pixels)
    record = PairRecord(
        "pair", tmp_path, tmp_path, mask, captions=("there is no difference",), changed=changed
    )
    assert contradicts_itself(record) is contradicts


@pytest.mark.parametrize("kind", ["EPS", "PDF", "PPM", "ICNS", "pipe", "device"])
@pytest.mark.parametrize("read", [read_rgb, read_mask, _grey])
def test_only_formats_that_run_nothing_are_opened_whatever_the_name(tmp_path, monkeypatch, kind, read):
    def started(*_, **__):
        raise AssertionError("a program was started")

    path = tmp_path / "a.png"
    if kind == "pipe":
        os.mkfifo(path)
    elif kind == "device":
        path.symlink_to("/dev/zero")
    else:
        Image.new("RGB", (128, 128)).save(path, kind)
    for name in ("Popen", "run", "check_call", "check_output"):
        monkeypatch.setattr(subprocess, name, started)
    if read is _grey:
        assert read(path) is None
    else:
        with pytest.raises(DatasetLayoutInvalid, match=r"a\.png"):
            read(path)
