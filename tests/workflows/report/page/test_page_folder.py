"""The page as a folder: what its pictures show, what it lets in, and which folders it never touches."""

from __future__ import annotations

import re
from dataclasses import replace

import numpy as np
import pytest
from pages import made_page, squares
from PIL import Image
from scene_pairs import GROUND
from test_page import Elements

from tiling import SceneDamaged
from workflows.errors import OutputExists
from workflows.report.page import folder as folder_module
from workflows.report.page import imagery
from workflows.report.page.folder import check_page_folder

SIZE = (300, 420)


@pytest.fixture
def small_tiles(monkeypatch):
    """Scenes of some hundred pixels have several scales of tiles, as large ones have."""
    monkeypatch.setattr(imagery, "MOST_PIXELS", 10_000)
    monkeypatch.setattr(folder_module, "TILE", 64)


@pytest.fixture
def made(tmp_path, small_tiles):
    return made_page(tmp_path, squares(5, SIZE), as_folder=True)


def pixels(path):
    return np.asarray(Image.open(path).convert("RGBA")).astype(int)


def contents(folder):
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_all_of_the_ground_is_there_at_every_scale_and_at_full_detail(made):
    shown, root = made.data["imagery"], made.page.parent
    assert shown["reduced"] == 1 and shown["whole"]["reduced"] == 4
    assert pixels(root / shown["whole"]["after"]).shape == (75, 105, 4)
    assert {part["reduced"] for part in shown["parts"]} == {1, 2}
    for reduced in (1, 2):
        after = np.zeros((*SIZE, 3))
        for part in (one for one in shown["parts"] if one["reduced"] == reduced):
            col, row, width, height = part["box"]
            read = pixels(root / part["after"])
            assert read.shape[:2] == (-(-height // reduced), -(-width // reduced))
            large = np.kron(read[..., :3], np.ones((reduced, reduced, 1)))[:height, :width]
            assert (after[row : row + height, col : col + width] == 0).all(), "no two show the same"
            after[row : row + height, col : col + width] = large
        # The bright square of the scene after, with an edge as sharp as the scale allows.
        assert after[63:97, 63:97].mean() == pytest.approx(240, abs=6)
        assert after[50 : 60 - reduced, 60:100].mean() == pytest.approx(GROUND, abs=8)
        assert after.min() > 0, "all of it is shown"
    assert contents(root).keys() == {
        "index.html",
        *(one[date] for one in (shown["whole"], *shown["parts"]) for date in ("before", "after")),
    }


def test_it_is_the_same_page_but_for_where_pictures_may_come_from(tmp_path):
    as_file = made_page(tmp_path, squares(2, SIZE))
    page = as_file.report.page_folder(tmp_path / "page")
    as_folder = replace(as_file, page=page)
    (file_policy, folder_policy) = (
        next(one["content"] for one, _ in Elements(made.text).all("meta") if one.get("http-equiv"))
        for made in (as_file, as_folder)
    )
    assert folder_policy == file_policy.replace("img-src data:", "img-src 'self'") != file_policy
    assert as_file.data["report"] == as_folder.data["report"]

    def code(made):
        return re.sub(r'id="imagery">.*?</script>', "", made.text.replace(folder_policy, file_policy))

    assert code(as_file) == code(as_folder)


def test_a_page_gives_way_to_a_new_one_and_to_nothing_half(made, monkeypatch):
    root, old = made.page.parent, contents(made.page.parent)
    with pytest.raises(OutputExists):
        made.report.page_folder(root)

    def damaged(*_):
        raise SceneDamaged("a block is damaged")

    with monkeypatch.context() as broken:
        broken.setattr(folder_module, "read_dates", damaged)
        with pytest.raises(SceneDamaged):
            made.report.page_folder(root, overwrite=True)
    assert contents(root) == old
    replace(made.report, changes=[]).page_folder(root, overwrite=True)
    assert made.data["report"]["changes"] == []
    assert not [path for path in root.parent.iterdir() if path.name.startswith(".")]


@pytest.mark.parametrize("overwrite", [False, True])
def test_only_a_folder_of_such_a_page_is_ever_replaced(made, tmp_path, overwrite):
    other = tmp_path / "other"
    other.mkdir()
    (other / "index.html").write_text("<title>my own site</title>")
    (tmp_path / "link").symlink_to(made.page.parent)
    (tmp_path / "file").write_text("mine")
    (tmp_path / "dangling").symlink_to(tmp_path / "nowhere")
    (tmp_path / "empty").mkdir()
    for name in ("other", "link", "file", "dangling", "empty"):
        with pytest.raises(OutputExists):
            check_page_folder(tmp_path / name, overwrite)
    for name in ("marks.json", "tiles/notes.txt", "more/1.webp"):
        alien = made.page.parent / name
        alien.parent.mkdir(exist_ok=True)
        alien.write_text("mine")
        with pytest.raises(OutputExists):
            check_page_folder(made.page.parent, overwrite)
        alien.unlink()
        if alien.parent.name == "more":
            alien.parent.rmdir()
    if overwrite:
        assert check_page_folder(made.page.parent, overwrite) == made.page.parent
    assert (other / "index.html").read_text() == "<title>my own site</title>"
