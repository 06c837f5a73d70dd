"""A random sample of an archive: every change as likely as any other, and a report that can be marked."""

import json
import shutil

import pytest
from archive_rows import change, fill, report

from workflows.archive.sample import draw_sample
from workflows.errors import MarkMissing, NothingToSample, ReportsDamaged
from workflows.pairs.rows import PairRow
from workflows.report.reading import open_report


def row(pair):
    return PairRow(pair, f"/scenes/{pair}_1.tif", f"/scenes/{pair}_2.tif")


def found(pair, count):
    """A report whose captions say which pair and change they are of."""
    return report(*(change(n, caption=f"{pair} {n}") for n in range(1, count + 1)), summary={"text": "all"})


@pytest.fixture
def archive(tmp_path):
    counts = {"a": 4, "b": 0, "c": 1, "d": 7}
    rows = {row(pair): found(pair, count) for pair, count in counts.items()}
    return fill(tmp_path / "archive", {**rows, row("e"): "no such file", row("f"): None}).path


def captions(drawn):
    return [one.caption for one in drawn.changes]


def test_a_sample_has_each_change_once_and_says_where_it_is_from(archive):
    drawn = draw_sample(archive, 6, seed=3)
    assert len(set(captions(drawn))) == 6 and [one.id for one in drawn.changes] == list(range(1, 7))
    sample = drawn.run["sample"]
    assert (sample["archive"], sample["seed"], sample["changes"]) == ("archive", 3, 12)
    assert [f"{pair} {number}" for pair, number in sample["drawn"]] == captions(drawn)
    assert draw_sample(archive, 6, seed=3) == drawn
    assert captions(draw_sample(archive, 6, seed=4)) != captions(drawn)
    whole = [f"{pair} {n}" for pair, count in (("a", 4), ("c", 1), ("d", 7)) for n in range(1, count + 1)]
    assert captions(draw_sample(archive, 100)) == whole


def test_a_sample_says_of_all_its_pairs_only_what_is_true_of_all(archive, tmp_path):
    kept = archive / "pairs" / "a" / "changes.geojson"
    kept.write_text(
        kept.read_text().replace('"threshold": 0.5', '"threshold": 0.25').replace("1.2.3", "1.1.0")
    )
    drawn = draw_sample(archive, 12)
    assert drawn.run["settings"] == {} and "version" not in drawn.run["model"]
    assert drawn.run["model"]["name"] == "brightness" and drawn.run["versions"] == {"rscc": "0.1.0"}
    drawn.write(tmp_path / "sample.geojson")
    assert len(open_report(tmp_path / "sample.geojson").changes) == 12


def test_what_cannot_be_drawn_from_is_refused(tmp_path, archive):
    with pytest.raises(MarkMissing):
        draw_sample(tmp_path, 3)
    with pytest.raises(NothingToSample):
        draw_sample(fill(tmp_path / "empty", {row("a"): found("a", 0), row("b"): None}).path, 3)
    path = archive / "pairs" / "d" / "changes.geojson"
    content = json.loads(path.read_text())
    content["features"][0]["geometry"] = None
    path.write_text(json.dumps(content))
    with pytest.raises(ReportsDamaged, match="/d/"):
        draw_sample(archive, 12)
    path.unlink()
    assert len(draw_sample(archive, 12).changes) == 5, "those of the other pairs"


def test_a_pair_that_is_in_no_table_is_not_drawn(archive):
    shutil.copytree(archive / "pairs" / "d", archive / "pairs" / "left")
    assert draw_sample(archive, 100).run["sample"]["changes"] == 12


def test_the_command_draws_a_sample_and_says_what_its_verdicts_come_to(rscc_command, archive, tmp_path):
    path = tmp_path / "sample.geojson"
    code, out, err = rscc_command("review", "--sample", 10, archive, "-o", path, "--json")
    assert (code, json.loads(out)) == (0, {"output": str(path), "drawn": 10, "changes": 12, "seed": 0})
    assert str(path) in err
    code, out, _ = rscc_command("review", path)
    assert (code, out) == (0, f"{path}: 0 confirmed, 0 wrong place, 0 wrong words, 10 without a verdict\n")
    # As QGIS saves it: the number is the id of the feature alone.
    content = json.loads(path.read_text())
    verdicts = ["confirmed"] * 5 + ["wrong words"] + ["wrong place"] * 2 + ["", None]
    for feature, verdict in zip(content["features"], verdicts, strict=True):
        del feature["properties"]["id"]
        feature["properties"]["review_status"] = verdict
    path.write_text(json.dumps(content))
    code, out, _ = rscc_command("review", path)
    assert (code, out.splitlines()) == (
        0,
        [
            f"{path}: 5 confirmed, 2 wrong place, 1 wrong words, 2 without a verdict",
            "precision    0.750 (95 percent: 0.500 to 0.833)",
            "true changes about 9 of 12 (6 to 10)",
            "right words  0.833 of the true changes (95 percent: 0.500 to 0.900)",
            "not final    2 of the sample have no verdict yet",
        ],
    )
    before = path.read_bytes()
    assert [one.id for one in open_report(path).changes] == list(range(1, 11))
    code, out, _ = rscc_command("review", path, "--json", "-q")
    facts = json.loads(out)
    assert facts["verdicts"] == {"confirmed": 5, "wrong place": 2, "wrong words": 1}
    assert facts["precision"]["precision_interval"] == [0.5, 0.8333]
    assert path.read_bytes() == before, "without marks nothing is written"


@pytest.mark.parametrize("words", [(), ("-o", "sample.gpkg"), ("marks.json", "-o", "sample.geojson")])
def test_a_sample_that_could_not_be_read_again_is_not_drawn(rscc_command, archive, words, monkeypatch):
    monkeypatch.chdir(archive.parent)
    code, out, err = rscc_command("review", archive, "--sample", 3, *words)
    assert (code, out) == (2, "")
    assert err == "rscc: error: --sample: give one archive, and with -o the .geojson to write\n"
    assert [path.name for path in archive.parent.iterdir()] == ["archive"]
