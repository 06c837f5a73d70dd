"""The scores in README and docs are those that ``rscc evaluate`` wrote of the weights that ship."""

import json
import re
from pathlib import Path

import pytest

from rscc.model_folder import find_model, open_model_folder

ROOT = Path(__file__).parents[2]
SHIPPED = ("rscc-base", "rscc-small")
TEST_PAIRS = {"all": 130, "changed": 62, "unchanged": 68}


def written(model: str) -> dict:
    return json.loads((ROOT / f"docs/scores/{model}-test.json").read_text(encoding="utf-8"))


def rows_of(content: dict, model: str) -> dict[str, dict]:
    return {row["subset"]: row for row in content["rows"] if row["name"] == model}


def results_rows(model: str) -> dict[str, list[str]]:
    """Return the cells behind the name in the table of results, by subset."""
    found, subset = {}, ""
    lines = (ROOT / "docs/results.md").read_text(encoding="utf-8").splitlines()
    for line in lines:
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        if len(cells) == 8 and (named := re.match(r"(all|changed|unchanged), (\d+)", cells[0])):
            subset = named[1]
            assert int(named[2]) == TEST_PAIRS[subset]
        if len(cells) == 8 and cells[1] == f"**{model}**":
            found[subset] = cells[2:]
    return found


def docs_row(title: str) -> list[str]:
    lines = (ROOT / "docs/evaluation.md").read_text(encoding="utf-8").splitlines()
    (line,) = (line for line in lines if line.startswith(f"| {title}"))
    return [cell.strip() for cell in line.strip("|").split("|")[1:3]]


@pytest.mark.parametrize("model", SHIPPED)
def test_the_scores_are_of_the_weights_that_ship(model) -> None:
    run = written(model)["run"]
    card = open_model_folder(find_model(model), check_hashes=True).card
    assert (run["split"], run["model"]["name"]) == ("test", model)
    assert (run["model"]["version"], run["model"]["weights_sha256"]) == (card.version, card.weights_sha256)
    assert {subset: run["counts"][subset] for subset in TEST_PAIRS} == TEST_PAIRS


@pytest.mark.parametrize("model", SHIPPED)
def test_the_results_say_what_was_written(model) -> None:
    scores, told = rows_of(written(model), model), results_rows(model)
    assert set(told) == set(TEST_PAIRS)
    for subset, cells in told.items():
        row, between = scores[subset], scores[subset]["intervals"]
        numbers, intervals = zip(*(cell.partition(" (")[::2] for cell in cells), strict=True)
        texts = [f"{row[name]:.1f}" for name in ("bleu4", "meteor", "rouge_l")]
        texts.append("not defined" if row["cider"] is None else f"{row['cider']:.1f}")
        texts.append(f"{row['flag_accuracy']:.3f}")
        if subset != "unchanged":
            texts.append(f"{row['mask']['f1']:.3f}")
        assert list(numbers[: len(texts)]) == texts, subset
        ways = [("bleu4", ".1f"), ("meteor", ".1f"), ("rouge_l", ".1f"), ("cider", ".0f")]
        ways += [("flag_accuracy", ".2f"), ("mask_f1", ".2f")]
        told_intervals = 0
        for interval, (name, digits) in zip(intervals, ways, strict=True):
            if interval:
                low, high = between[name]
                assert interval == f"{low:{digits}}-{high:{digits}})", (subset, name)
                told_intervals += 1
        assert told_intervals == (4 if subset == "all" else 2 if subset == "changed" else 1)


def stated(name: str, content: dict) -> list[str]:
    """Return the cells of a table of what captions state."""
    (facts,) = (row for row in content["facts"] if row["name"] == name)
    cells = [f"{100 * facts[kind]['share']:.0f} %" for kind in ("number", "place", "direction")]
    return [*cells, f"{100 * facts['objects']['f1']:.0f} %", f"{facts['distinct_sentences']:.0f}"]


@pytest.mark.parametrize("document", ["README.md", "docs/results.md"])
def test_the_documents_say_what_was_written_of_facts(document) -> None:
    lines = (ROOT / document).read_text(encoding="utf-8").splitlines()
    for title, file, name in (
        ("**rscc-base**", "rscc-base-val", "rscc-base"),
        ("**rscc-small**, half the size", "rscc-small-val", "rscc-small"),
        ("the decoder of rscc-base alone (`--no-ground`)", "rscc-base-decoder-val", "rscc-base"),
        ("people, each against the others", "rscc-base-val", "people"),
    ):
        content = json.loads((ROOT / f"docs/scores/{file}.json").read_text(encoding="utf-8"))
        (line,) = (line for line in lines if line.startswith(f"| {title} |"))
        cells = [cell.strip() for cell in line.strip("|").split("|")[1:]]
        expected = stated(name, content)
        if name != "people":
            row = rows_of(content, name)["changed"]
            expected.append(f"{row['cider']:.0f}")
            card = open_model_folder(find_model(name)).card
            run = content["run"]
            assert (run["split"], run["grounded"]) == ("val", not file.endswith("decoder-val"))
            assert run["model"]["weights_sha256"] == card.weights_sha256
        assert cells[: len(expected)] == expected, (document, title)


def test_the_docs_say_what_was_written() -> None:
    contents = [written(model) for model in SHIPPED]
    scores = [rows_of(content, model) for content, model in zip(contents, SHIPPED, strict=True)]
    every, changed = ([of[subset] for of in scores] for subset in ("all", "changed"))
    assert docs_row("changed or not, accuracy") == [f"{row['flag_accuracy']:.3f}" for row in every]
    assert docs_row("expected calibration error") == [f"{row['calibration_error']:.3f}" for row in every]
    assert docs_row("mask F1 / IoU") == [
        f"{row['mask']['f1']:.3f} / {row['mask']['iou']:.3f}" for row in every
    ]
    assert docs_row("CIDEr, all pairs") == [f"{row['cider']:.1f}" for row in every]
    assert docs_row("CIDEr, changed pairs") == [f"{row['cider']:.1f}" for row in changed]
    assert docs_row("BLEU-4, all pairs") == [f"{row['bleu4']:.1f}" for row in every]
    wrong = [row["hallucinations"] for row in changed]
    assert docs_row("names an object that no reference names") == [
        f"{100 * one['rate']:.1f} % ({one['wrong']} of {one['captions']})" for one in wrong
    ]
    anywhere = [row["hallucinations"]["wrong"] for row in every]
    assert docs_row("the same, of all 130 captions") == [f"{100 * n / 130:.1f} % ({n})" for n in anywhere]
    gone = [content["robustness"]["backwards"]["describes_removal"]["share"] for content in contents]
    assert docs_row("construction backwards") == [f"{100 * share:.1f} %" for share in gone]
    same = [content["robustness"]["called_unchanged"]["all"]["share"] for content in contents]
    assert docs_row("one image twice or disturbed") == [f"{100 * share:.0f} %" for share in same]
