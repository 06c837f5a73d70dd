"""Evaluations of model folders on folders of data, and the command."""

import csv
import hashlib
import io
import json
import shutil
from dataclasses import replace
from pathlib import Path

import pytest
from datasets import WRITERS, write_levir_cc
from painted_ground import drawn_ground, planted, write_grounds
from PIL import Image
from saved_models import saved
from scene_pairs import run_here
from tiny_models import tiny_model
from training_runs import SIDE, row_of

from rscc.data.benchmarks.levir_cc import LevirCC
from rscc.data.pairs import PairRecord
from rscc.errors import DatasetLayoutInvalid
from rscc.evaluation.baselines import ALWAYS_NO_CHANGE, FREQUENT_CHANGE, NEAREST_PAIR, TEMPLATE_BY_COUNT
from rscc.evaluation.evaluate import UNGATED, EvaluationOptions, evaluate, score_model
from rscc.evaluation.picture_sheet import _table
from rscc.evaluation.predictions import PairPrediction
from rscc.evaluation.score_rows import PEOPLE, SUBSETS

pytest.importorskip("pycocoevalcap")


def write_data(root) -> None:
    """Write a data set whose two test pairs show what the two training pairs do."""
    write_levir_cc(root, train=2, val=1, test=2, size=SIDE)
    for path in (root / "images" / "train").rglob("*.png"):
        name = path.name.replace("train", "test")
        shutil.copy(path, root / "images" / "test" / path.parent.name / name)


@pytest.fixture
def untrained_folder(tmp_path, monkeypatch, tiny_registered):
    """The folder of a model of random weights, on a machine without Java."""
    monkeypatch.setattr("shutil.which", lambda name: None)
    return saved(tmp_path / "model", tiny_model(), name="untrained", paper="rdd", tile_size=SIDE)


def test_a_model_folder_is_scored_on_a_data_set_folder(tmp_path, untrained_folder) -> None:
    folder = untrained_folder
    write_data(tmp_path / "data")
    report = evaluate(folder.path, tmp_path / "data", EvaluationOptions(beams=2), device="cpu")
    names = {
        "untrained",
        "untrained" + UNGATED,
        TEMPLATE_BY_COUNT,
        ALWAYS_NO_CHANGE,
        FREQUENT_CHANGE,
        NEAREST_PAIR,
    }
    assert {row.name for row in report.rows} == names
    assert report.run["counts"] == {"all": 2, "changed": 1, "unchanged": 1}
    assert report.run["model"]["weights_sha256"] == folder.card.weights_sha256
    assert row_of(report, NEAREST_PAIR, "all").flags.accuracy == 1
    assert row_of(report, "untrained", "all").mask.pixels == 2 * SIDE * SIDE
    assert report.run["dataset"] == "levir_cc"
    assert "compared: all pairs" in report.as_text(compare=True)

    records = LevirCC(tmp_path / "data", "test")
    rows = score_model(folder.path, records, beams=2, device="cpu")
    for row, expected in zip(rows, report.rows[:3], strict=True):
        assert row.captions.cider == expected.captions.cider
        assert (row.flags, row.mask) == (expected.flags, expected.mask)
    with pytest.raises(DatasetLayoutInvalid):
        score_model(folder.path, [replace(record, captions=()) for record in records])


@pytest.mark.slow
def test_the_report_has_the_hash_of_the_index_and_names_test_images_in_training_data(
    tmp_path, untrained_folder, monkeypatch
) -> None:
    data, learnt = write_levir_cc(tmp_path / "data", train=2, val=1, test=2, size=256), tmp_path / "learnt"
    (tested,) = write_grounds(data / "images" / "test" / "A", range(5, 6))
    tested.replace(tested.with_name("test_000000.png"))
    write_grounds(learnt, range(50, 53), ".jpg")

    def scored(*more, baselines=False):
        only = EvaluationOptions(baselines=baselines, beams=1)
        return evaluate(untrained_folder.path, data, only, device="cpu", training=[learnt, *more])

    # Among more training pairs than this no nearest one is looked for.
    monkeypatch.setattr("rscc.evaluation.evaluate.MAX_NEIGHBOURS", 1)
    report = scored(baselines=True)
    assert NEAREST_PAIR not in {row.name for row in report.rows} and "nearest" in report.notes[-1]
    captions = hashlib.sha256((data / "LevirCCcaptions.json").read_bytes()).hexdigest()
    assert report.run["index"] == {"LevirCCcaptions.json": captions}
    plain = report.as_dict()
    assert (plain["leaks"]["test"], plain["leaks"]["training"], plain["leaks"]["leaks"]) == (4, 3, [])
    piece = planted(drawn_ground(5), side=160, zoom=1.5, turns=1, mirrored=True)
    piece.save(learnt / "piece.jpg", quality=85)
    write_grounds(data / "images" / "test" / "A", range(60, 61))
    report = scored(data / "images" / "test")
    (leak,) = report.as_dict()["leaks"]["leaks"]
    assert leak["training"] == str(learnt / "piece.jpg") and leak["test"].endswith("A/test_000000.png")
    assert "THE SCORES ARE TOO HIGH" in report.as_text()


