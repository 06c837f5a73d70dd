"""The scores in README and docs are those that ``rscc evaluate`` wrote of the weights that ship."""

import json
import re
from pathlib import Path

import pytest

from rscc.model_folder import find_model, open_model_folder

ROOT = Path(__file__).parents[2]
MODEL = "rscc-base"
MODELS = (MODEL, "rscc-small")
"""Those that were read on the test split."""
TEST_PAIRS = {"all": 147, "changed": 68, "unchanged": 79}
SMALL = "**rscc-small**, half the size"
DECODER = "the decoder of rscc-base alone (`--no-ground`)"
PEOPLE = "people, each against the others"


def written(name: str) -> dict:
    return json.loads((ROOT / f"docs/scores/{name}.json").read_text(encoding="utf-8"))


def rows_of(content: dict, model: str) -> dict[str, dict]:
    return {row["subset"]: row for row in content["rows"] if row["name"] == model}


def section(document: str, title: str) -> list[str]:
    """Return the lines of a document below a heading, all of them where the title is empty."""
    text = (ROOT / document).read_text(encoding="utf-8")
    if title:
        text = re.split(r"^## ", text.partition(f"\n## {title}\n")[2], flags=re.MULTILINE)[0]
    return text.splitlines()


def cells_of(line: str) -> list[str]:
    return [cell.strip() for cell in line.strip("|").split("|")]


def row(lines: list[str], title: str) -> list[str]:
    """Return the cells behind the title of a table's row."""
    (line,) = (line for line in lines if line.startswith(f"| {title} |"))
    return cells_of(line)[1:]


@pytest.mark.parametrize("model", MODELS)
def test_the_scores_are_of_the_weights_that_ship(model) -> None:
    run = written(f"{model}-test")["run"]
    card = open_model_folder(find_model(model), check_hashes=True).card
    assert (run["split"], run["grounded"], run["model"]["name"]) == ("test", True, model)
    for name in ("version", "weights_sha256", "facts_sha256"):
        assert run["model"][name] == getattr(card, name)
    assert {subset: run["counts"][subset] for subset in TEST_PAIRS} == TEST_PAIRS


@pytest.mark.parametrize("model", MODELS)
def test_the_results_say_what_was_written(model) -> None:
    scores, told, subset = rows_of(written(f"{model}-test"), model), {}, ""
    for cells in map(cells_of, section("docs/results.md", "The public test split")):
        if len(cells) == 8 and (named := re.fullmatch(r"(all|changed|unchanged), (\d+)", cells[0])):
            subset = named[1]
            assert int(named[2]) == TEST_PAIRS[subset]
        if len(cells) == 8 and cells[1] == f"**{model}**":
            told[subset] = cells[2:]
    assert set(told) == set(TEST_PAIRS)
    for subset, cells in told.items():
        one, between = scores[subset], scores[subset]["intervals"]
        numbers, intervals = zip(*(cell.partition(" (")[::2] for cell in cells), strict=True)
        texts = [f"{one[name]:.1f}" for name in ("bleu4", "meteor", "rouge_l")]
        texts.append("not defined" if one["cider"] is None else f"{one['cider']:.1f}")
        texts.append(f"{one['flag_accuracy']:.3f}")
        if subset != "unchanged":
            texts.append(f"{one['mask']['f1']:.3f}")
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
    (facts,) = (one for one in content["facts"] if one["name"] == name)
    shares = [facts[kind]["share"] for kind in ("number", "place", "direction")]
    cells = ["–" if share is None else f"{100 * share:.0f} %" for share in shares]
    cells += [f"{100 * facts['objects']['f1']:.0f} %", f"{facts['distinct_sentences']:.0f}"]
    return cells if name == "people" else [*cells, f"{rows_of(content, name)['changed']['cider']:.0f}"]


TEST, VALIDATION = "The public test split", "Validation"


@pytest.mark.parametrize(
    ("document", "part", "title", "file", "name"),
    [
        ("README.md", "How good it is", "**rscc-base**", "rscc-base-test", MODEL),
        ("README.md", "How good it is", PEOPLE, "rscc-base-test", "people"),
        ("docs/results.md", TEST, "**rscc-base**", "rscc-base-test", MODEL),
        ("docs/results.md", TEST, SMALL, "rscc-small-test", "rscc-small"),
        ("docs/results.md", TEST, PEOPLE, "rscc-base-test", "people"),
        ("docs/results.md", TEST, "template by count", "rscc-base-test", "template by count"),
        ("docs/results.md", VALIDATION, "**rscc-base**", "rscc-base-val", MODEL),
        ("docs/results.md", VALIDATION, DECODER, "rscc-base-decoder-val", MODEL),
        ("docs/results.md", VALIDATION, SMALL, "rscc-small-val", "rscc-small"),
        ("docs/results.md", VALIDATION, PEOPLE, "rscc-base-val", "people"),
    ],
)
def test_the_documents_say_what_was_written_of_facts(document, part, title, file, name) -> None:
    content = written(file)
    expected = stated(name, content)
    assert row(section(document, part), title)[: len(expected)] == expected
    run = content["run"]
    assert (run["split"], run["grounded"]) == (file.rpartition("-")[2], "decoder" not in file)
    card = open_model_folder(find_model(run["model"]["name"])).card
    assert run["model"]["weights_sha256"] == card.weights_sha256


OTHERS = "names an object that no reference names"


def facts_told(facts: dict) -> dict[str, str]:
    """Return the cells of what fell short that are shares of captions, and of objects."""
    return {
        "number right": f"{100 * facts['number']['share']:.0f} %",
        "words of place right": f"{100 * facts['place']['share']:.0f} %",
        "objects, F1": f"{100 * facts['objects']['f1']:.0f} %",
        "direction right": f"{100 * facts['direction']['share']:.0f} %",
    }


def counted(share: float, hits: int, captions: int) -> str:
    return f"{100 * share:.1f} % ({hits} of {captions})"


def test_what_fell_short_says_what_was_written() -> None:
    content = written(f"{MODEL}-test")
    every, changed = (rows_of(content, MODEL)[subset] for subset in ("all", "changed"))
    (facts,) = (one for one in content["facts"] if one["name"] == MODEL)
    lines = section("docs/results.md", "What fell short")
    wrong = changed["hallucinations"]
    gone = content["robustness"]["backwards"]["describes_removal"]
    same = content["robustness"]["called_unchanged"]["all"]
    told = {
        **facts_told(facts),
        "CIDEr, changed pairs": f"{changed['cider']:.1f}",
        "CIDEr, all pairs": f"{every['cider']:.1f}",
        "changed or not, accuracy": f"{every['flag_accuracy']:.3f}",
        OTHERS: counted(wrong["rate"], wrong["wrong"], wrong["captions"]),
        "construction backwards, said to be gone": f"{100 * gone['share']:.1f} %",
        "one image twice or disturbed, called unchanged": f"{100 * same['share']:.1f} %",
    }
    assert {title: row(lines, title)[0] for title in told} == told
    (people,) = (one for one in content["facts"] if one["name"] == "people")
    others = people["other_objects"]
    told = {**facts_told(people), OTHERS: counted(others["share"], others["wrong"], others["captions"])}
    assert {title: row(lines, title)[2] for title in told} == told
