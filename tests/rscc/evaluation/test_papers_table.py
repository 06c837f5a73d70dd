"""The papers' rows: complete, as printed, and set beside ours with what keeps the two apart."""

import re
from collections import Counter

import pytest
from report_checks import cells_of

from rscc.evaluation.evaluation_report import EvaluationReport
from rscc.evaluation.metrics import CaptionScores
from rscc.evaluation.papers import METRICS, PaperRow, PaperTables, comparison, paper_tables
from rscc.evaluation.score_rows import EvaluationRow, FlagScores

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
