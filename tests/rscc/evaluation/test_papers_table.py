"""The papers' rows: complete, as printed, and set beside ours with what keeps the two apart."""

import re
import tomllib
from collections import Counter
from importlib import resources

import pytest
from markdown_tables import cells_of

from rscc.evaluation.metrics import CaptionScores
from rscc.evaluation.papers import METRICS, PaperRow, PaperTables, comparison, paper_tables, search_name
from rscc.evaluation.report import EvaluationReport
from rscc.evaluation.rows import EvaluationRow, FlagScores

FILES = {
    "SCORER+CBR": "scorer_cbr_iccv2023.md",
    "DIRL+CCR": "dirl_ccr_eccv2024.md",
    "CHEERS": "cheers.md",
    "RDD+ACR": "rdd_acr_aaai2025.md",
    "DAVIR": "davir.md",
}
KINDS = ("color", "material", "add", "drop", "move")
# Lines of every printed table that have a number for the subset, counted by hand.
PRINTED = {
    "levir_cc": {("RDD+ACR", 2, "all"): 9, ("DAVIR", 3, "all"): 12},
    "clevr_change": {
        **{("SCORER+CBR", 1, "all"): 14, ("SCORER+CBR", 1, "changed"): 8},
        **{("SCORER+CBR", 7, "unchanged"): 2},
        **{("SCORER+CBR", 2, kind): 11 for kind in KINDS},
        **{("DIRL+CCR", 2, "changed"): 11},
        **{("DIRL+CCR", 3, kind): 8 for kind in KINDS},
        **{("CHEERS", 1, "all"): 15, ("CHEERS", 1, "changed"): 11},
        **{("RDD+ACR", 1, "all"): 13},
    },
    "clevr_dc": {("SCORER+CBR", 3, "all"): 11, ("DIRL+CCR", 4, "all"): 7, ("CHEERS", 2, "all"): 8},
    "spot_the_diff": {
        **{("SCORER+CBR", 5, "all"): 11, ("DIRL+CCR", 1, "all"): 11, ("CHEERS", 3, "all"): 9},
        **{("RDD+ACR", 3, "all"): 10, ("DAVIR", 1, "all"): 12},
    },
    "image_editing_request": {
        **{("SCORER+CBR", 4, "all"): 8, ("DIRL+CCR", 5, "all"): 10, ("DAVIR", 2, "all"): 11},
    },
}


CONTENT = tomllib.loads(resources.files("rscc").joinpath("data", "papers.toml").read_text("utf-8"))


def origin(source: str) -> tuple[str, int]:
    """Take "RDD+ACR (AAAI 2025), Table 2" apart."""
    found = re.fullmatch(r"(\S+)(?: \([^)]*\))?, Table (\d+)", source)
    assert found, source
    return found[1], int(found[2])


@pytest.mark.parametrize("dataset", PRINTED)
def test_every_line_of_every_printed_table_is_there(dataset) -> None:
    rows = paper_tables(dataset).rows
    assert Counter((*origin(row.sources[0]), row.subset) for row in rows) == PRINTED[dataset]
    assert len({(row.sources, row.subset, row.method) for row in rows}) == len(rows)
    for row in rows:
        assert row.scores.keys() <= METRICS.keys() and row.scores
        assert all(5 < score < 160 for score in row.scores.values())
        assert row.venue or row.method in ("CHEERS", "DAVIR"), row.method


def test_the_file_holds_nothing_else() -> None:
    assert set(CONTENT) == {"venues", "decoding", *PRINTED}
    used = {row.method for dataset in PRINTED for row in paper_tables(dataset).rows}
    assert set(CONTENT["venues"]) == used - {"CHEERS", "DAVIR"}
    assert set(CONTENT["decoding"]) <= used
    assert paper_tables("dubai_cc") == paper_tables("no such data set") == PaperTables()


def words_of(line: str) -> list[str]:
    """Return the plain words of a table line, which the papers' texts part by bars or tabs."""
    plain = re.sub(r"<[^>]*>|\*", "", line).replace("R 3 Net", "R3Net")
    return [cell.strip() for cell in (plain.split("|") if "|" in plain else plain.split("\t"))]


