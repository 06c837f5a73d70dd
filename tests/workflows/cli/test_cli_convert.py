"""``rscc convert`` and the suffixes that ``rscc caption`` takes."""

import json

import pytest
from archive_rows import change, report


@pytest.fixture
def made(tmp_path):
    return report(change(1), change(2, 12.6)).write(tmp_path / "report.geojson")


@pytest.mark.parametrize("suffix", [".geojson", ".geojsonl", ".gpkg", ".fgb", ".parquet"])
def test_a_converted_report_is_the_one_that_is_written_at_once(rscc_command, made, tmp_path, suffix):
    wanted = report(change(1), change(2, 12.6)).write(tmp_path / f"at_once{suffix}")
    code, out, err = rscc_command("convert", made, tmp_path / f"out{suffix}")
    assert (code, err) == (0, "") and out == f"{tmp_path / f'out{suffix}'}: 2 changes\n"
    assert (tmp_path / f"out{suffix}").read_bytes() == wanted.read_bytes()


def test_lines_go_to_stdout(rscc_command, made):
    code, out, err = rscc_command("convert", made, "-")
    assert (code, err) == (0, "")
    assert [json.loads(line)["id"] for line in out.splitlines()] == [1, 2]


def test_what_is_there_is_kept_and_what_is_no_report_is_refused(rscc_command, made, tmp_path):
    (tmp_path / "out.gpkg").write_text("mine")
    code, _, err = rscc_command("convert", made, tmp_path / "out.gpkg")
    assert code == 2 and "--overwrite" in err
    assert rscc_command("convert", made, tmp_path / "out.gpkg", "--overwrite", "--quiet")[:2] == (0, "")
    damaged = json.loads(made.read_text(encoding="utf-8"))
    feature = damaged["features"][1]
    del feature["id"], feature["properties"]["id"]
    made.write_text(json.dumps(damaged), encoding="utf-8")
    code, _, err = rscc_command("convert", made, tmp_path / "other.fgb")
    assert code == 2 and "report.geojson" in err
    assert not (tmp_path / "other.fgb").exists()


def test_the_summary_is_of_the_changes_that_were_selected(rscc_command, tmp_path):
    trees = change(2, 12.6, direction="disappeared", came=(), gone=("trees",))
    made = report(change(1, direction="appeared", came=("building",)), trees, summary={"text": "both"})
    made = made.write(tmp_path / "r.geojson")
    assert rscc_command("convert", made, tmp_path / "t.geojson", "--only", "trees")[0] == 0
    selected = json.loads((tmp_path / "t.geojson").read_text())
    assert [one["id"] for one in selected["features"]] == [2]
    assert selected["rscc"]["summary"]["changes"] == 1
