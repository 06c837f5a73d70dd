"""What benchmarks time beside rscc, on the smallest input; the figures are for who runs them."""

import dataclasses
import subprocess

import numpy as np
import old_commit
import peers
import pytest
import rasterio
import twin_scene
from fakes import BrightnessCaptioner
from large_scene import SizeCost, line_of, line_text
from markdown_tables import cells_of
from scene_pairs import SPOTS, make_pair
from shapely import STRtree
from shapely.geometry import Point, box, mapping
from tiny_models import tiny_model
from turns import Pair, from_shell, in_process, in_turns, medians


@pytest.fixture
def pair(tmp_path):
    made = make_pair(tmp_path, SPOTS, size=(300, 520))
    return Pair.of(made.before, made.after)


def test_ways_take_turns_after_a_round_that_does_not_count() -> None:
    called = []
    rounds = in_turns({"a": lambda: called.append("a"), "b": lambda: called.append("b")}, 2)
    assert called == ["a", "b"] * 3
    assert {name: len(seconds) for name, seconds in rounds.items()} == {"a": 2, "b": 2}
    assert medians({"a": [3.0, 1.0, 2.0]}) == {"a": 2.0}


def test_a_pair_knows_its_ground(pair) -> None:
    assert pair.pixels == 300 * 520
    assert pair.km2 == pytest.approx(0.15 * 0.26)
    assert pair.km2_per_minute(30) == pytest.approx(0.078)


def test_the_command_runs_here_with_a_loaded_model(pair, tmp_path) -> None:
    output = tmp_path / "report.geojson"
    told = in_process(pair, output, lambda *_: BrightnessCaptioner(), ["--group-distance", "0"])
    assert told["changes"] == len(SPOTS) and output.is_file()
    with pytest.raises(RuntimeError, match="ended with 2"):
        in_process(pair, tmp_path / "report.no_format", lambda *_: BrightnessCaptioner())


def test_the_command_of_another_tree_runs_from_the_shell(pair, tmp_path) -> None:
    package = tmp_path / "tree" / "rscc"
    package.mkdir(parents=True)
    (package / "__main__.py").write_text("import json, sys; print(json.dumps(sys.argv[1:]))")
    told = from_shell(pair, tmp_path / "r.geojson", ["--fast"], tmp_path / "tree")
    assert told[:3] == ["caption", str(pair.before), str(pair.after)] and told[-1] == "--fast"
    (package / "__main__.py").write_text("import sys; sys.exit('no scene')")
    with pytest.raises(RuntimeError, match="no scene"):
        from_shell(pair, tmp_path / "r.geojson", [], tmp_path / "tree")


def test_the_plain_loop_captions_every_window(pair, monkeypatch) -> None:
    monkeypatch.setattr(peers, "TILE", 64)
    model = tiny_model("rdd").eval()
    captions = peers.plain_loop(pair, model)
    assert len(captions) == len(peers.windows(pair)) == 5 * 9
    last = list(peers.tiles(pair))[-1]
    assert [image.shape for image in last] == [(3, 64, 64)] * 2
    assert last[0][:, 300 - 256 :].max() == 0, "beyond the scene"


def test_the_research_style_reads_files_and_says_so_many_words(pair, tmp_path, monkeypatch) -> None:
    monkeypatch.setattr(peers, "TILE", 256)
    files = peers.write_files(pair, tmp_path)
    assert len(files) == 6 and all(path.is_file() for both in files for path in both)
    model = tiny_model("scorer").eval()
    for words in (3, 5):
        captions = peers.research_style(files[:2], model, 64, words)
        assert [len(caption.split()) for caption in captions] == [words] * 2


def test_ratios_say_how_many_times_faster_a_way_is(pair) -> None:
    seconds = {peers.PLAIN: 6.0, peers.RESEARCH: 12.0, "rscc": 3.0}
    last = cells_of(peers.peers_table(pair, seconds))[-1]
    assert last == ["rscc", "3.00", "0.052", "0.78", "2.00", "4.00"]


