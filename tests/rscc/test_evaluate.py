import importlib.util
import json
from dataclasses import replace

import numpy as np
import pytest
import torch
from fakes import card
from PIL import Image
from torch import nn

from rscc import evaluate as evaluate_module
from rscc.baselines import (
    ALWAYS_NO_CHANGE,
    FREQUENT_CHANGE,
    NEAREST_PAIR,
    baseline_captions,
    most_frequent_change_caption,
    nearest_captions,
)
from rscc.data.features import pooled_features
from rscc.data.pairs import PairRecord, truly_changed
from rscc.errors import ConfigInvalid, DatasetLayoutInvalid, WeightsNotFound
from rscc.evaluate import Wanted, evaluate, evaluate_records, score_model
from rscc.evaluation_report import SUBSETS, run_record
from rscc.metrics import CaptionScorer
from rscc.no_change import NO_CHANGE_SENTENCES, is_no_change
from rscc.predictions import PairPrediction, caption_predictions, captioner_predictions, enlarge
from rscc.scoring import score_predictions, subsets
from rscc.structures import Caption, ChangePrediction

pytest.importorskip("pycocoevalcap")

VILLAS = ("two villas are built", "some villas appear", "villas are built near the road")
TREES = ("many trees are removed", "the trees disappear", "trees are cut down")
SIDE = 32