@pytest.mark.parametrize(
    ("dataset", "subsets_found", "compared"),
    [
        ("clevr_change", {*SUBSETS, "color", "material"}, 5),
        ("clevr_dc", set(SUBSETS), 1),
        ("dubai_cc", set(SUBSETS), 0),
        ("image_editing_request", {"all"}, 1),
        ("spot_the_diff", {"all"}, 1),
        ("spot_the_diff_multi", {"all"}, 0),
    ],
)
def test_every_data_set_is_scored(dataset, subsets_found, compared, tmp_path, untrained_folder) -> None:
    WRITERS[dataset](tmp_path / "data")
    options = EvaluationOptions(dataset=dataset, beams=1)
    report = evaluate(untrained_folder.path, tmp_path / "data", options, device="cpu")
    assert {row.subset for row in report.rows} == subsets_found
    assert all(row.mask is None for row in report.rows)
    assert report.as_text(compare=True).count("| compared: ") == compared
    assert json.loads(json.dumps(report.as_dict()))["run"]["dataset"] == dataset


def test_no_cell_of_the_table_of_a_sheet_is_a_formula() -> None:
    record = PairRecord("=cmd()", Path("a.png"), Path("b.png"), captions=("@sum",), changed=True)
    prediction = PairPrediction("+1", changed=True, probability=None)
    (row,) = csv.DictReader(io.StringIO(_table([(record, prediction)])))
    assert not any(cell.startswith(("=", "+", "@")) for cell in row.values())


@pytest.mark.slow
def test_the_command_writes_sheet_table_scores_and_predictions(tmp_path, untrained_folder, capsys) -> None:
    write_data(tmp_path / "data")
    (tmp_path / "scores.json").write_text("those of before")
    words = ["evaluate", "--model", untrained_folder.path, "--data", tmp_path / "data", "--robustness"]
    words += ["--no-baselines", "--overwrite", "--kinds", "--beams", 1, "--device", "cpu"]
    words += ["--sheet", tmp_path / "sheet-{page}.png", "--json", tmp_path / "scores.json"]
    files = ("sheet-1.png", "sheet.csv", "scores.json", "said.jsonl")
    code, out, _ = run_here(capsys, *words, "--predictions", tmp_path / "said.jsonl")
    assert code == 0
    assert "untrained, one image twice, called unchanged" in out
    assert {path.name for path in tmp_path.glob("s*")} == set(files)
    with Image.open(tmp_path / "sheet-1.png") as sheet:
        assert sheet.height > 2 * 256
    sheet_table = (tmp_path / "sheet.csv").read_text()
    assert sheet_table.count("\n") == 3
    values = json.loads((tmp_path / "scores.json").read_text())
    assert {row["name"] for row in values["rows"]} == {"untrained", "untrained" + UNGATED}
    assert values["robustness"]["called_unchanged"]["all"]["pairs"] == 6 * 4
    assert [scores["name"] for scores in values["facts"]] == ["untrained", PEOPLE]
    lines = [json.loads(line) for line in (tmp_path / "said.jsonl").read_text().splitlines()]
    table = csv.DictReader(io.StringIO(sheet_table))
    drawn = [(row["id"], row["called_changed"] == "1", row["caption"]) for row in table]
    assert [(line["file"], line["changed"], line["caption"]) for line in lines] == drawn
    assert all(0 <= line["p_changed"] <= 1 and line["facts"] is None for line in lines)


@pytest.mark.parametrize(
    ("option", "name", "file", "remedy"),
    [
        ("--predictions", "there.json", "there.json", "--overwrite"),
        ("--sheet", "there.png", "there.csv", "--overwrite"),
        ("--sheet", "page-{page}.png", "page-7.png", "--overwrite"),
        ("--json", "data/LevirCCcaptions.json", "data/LevirCCcaptions.json", "input"),
        ("--sheet", *["data/images/test/A/test_000000.png"] * 2, "input"),
    ],
)
def test_no_output_takes_the_place_of_a_file(
    option, name, file, remedy, tmp_path, untrained_folder, capfd
) -> None:
    write_data(tmp_path / "data")
    for there in ("there.json", "there.csv", "page-7.png"):
        (tmp_path / there).write_text("mine")
    files = {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}
    words = ["evaluate", "--model", untrained_folder.path, "--data", tmp_path / "data"]
    words += ["--overwrite"] if "input" in remedy else []
    code, _, err = run_here(capfd, *words, option, tmp_path / name)
    assert code == 2
    assert str(tmp_path / file) in err and remedy in err and err.count("\n") == 1
    assert {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()} == files