def collection(*boxes):
    return {"features": [{"geometry": mapping(one)} for one in boxes]}


def test_outlines_of_two_reports_are_compared_as_ground() -> None:
    first = collection(box(0, 0, 2, 1), box(5, 0, 6, 1))
    second = collection(box(0, 0, 1, 1).union(box(5, 0, 6, 1)))
    found = old_commit.compare(first, second)
    assert found == {"old_changes": 2, "new_changes": 1, "old_outlines": 2, "new_outlines": 2, "iou": 2 / 3}
    assert old_commit.compare(first, first)["iou"] == 1
    assert old_commit.compare(collection(), collection())["iou"] == 1


def test_an_older_commit_is_checked_out_and_removed(tmp_path) -> None:
    def git(*words):
        who = ["-c", "user.name=n", "-c", "user.email=n@example.org"]
        return subprocess.run(
            ["git", "-C", str(tmp_path), *who, *words], check=True, capture_output=True, text=True
        ).stdout

    git("init", "-q")
    for text in ("old", "new"):
        (tmp_path / "file").write_text(text)
        git("add", "file")
        git("commit", "-q", "-m", text)
    with old_commit.checked_out("HEAD~1", tmp_path) as tree:
        assert (tree / "file").read_text() == "old"
    assert not tree.exists()
    assert len(git("worktree", "list").splitlines()) == 1


def test_the_twin_has_its_houses_and_fewer_on_a_part_of_it() -> None:
    whole, part = (twin_scene.built_layout(7, share) for share in (1.0, 0.05))
    assert len(whole.villas) == twin_scene.PLACES
    assert set(part.villas) < set(whole.villas)
    width, height = twin_scene.WIDTH * twin_scene.GSD, twin_scene.HEIGHT * twin_scene.GSD
    corner = box(0, 0, width * 0.05**0.5, height * 0.05**0.5)
    inside = {house for house in whole.villas if corner.contains(Point(house.x, house.y))}
    assert set(part.villas) == inside and 3 <= len(inside) <= 7
    outlines = [house.footprint() for house in whole.villas]
    first, second = STRtree(outlines).query(outlines, predicate="intersects")
    assert (first == second).all(), "no two houses touch"


@pytest.mark.slow
def test_the_twin_is_painted_once_and_looks_the_same_before(tmp_path, monkeypatch) -> None:
    small = {"WIDTH": 640, "HEIGHT": 530, "ACROSS": 8, "STREETS": 2, "PLACES": 12}
    for name, value in small.items():
        monkeypatch.setattr(twin_scene, name, value)
    twins = [twin_scene.make_twin(tmp_path, share) for share in (1.0, 0.3)]
    assert twins[0].places == 12 > twins[1].places > 0
    images = []
    for twin in twins:
        for path in (twin.before, twin.after):
            with rasterio.open(path) as file:
                assert (file.width, file.height, file.res) == (640, 530, (0.5, 0.5))
                images.append(file.read())
    assert np.array_equal(images[0], images[2])
    east = images[1][:, :, 480:], images[3][:, :, 480:]
    assert not np.array_equal(*east), "houses stand there in the first alone"
    written = twins[0].after.stat().st_mtime_ns
    assert twin_scene.make_twin(tmp_path, 1.0) == twins[0]
    assert twins[0].after.stat().st_mtime_ns == written


def test_a_line_through_the_sizes_and_what_it_leaves() -> None:
    costs = [SizeCost(side, 1, 0, 3 + 0.5 * side**2 / 1e6, 1) for side in (1000, 2000, 4000, 8000)]
    start, slope, left = line_of(costs)
    assert (start, slope) == (pytest.approx(3), pytest.approx(0.5))
    assert left == pytest.approx([0] * 4, abs=1e-9)
    slow = dataclasses.replace(costs[-1], seconds=2 * costs[-1].seconds)
    assert max(abs(one) for one in line_of([*costs[:-1], slow])[2]) > 0.1
    assert line_text(costs).startswith("seconds = 3.00 + 0.500 x megapixels; left of each side: 1000: ")