def write_pair(folder, name, *, changed, captions, size=(24, 40)) -> PairRecord:
    """Write a pair whose upper half turns bright when it changed, and its mask."""
    before = np.full((*size, 3), 60, np.uint8)
    after, mask = before.copy(), np.zeros(size, np.uint8)
    if changed:
        after[: size[0] // 2], mask[: size[0] // 2] = 200, 255
    paths = [folder / f"{name}_{part}.png" for part in ("before", "after", "mask")]
    for path, array in zip(paths, (before, after, mask), strict=True):
        Image.fromarray(array).save(path)
    return PairRecord(name, paths[0], paths[1], mask=paths[2], captions=captions, changed=changed)


@pytest.fixture
def records(tmp_path) -> list[PairRecord]:
    return [
        write_pair(tmp_path, "one", changed=True, captions=VILLAS),
        write_pair(tmp_path, "two", changed=False, captions=NO_CHANGE_SENTENCES),
        write_pair(tmp_path, "three", changed=True, captions=TREES, size=(SIDE, SIDE)),
        write_pair(tmp_path, "four", changed=False, captions=NO_CHANGE_SENTENCES),
    ]


@pytest.fixture
def train() -> list[PairRecord]:
    def pair(name, captions):
        return PairRecord(name, name, name, captions=captions, changed=not is_no_change(captions[0]))

    return [
        pair("a", ("a house is built", *VILLAS)),
        pair("b", NO_CHANGE_SENTENCES),
        pair("c", ("two villas are built", "a road appears")),
        pair("d", NO_CHANGE_SENTENCES),
    ]


class BrightnessCaptioner:
    """Sees a change where the brightness differs; says so in fixed words."""

    def __init__(self, **values):
        self.card = replace(card(name="brightness", tile_size=SIDE), **values)
        self.batches: list[int] = []

    def describe(self, before, after, *, beams):
        self.batches.append(len(before))
        probability = np.minimum(np.abs(after.astype(np.float32) - before).mean(1) / 100, 1)
        found = ChangePrediction(probability, probability.max((1, 2)))
        return found, self.caption(before, after, beams=beams)

    def predict_change(self, before, after):
        return self.describe(before, after, beams=1)[0]

    def caption(self, before, after, *, beams):
        darkest = np.abs(after.astype(np.float32) - before).mean(1).max((1, 2)) / 100
        differs = np.minimum(darkest, 1) >= self.card.changed_threshold
        texts = ["two villas are built" if one else "there is no difference" for one in differs]
        return [
            Caption(text=text, score=0.5, changed=bool(one)) for text, one in zip(texts, differs, strict=True)
        ]


def report_of(records, train, **options):
    captioner = options.pop("captioner", None) or BrightnessCaptioner()
    run = {"data": "made up", "split": "test"}
    return evaluate_records(captioner, records, train, run=run, java=False, **options)


def features_of(records):
    """Features that bring each asked pair next to one training pair."""
    values = {"a": 0, "b": 10, "c": 20, "d": 30, "one": 19, "two": 11, "three": 1, "four": 29}
    return np.array(
        [[[values[record.id]] * 3, [2 * values[record.id]] * 3] for record in records], np.float32
    )


def test_a_perfect_eye_gets_perfect_flags_and_masks(records, train) -> None:
    row = report_of(records, train).row("brightness", "all")
    assert row.flags.accuracy == 1
    assert row.intervals["flag_accuracy"] == (1, 1)
    assert (row.mask.precision, row.mask.recall) == pytest.approx((1, 1), abs=0.06)
    assert row.mask.pixels == 3 * 24 * 40 + SIDE * SIDE, "counted at the size of the images"


def test_rows_come_for_all_changed_and_unchanged_pairs_of_every_captioner(records, train) -> None:
    report = report_of(records, train, features=features_of)
    names = ["brightness", ALWAYS_NO_CHANGE, FREQUENT_CHANGE, NEAREST_PAIR]
    assert [(row.name, row.subset) for row in report.rows] == [(n, s) for n in names for s in SUBSETS]
    assert [row.captions.count for row in report.rows[:3]] == [4, 2, 2]
    assert report.run["counts"] == {"all": 4, "changed": 2, "unchanged": 2}


def test_baselines_are_right_where_they_must_be(records, train) -> None:
    report = report_of(records, train, features=features_of)
    assert [report.row(ALWAYS_NO_CHANGE, subset).flags.accuracy for subset in SUBSETS] == [0.5, 0, 1]
    assert [report.row(FREQUENT_CHANGE, subset).flags.accuracy for subset in SUBSETS] == [0.5, 1, 0]
    assert report.row(NEAREST_PAIR, "all").flags.accuracy == 1
    assert report.row(ALWAYS_NO_CHANGE, "unchanged").captions.bleu4 == pytest.approx(100, abs=1e-3)
    assert report.row(ALWAYS_NO_CHANGE, "all").mask is None
    assert report.row("brightness", "unchanged").captions.cider is None
    assert "cider" not in report.row("brightness", "unchanged").intervals


def test_the_interval_holds_the_score(records, train) -> None:
    row = report_of(records, train).row("brightness", "all")
    low, high = row.intervals["cider"]
    assert low < row.captions.cider < high


def test_a_wrong_flag_counts_against_the_model(records, train) -> None:
    blind = BrightnessCaptioner(changed_threshold=1.1)
    report = report_of(records, train, captioner=blind)
    assert [report.row("brightness", subset).flags.accuracy for subset in SUBSETS] == [0.5, 0, 1]


def test_the_mask_threshold_of_the_card_is_used(records, train) -> None:
    report = report_of(records, train, captioner=BrightnessCaptioner(threshold=1.1))
    mask = report.row("brightness", "all").mask
    assert (mask.precision, mask.recall, mask.f1) == (None, 0, 0)


def test_pairs_are_read_in_batches_and_keep_their_order(records) -> None:
    captioner = BrightnessCaptioner()
    together = list(captioner_predictions(captioner, records, batch_size=3))
    assert captioner.batches == [3, 1]
    alone = list(captioner_predictions(captioner, records, batch_size=1))
    assert [one.caption for one in together] == [one.caption for one in alone]
    assert [one.mask.shape for one in together] == [(24, 40), (24, 40), (SIDE, SIDE), (24, 40)]
    for one, other in zip(together, alone, strict=True):
        assert (one.mask == other.mask).all()


def test_without_training_pairs_only_the_first_baseline_is_left(records) -> None:
    report = report_of(records, [], features=features_of)
    assert {row.name for row in report.rows} == {"brightness", ALWAYS_NO_CHANGE}
    assert report.run["training_pairs_of_baselines"] == 0


def test_pairs_without_references_are_left_out(records, train) -> None:
    records[0] = replace(records[0], captions=())
    assert report_of(records, train).run["counts"] == {"all": 3, "changed": 1, "unchanged": 2}
    with pytest.raises(DatasetLayoutInvalid, match="no pair of this split"):
        report_of([replace(record, captions=()) for record in records], train)


def test_one_prediction_per_pair_is_asked_for(records) -> None:
    with pytest.raises(ValueError, match="shorter"), CaptionScorer(java=False) as scorer:
        score_predictions("x", records, caption_predictions(["a road"]), scorer)


def test_masks_of_another_size_are_refused(records) -> None:
    said = [PairPrediction("a road", True, np.zeros((3, 3), bool)) for _ in records]
    with pytest.raises(DatasetLayoutInvalid, match="differ in size"), CaptionScorer(java=False) as scorer:
        score_predictions("x", records, said, scorer)


def test_the_flag_comes_from_the_references_where_there_is_none(records) -> None:
    unknown = [replace(record, changed=None) for record in records]
    assert [truly_changed(record) for record in unknown] == [True, False, True, False]


def test_the_most_frequent_change_caption_ignores_no_change_and_breaks_ties_by_alphabet(train) -> None:
    assert most_frequent_change_caption(train) == "two villas are built"
    assert most_frequent_change_caption(train[2:]) == "a road appears"
    with pytest.raises(DatasetLayoutInvalid, match="no training caption"):
        most_frequent_change_caption([train[1]])


def test_the_nearest_pair_gives_its_first_caption(train, records) -> None:
    captions = nearest_captions(train, features_of(train), features_of(records))
    assert captions == [
        train[2].captions[0],
        train[1].captions[0],
        train[0].captions[0],
        train[3].captions[0],
    ]
    assert nearest_captions(train, features_of(train), features_of(train)) == [r.captions[0] for r in train]


def test_what_changed_counts_for_the_nearest_pair() -> None:
    def pair(name):
        return PairRecord(name, name, name, captions=(name,))

    same, built = [[1, 0], [1, 0]], [[1, 0], [1, 4]]
    known = np.array([same, built], np.float32)
    asked = np.array([[[1.2, 0], [1.2, 3.5]], [[1.2, 0.1], [1.2, 0.2]]], np.float32)
    assert nearest_captions([pair("same"), pair("built")], known, asked) == ["built", "same"]


def test_features_that_do_not_fit_are_refused(train) -> None:
    with pytest.raises(DatasetLayoutInvalid, match="one trunk"):
        nearest_captions(train, np.zeros((4, 2, 8)), np.zeros((1, 2, 7)))
    with pytest.raises(DatasetLayoutInvalid, match="one trunk"):
        nearest_captions(train, np.zeros((3, 2, 8)), np.zeros((1, 2, 8)))


def test_baselines_without_features_have_no_nearest_pair(train) -> None:
    assert list(baseline_captions(train, 2)) == [ALWAYS_NO_CHANGE, FREQUENT_CHANGE]


def test_pooled_features_are_the_means_of_the_last_map_of_both_dates(records) -> None:
    class Trunk(nn.Module):
        def __init__(self):
            super().__init__()
            self.place = nn.Parameter(torch.zeros(()))

        def forward(self, images):
            return [images.float(), images.float()[:, :, ::2, ::2]]

    features = pooled_features(Trunk(), records, size=SIDE, batch_size=3, bf16=False)
    assert features.shape == (4, 2, 3)
    assert features[1] == pytest.approx(np.full((2, 3), 60))
    assert features[0, 0] == pytest.approx(np.full(3, 60))
    assert (features[0, 1] > 120).all()


def test_probabilities_are_enlarged_to_height_by_width() -> None:
    grid = np.array([[0.0, 1.0]], np.float32)
    large = enlarge(grid, (3, 8))
    assert large.shape == (3, 8)
    assert (np.diff(large[0]) >= 0).all()
    assert enlarge(large, (3, 8)) is large


def tables_of(text, words="") -> list[str]:
    """The tables whose first line holds ``words``."""
    parts = [part for part in text.split("\n\n") if part.startswith("|")]
    return [part for part in parts if words in part.splitlines()[0]]


def test_the_text_has_a_table_per_subset(records, train) -> None:
    text = report_of(records, train).as_text()
    for subset in SUBSETS:
        assert f"| {subset} pairs" in text
    assert "RDD+ACR" not in text
    assert "Note: no Java found" in text
    assert "Note: unchanged pairs: all pairs share the same references" in text
    assert len(tables_of(text, "BLEU-1")) == 3
    assert len(tables_of(text)) == 5
    for table in tables_of(text):
        assert len({line.count("|") for line in table.splitlines()}) == 1
        assert len({len(line) for line in table.splitlines()}) == 1


def test_without_masks_the_tables_have_no_mask_columns(records, train) -> None:
    assert "mask F1" in report_of(records, train).as_text()
    captioner = BrightnessCaptioner(changed_threshold=0.0)
    report = report_of([replace(one, mask=None) for one in records], train, captioner=captioner)
    assert "mask" not in report.as_text()
    assert "flag acc." in report.as_text()
    assert captioner.batches == [], "with neither true masks nor P(changed), only captions are asked for"
    assert report.row("brightness", "all").flags.calibration_error is None


def test_masks_of_a_model_without_a_change_head_are_not_scored(records, train) -> None:
    captioner = BrightnessCaptioner(localiser="attention")
    report = report_of(records, train, captioner=captioner)
    assert report.row("brightness", "all").mask is None
    assert report.row("brightness", "all").flags.accuracy == 1
    assert report.row("brightness", "all").flags.calibration_error is not None
    assert "Note: change masks are not scored" in report.as_text()


def test_pairs_that_all_changed_have_one_table(records, train) -> None:
    report = report_of([records[0], records[2]], train)
    assert {row.subset for row in report.rows} == {"all"}
    assert report.run["counts"] == {"all": 2, "changed": 2, "unchanged": 0}
    assert len(tables_of(report.as_text(), "BLEU-1")) == 1


def kinds_of(records) -> list[PairRecord]:
    """Two kinds of change; an unchanged pair has one as well, which does not count."""
    kinds = ("add", "drop", "drop", "")
    return [replace(record, kind=kind) for record, kind in zip(records, kinds, strict=True)]


def test_changed_pairs_are_also_grouped_by_the_kind_of_change(records) -> None:
    groups = subsets(kinds_of(records))
    assert {subset: [record.id for record in members] for subset, members in groups.items()} == {
        "all": ["one", "two", "three", "four"],
        "changed": ["one", "three"],
        "unchanged": ["two", "four"],
        "add": ["one"],
        "drop": ["three"],
    }
    kinds = {"one": ("road", "other"), "three": ("vegetation",), "two": ("road",)}
    assert list(subsets(records, kinds)) == [*SUBSETS, "road", "vegetation"], "other holds the pair of road"
    kinds["one"] = ("other",)
    assert list(subsets(records, kinds)) == [*SUBSETS, "vegetation", "other"]
    same = [replace(record, kind="add") for record in records]
    assert list(subsets(same)) == list(SUBSETS), "a kind that holds all changed pairs says nothing new"


def test_a_subset_is_scored_alone(records, train) -> None:
    records = kinds_of([*records[:3], replace(records[0], id="five")])
    whole = report_of(records, train)
    alone = report_of([records[0], records[2], records[3]], train)
    changed, expected = whole.row("brightness", "changed"), alone.row("brightness", "all")
    assert changed.captions.cider == expected.captions.cider != whole.row("brightness", "all").captions.cider
    assert changed.mask == expected.mask
    drop = whole.row("brightness", "drop")
    assert (drop.captions.count, drop.mask.pairs) == (1, 1)
    assert whole.run["counts"] == {"all": 4, "changed": 3, "unchanged": 1, "add": 1, "drop": 1}


def test_subsets_of_clevr_change_have_the_papers_names(records, train) -> None:
    report = report_of(kinds_of(records), train, dataset="clevr_change")
    heads = [table.splitlines()[0].split("|")[1].strip() for table in tables_of(report.as_text(), "BLEU-1")]
    assert heads == ["total", "semantic change", "pseudo change", "kind: add", "kind: drop"]
    heads = [table.splitlines()[0].split("|")[1].strip() for table in tables_of(report.as_text(compare=True))]
    assert [head for head in heads if head.startswith("compared")] == [
        *("compared: total", "compared: semantic change", "compared: pseudo change"),
        *("compared: kind: add", "compared: kind: drop"),
    ]


def test_scores_stand_with_their_intervals(records, train) -> None:
    report = report_of(records, train)
    (table,) = tables_of(report.as_text(), "95 % intervals")
    lines = [[cell.strip() for cell in line.split("|")] for line in table.splitlines()]
    assert [line[1] for line in lines[2:]] == ["all pairs", "changed pairs", "unchanged pairs"]
    cell = lines[2][lines[0].index("CIDEr")]
    row = report.row("brightness", "all")
    low, high = row.intervals["cider"]
    assert cell == f"{row.captions.cider:.1f} ({low:.1f}-{high:.1f})"
    assert report.as_dict()["rows"][0]["intervals"]["flag_accuracy"] == (1, 1)


def test_flags_have_precision_recall_and_calibration(records, train) -> None:
    flags = report_of(records, train).row("brightness", "all").flags
    assert (flags.accuracy, flags.precision, flags.recall) == (1, 1, 1)
    assert flags.calibration_error == pytest.approx(0, abs=1e-6)
    eager = report_of(records, train, captioner=BrightnessCaptioner(changed_threshold=1e-9))
    blind = report_of(records, train, captioner=BrightnessCaptioner(changed_threshold=1.1))
    assert eager.row("brightness", "all").flags.recall == 1
    assert blind.row("brightness", "all").flags.precision is None
    assert blind.row("brightness", "unchanged").flags.recall is None
    assert eager.row(ALWAYS_NO_CHANGE, "all").flags.calibration_error is None
    assert eager.row("brightness", "changed").flags.calibration_error is None, "nothing to tell apart"
    low, high = eager.row("brightness", "all").intervals["flag_recall"]
    assert (low, high) == pytest.approx((0.342, 1), abs=1e-3), "Wilson's of 2 of 2"


def test_objects_that_no_reference_names_are_counted_where_captions_speak_of_them(records, train) -> None:
    pytest.importorskip("spacy")
    report = report_of(records, train)
    found = report.row("brightness", "all").objects
    assert (found.captions, found.wrong, found.by_class) == (2, 1, {"building": 1}), "no villas among trees"
    assert report.row("brightness", "unchanged").objects.captions == 0
    assert "50.0" in tables_of(report.as_text(), "objects no reference names")[0]
    other = report_of(records, train, dataset="spot_the_diff").row("brightness", "all")
    assert other.objects is None
    assert "hallucination_rate" not in other.intervals


def test_without_a_parser_objects_are_left_out_and_the_notes_say_so(records, train, monkeypatch) -> None:
    def absent():
        raise WeightsNotFound("no parser here")

    monkeypatch.setattr(evaluate_module, "load_parser", absent)
    report = report_of(records, train)
    assert report.row("brightness", "all").objects is None
    assert "Note: objects that no reference names are not counted: no parser here" in report.as_text()


def test_kinds_are_read_from_references_where_the_data_name_none(records, train) -> None:
    pytest.importorskip("spacy")
    report = report_of(records, train, wanted=Wanted(kinds=True))
    assert {row.subset for row in report.rows} == {*SUBSETS, "building", "vegetation"}
    assert report.row("brightness", "building").captions.count == 1
    assert report.run["counts"]["vegetation"] == 1
    named = report_of(kinds_of(records), train, wanted=Wanted(kinds=True))
    assert {row.subset for row in named.rows} == {*SUBSETS, "add", "drop"}


def test_robustness_is_measured_when_it_is_wanted(records, train) -> None:
    report = report_of(records, train, wanted=Wanted(robustness=True))
    assert report.robustness.unchanged["identical"].right == 8
    assert report.robustness.removal.pairs == 1
    (table,) = tables_of(report.as_text(), "construction shown backwards")
    assert "0.0 (0.0-79.3)" in table
    values = json.loads(json.dumps(report.as_dict()))["robustness"]["backwards"]
    assert values["describes_removal"]["pairs"] == 1
    assert report_of(records, train).as_dict()["robustness"] is None


def test_every_pair_is_told_with_what_is_said_of_it(records, train) -> None:
    told = []
    report_of(records, train, keep=lambda record, said: told.append((record.id, said.changed)))
    assert told == [("one", True), ("two", False), ("three", True), ("four", False)]


def test_pairs_need_ids_of_their_own(records) -> None:
    twice = [records[0], records[0]]
    with pytest.raises(DatasetLayoutInvalid, match="same id"), CaptionScorer(java=False) as scorer:
        score_predictions("x", twice, caption_predictions(["a road", "a road"]), scorer)


def test_the_dictionary_is_json_with_the_run_record(records, train) -> None:
    run = {**run_record("rscc evaluate --data x"), "data": "x", "split": "test"}
    report = evaluate_records(BrightnessCaptioner(), records, train, run=run, java=False)
    values = json.loads(json.dumps(report.as_dict()))
    assert values["run"]["command"] == "rscc evaluate --data x"
    assert {"date", "machine", "versions", "data", "split", "counts", "model", "beams"} <= set(values["run"])
    assert len(values["rows"]) == 9
    assert values["rows"][0]["mask"]["f1"] > 0.9
    assert values["papers"]["rows"][-1]["method"] == "DAVIR"
    assert values["papers"]["rows"][-1]["cider"] == 140.7


@pytest.mark.real
@pytest.mark.skipif(importlib.util.find_spec("torchgeo") is None, reason="the reader needs torchgeo")
def test_fixed_captions_score_on_the_public_test_split_as_documented(shared_data) -> None:
    from rscc.data.levir_cc import LevirCC

    records = LevirCC(shared_data / "data" / "levir_cc", "test").records
    expected = {
        "there is no difference": (113.8, 0.2, 0.52),
        "many houses are built along the road": (19.2, 27.2, 0.48),
    }
    with CaptionScorer(java=False) as scorer:
        for caption, (whole, changed, flags) in expected.items():
            said = caption_predictions([caption] * len(records))
            rows = {row.subset: row for row in score_predictions(caption, records, said, scorer)}
            assert rows["all"].captions.cider == pytest.approx(whole, abs=0.05)
            assert rows["changed"].captions.cider == pytest.approx(changed, abs=0.05)
            assert rows["all"].flags.accuracy == pytest.approx(flags, abs=0.005)


def write_levir_cc(root) -> None:
    """Write a small data set in the official layout: two training pairs, two test pairs."""
    entries = []
    for split in ("train", "test"):
        for part in ("A", "B", "label"):
            (root / "images" / split / part).mkdir(parents=True)
        for changed, captions in ((1, VILLAS), (0, NO_CHANGE_SENTENCES)):
            name = f"{split}_{changed}.png"
            record = write_pair(root, name, changed=bool(changed), captions=captions, size=(SIDE, SIDE))
            for part, path in (("A", record.before), ("B", record.after), ("label", record.mask)):
                path.rename(root / "images" / split / part / name)
            sentences = [{"tokens": caption.split()} for caption in captions]
            entries.append(
                {
                    "filename": name,
                    "filepath": split,
                    "split": split,
                    "changeflag": changed,
                    "sentences": sentences,
                }
            )
    (root / "LevirCCcaptions.json").write_text(json.dumps({"images": entries}))


@pytest.fixture
def untrained_folder(tmp_path, monkeypatch):
    """The folder of a model of random weights."""
    pytest.importorskip("torchgeo")
    from rscc.config import ModelConfig
    from rscc.models.backbone import Backbone
    from rscc.models.rdd import Rdd
    from rscc.vocabulary import Vocabulary
    from rscc.weights import save_model_folder

    class Untrained(Backbone):
        """Three strided convolutions."""

        def __init__(self) -> None:
            sizes = (3, 4, 6, 8)
            strides = (4, 2, 2)
            super().__init__(
                [nn.Conv2d(a, b, s, s) for a, b, s in zip(sizes, sizes[1:], strides, strict=False)],
                channels=sizes[1:],
            )

    monkeypatch.setattr("rscc.models.backbone.build_backbone", lambda *_, **__: Untrained())
    monkeypatch.setattr("shutil.which", lambda name: None)
    torch.manual_seed(7)
    vocabulary = Vocabulary.build([*VILLAS, *NO_CHANGE_SENTENCES], min_count=1)
    config = ModelConfig(width=16, heads=2, word_width=8, decoder_layers=1, max_words=8, head_width=8)
    model = Rdd(config=config, backbone=Untrained(), vocabulary=vocabulary)
    return save_model_folder(
        tmp_path / "model",
        model,
        card=card(name="untrained", paper="rdd", tile_size=SIDE),
        card_text="For tests.",
        no_change_prefixes=[],
    )


def test_a_model_folder_is_scored_on_a_data_set_folder(tmp_path, untrained_folder) -> None:
    folder = untrained_folder
    write_levir_cc(tmp_path / "data")
    from rscc.data.registry import DATASETS

    report = evaluate(folder.path, tmp_path / "data", split="test", beams=2, device="cpu")
    assert {row.name for row in report.rows} == {"untrained", ALWAYS_NO_CHANGE, FREQUENT_CHANGE, NEAREST_PAIR}
    assert report.run["counts"] == {"all": 2, "changed": 1, "unchanged": 1}
    assert report.run["model"]["weights_sha256"] == folder.card.weights_sha256
    assert report.row(NEAREST_PAIR, "all").flags.accuracy == 1
    assert report.row("untrained", "all").mask.pixels == 2 * SIDE * SIDE
    assert report.run["dataset"] == "levir_cc"
    assert "compared: all pairs" in report.as_text(compare=True)

    records = DATASETS["levir_cc"](tmp_path / "data", "test").records
    rows = score_model(folder.path, records, beams=2, java=False, device="cpu")
    assert [row.captions.cider for row in rows] == [row.captions.cider for row in report.rows[:3]]
    assert [row.flags for row in rows] == [row.flags for row in report.rows[:3]]
    assert [row.mask for row in rows] == [row.mask for row in report.rows[:3]]
    with pytest.raises(DatasetLayoutInvalid, match="no pair of this split"):
        score_model(folder.path, [replace(record, captions=()) for record in records])


def test_too_many_training_pairs_have_no_nearest_and_the_report_says_so(
    tmp_path, untrained_folder, monkeypatch
) -> None:
    write_levir_cc(tmp_path / "data")
    monkeypatch.setattr(evaluate_module, "MOST_NEIGHBOURS", 1)
    report = evaluate(untrained_folder.path, tmp_path / "data", beams=1, device="cpu")
    assert NEAREST_PAIR not in {row.name for row in report.rows}
    assert "no nearest training pair is looked for among more than 1 training pairs" in report.as_text()


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
    import benchmark_fixtures

    benchmark_fixtures.WRITERS[dataset](tmp_path / "data")
    report = evaluate(untrained_folder.path, tmp_path / "data", dataset=dataset, beams=1, device="cpu")
    assert {row.subset for row in report.rows} == subsets_found
    assert all(row.mask is None for row in report.rows)
    assert report.as_text(compare=True).count("| compared: ") == compared
    assert json.loads(json.dumps(report.as_dict()))["run"]["dataset"] == dataset


def test_an_unknown_data_set_is_refused_before_anything_is_read() -> None:
    with pytest.raises(ConfigInvalid, match="'paris' is not known; use one of levir_cc"):
        evaluate("no model", "no folder", dataset="paris")


def test_the_command_writes_sheet_table_and_scores(tmp_path, untrained_folder, capsys) -> None:
    from rscc.cli import main

    write_levir_cc(tmp_path / "data")
    arguments = ["evaluate", "--model", untrained_folder.path, "--data", tmp_path / "data", "--robustness"]
    arguments += ["--no-baselines"]
    written = ["--sheet", tmp_path / "sheet-{page}.png", "--json", tmp_path / "scores.json"]
    with pytest.raises(SystemExit) as ended:
        main([str(one) for one in [*arguments, *written, "--kinds", "--beams", "1", "--device", "cpu"]])
    out = capsys.readouterr().out
    assert ended.value.code in (0, None)
    assert "untrained, one image twice, called unchanged" in out
    assert {path.name for path in tmp_path.glob("s*")} == {"sheet-1.png", "sheet.csv", "scores.json"}
    with Image.open(tmp_path / "sheet-1.png") as sheet:
        assert sheet.height > 2 * 256
    assert (tmp_path / "sheet.csv").read_text().count("\n") == 3
    values = json.loads((tmp_path / "scores.json").read_text())
    assert {row["name"] for row in values["rows"]} == {"untrained"}
    assert values["robustness"]["called_unchanged"]["all"]["pairs"] == 6 * 4


@pytest.mark.parametrize("name", ["sheet.bmp", "nowhere/sheet.png"])
def test_a_sheet_that_cannot_be_written_is_refused_before_the_work(name, tmp_path, capfd) -> None:
    from rscc.cli import main

    with pytest.raises(SystemExit) as ended:
        main(["evaluate", "--data", str(tmp_path / "missing"), "--sheet", str(tmp_path / name)])
    err = capfd.readouterr().err
    assert ended.value.code == 2
    assert name.split("/")[-1] in err and err.count("\n") == 1
