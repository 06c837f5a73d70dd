"""The papers' rows: complete, as printed, and set beside ours with what keeps the two apart."""

from dataclasses import replace

from report_checks import cells_of

from rscc.evaluation.metrics import CaptionScores
from rscc.evaluation.papers import PaperRow, PaperTables, comparison
from rscc.evaluation.score_rows import EvaluationRow, FlagScores


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


def own_row(**scores) -> EvaluationRow:
    values = {"meteor": None, "cider": 100.0, "spice": None, **scores}
    ngrams = {"bleu1": 60.0, "bleu2": 55.0, "bleu3": 50.0, "bleu4": 45.0, "rouge_l": 60.0}
    captions = CaptionScores(count=9, **ngrams, **values, per_pair={})
    return EvaluationRow("ours", "all", captions, FlagScores(1.0, 1.0, 1.0), mask=None)


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


def test_other_numbers_of_pairs_are_no_ranking() -> None:
    row, named = own_row(), {"title": "t", "ours": "o", "decoding": "d"}
    texts = [
        comparison(replace(row, captions=replace(row.captions, count=count)), PAPERS, **named)
        for count in (8, 9, 10)
    ]
    assert ["no ranking" in text for text in texts] == [True, False, True]


def test_rows_that_differ_in_one_number_stay_apart() -> None:
    rows = [PaperRow("a", "", "all", {"bleu_4": 60.0, "cider": cider}, ("x",)) for cider in (130.0, 131.0)]
    other = PaperRow("a", "", "all", {"meteor": 39.0}, ("y",))
    assert rows[0].agrees(rows[0]) and not rows[0].agrees(rows[1]) and rows[0].agrees(other)