def number(cell: str) -> float | None:
    return float(cell) if re.fullmatch(r"\d+(\.\d+)?", cell) else None


def is_line_of(printed: str, cells: list[str]) -> bool:
    """Tell whether a line's first cell is the method, alone or before its year, venue or reference."""
    name = re.sub(r"\s*3\s*(?=Net)", "3", cells[0])
    return re.fullmatch(re.escape(printed) + r"\s*(\[?†\]?)?\s*([\[(].*)?", name) is not None


@pytest.fixture
def texts(shared_data) -> dict[str, str]:
    return {paper: (shared_data / "papers" / file).read_text("utf-8") for paper, file in FILES.items()}


@pytest.mark.parametrize("dataset", PRINTED)
def test_every_number_stands_in_its_papers_text(texts, dataset) -> None:
    missing = []
    for table in CONTENT[dataset]["tables"]:
        lines = [words_of(line) for line in texts[origin(table["source"])[0]].splitlines()]
        keys = KINDS if "metric" in table else METRICS
        columns = [key for key in keys if any(key in row for row in table["rows"])]
        for row in table["rows"]:
            expected = [row.get(column) for column in columns]
            starts = [cells for cells in lines if is_line_of(row.get("printed", row["method"]), cells)]
            blocks = [
                [number(cell) for cell in cells[start : start + len(columns)]]
                for cells in starts
                for start in (1, 6)
            ]
            if expected not in blocks:
                missing.append((table["source"], row["method"], expected))
    assert not missing


def test_a_papers_decoding_is_what_its_text_says(texts) -> None:
    greedy = {paper for paper, text in texts.items() if re.search(r"greedy[-\s]+decoding\s+strategy", text)}
    assert greedy == {"SCORER+CBR", "DIRL+CCR", "CHEERS"}
    assert not any("beam" in text for text in texts.values())
    told = {row.method for name in PRINTED for row in paper_tables(name).rows if row.decoding == "greedy"}
    assert told == {"SCORER", *greedy}


def made_up(method, subset="all", source="First, Table 1", note="", decoding="", **scores) -> PaperRow:
    return PaperRow(method, "X 2020", subset, scores, (source,), note, decoding)


PAPERS = PaperTables(
    "a test split of 9 pairs",
    pairs={"all": 9, "changed": 5},
    names={"changed": "semantic change"},
    rows=(
        made_up("Alpha", bleu4=50.0, meteor=30.0),
        made_up("Alpha", source="Second, Table 3", bleu4=50.0, cider=90.0, note="with further data"),
        made_up("Beta", cider=120.0, decoding="greedy"),
        made_up("Beta", source="Second, Table 3", cider=121.0),
        made_up("Gamma", "changed", cider=80.0),
        made_up("Delta", "add", meteor=40.0),
    ),
)


def own_row(subset="all", count=9, **scores) -> EvaluationRow:
    values = {"meteor": None, "cider": 100.0, "spice": None, **scores}
    ngrams = {"bleu1": 60.0, "bleu2": 55.0, "bleu3": 50.0, "bleu4": 45.0, "rouge_l": 60.0}
    captions = CaptionScores(count=count, **ngrams, **values, per_pair={})
    return EvaluationRow("ours", subset, captions, FlagScores(1.0, 1.0, 1.0), mask=None)


def report_of(*rows, papers=PAPERS) -> EvaluationReport:
    run = {"data": "here", "split": "test", "decoding": "beam of 3", "model": {"trained_on": "ten pairs."}}
    return EvaluationReport(rows=rows, run=run, papers=papers)


def test_rows_that_agree_become_one_with_both_sources() -> None:
    lines = PAPERS.merged("all")
    assert [line.method for line in lines] == ["Alpha", "Beta", "Beta"]
    assert lines[0].scores == {"bleu4": 50.0, "meteor": 30.0, "cider": 90.0}
    assert lines[0].sources == ("First, Table 1", "Second, Table 3")
    assert lines[0].note == "with further data"


def compared_cells(row) -> list[list[str]]:
    """The cells of the table that compares a row with the papers."""
    text = comparison(row, PAPERS, title="total", ours="split test", decoding="beam of 3")
    return cells_of(text.split("\n\n")[0])


def test_our_row_stands_where_its_cider_puts_it_and_last_without_one() -> None:
    cells = compared_cells(own_row())
    names = [line[0] for line in cells[2:]]
    assert names == ["Beta (X 2020)", "Beta (X 2020)", "> ours", "Alpha (X 2020), with further data"]
    metrics = ["BLEU-4", "METEOR", "ROUGE-L", "CIDEr"]
    assert cells[0] == ["compared: total", "pairs", "decoding", *metrics, "source"]
    assert [line[2] for line in cells[2:4]] == ["–", "greedy"], "the better of both is the one without"
    assert cells[4][1:] == ["9", "beam of 3", "45.0", "–", "60.0", "100.0", "this run"]
    assert cells[5][1:] == ["9", "–", "50.0", "30.0", "–", "90.0", "First, Table 1; Second, Table 3"]
    assert compared_cells(own_row(cider=None, meteor=99.0))[-1][0] == "> ours"


@pytest.mark.parametrize(
    ("subset", "count", "said"),
    [
        ("all", 9, "As many pairs as the papers score"),
        ("all", 8, "Other pairs than the papers'"),
        ("changed", 5, "As many pairs as the papers score"),
        ("add", 2, "is not known: an orientation, no ranking"),
    ],
)
def test_the_text_says_whether_pairs_are_as_many_and_numbers_disputed(subset, count, said) -> None:
    text = comparison(own_row(subset, count), PAPERS, title="x", ours="split test of here", decoding="greedy")
    assert said in text
    assert f"Ours: {count} pairs, split test of here. Papers: a test split of 9 pairs." in text
    assert ("different numbers" in text) == (subset == "all")
    assert ("Papers print different numbers of Beta: a line for each." in text) == (subset == "all")


def test_only_subsets_that_papers_report_are_compared() -> None:
    rows = [own_row(), own_row("changed", 5), own_row("unchanged", 4), own_row("add", 2)]
    text = report_of(*rows).as_text(compare=True)
    heads = [cells_of(part)[0][0] for part in text.split("\n\n") if part.startswith("|")]
    assert heads[:4] == ["all pairs", "semantic change", "unchanged pairs", "kind: add"]
    assert heads[4:6] == ["ours, 95 % intervals", "ours, flags and objects"]
    assert heads[6:] == ["compared: all pairs", "compared: semantic change", "compared: kind: add"]
    assert "Ours was trained on: ten pairs. Papers train on the whole official" in text
    assert text.count("| beam of 3 |") == 3
    text = report_of(*rows).as_text()
    assert "compared" not in text and "SPICE" not in text
    assert "SPICE" in report_of(own_row(spice=20.0)).as_text(), "a column where it is known"


@pytest.mark.parametrize(
    ("beams", "support", "name"),
    [
        (1, 0, "greedy"),
        (1, 8, "greedy"),
        (3, 0, "beam of 3"),
        (3, 8, "beam of 8, by support"),
        (10, 8, "beam of 10, by support"),
    ],
)
def test_a_search_is_named_by_what_is_done(beams, support, name) -> None:
    """As :meth:`ChangeCaptioner.generate_from` does it."""
    assert search_name(beams, support) == name


def test_a_data_set_that_no_paper_reports_is_said_to_have_none() -> None:
    text = report_of(own_row(), papers=PaperTables()).as_text(compare=True)
    assert "nothing to compare with" in text
    assert "trained on" not in text


def test_known_disagreements_of_the_papers_keep_a_line_each() -> None:
    lines = paper_tables("spot_the_diff").merged("all")
    scorer = [line.scores["meteor"] for line in lines if line.method == "SCORER+CBR"]
    assert scorer == [12.2, 13.2]
    (rdd,) = [line for line in paper_tables("levir_cc").merged("all") if line.method == "RDD+ACR"]
    assert [origin(source)[0] for source in rdd.sources] == ["RDD+ACR", "DAVIR"]
    (nct,) = [line for line in paper_tables("clevr_change").merged("move") if line.method == "NCT"]
    assert nct.scores == {"cider": 86.0, "meteor": 30.5}
