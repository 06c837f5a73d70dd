"""The readers of the benchmarks on fixtures in their official layouts, and on the real annotation files."""

import gzip
import json
import shutil
from collections import Counter
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from benchmark_fixtures import CHANGED, COUNTS, KINDS, UNCHANGED, WRITERS, frames, numbers
from levir_cc_fixture import sentences
from tiny_models import tiny_backbone, tiny_config, tiny_model

from rscc.captioner import Captioner
from rscc.config import Config, DataConfig, TrainConfig, load_config
from rscc.data.annotations import SPLITS
from rscc.data.pairs import resize_sample
from rscc.data.registry import DATASETS
from rscc.errors import DatasetLayoutInvalid
from rscc.evaluate import evaluate_records
from rscc.models import MODELS, backbone
from rscc.runs import RunPaths, train_model
from rscc.structures import NO_CHANGE_CAPTION
from rscc.validation import caption_validation

OTHERS = [name for name in DATASETS if name != "levir_cc"]
FILES = {
    "dubai_cc": ["description_jsontr_te_val/Train_Dubai_CC.json"],
    "clevr_change": [
        *("splits.json", "type_mapping.json", "change_captions.json", "no_change_captions.json"),
    ],
    "clevr_dc": ["split.json", "captions.json"],
    "spot_the_diff": ["train.json"],
    "spot_the_diff_multi": ["train.json"],
    "image_editing_request": ["train.json"],
}
each_file = pytest.mark.parametrize(
    ("name", "file"), [(name, file) for name, files in FILES.items() for file in files]
)


@pytest.fixture(scope="module")
def written(tmp_path_factory):
    """One fixture of each data set, by name."""
    folder = tmp_path_factory.mktemp("benchmarks")
    return {name: write(folder / name) for name, write in WRITERS.items()}


@pytest.fixture
def own(written, tmp_path):
    """Gives a copy of a fixture that a test may break."""
    return lambda name: shutil.copytree(written[name], tmp_path / name)


def edit(path: Path, change) -> None:
    content = json.loads(path.read_text())
    change(content)
    path.write_text(json.dumps(content))


# What all readers hold


def test_every_data_set_has_a_fixture() -> None:
    assert set(WRITERS) == set(DATASETS)
    assert set(FILES) == set(OTHERS)


@pytest.mark.parametrize("name", OTHERS)
@pytest.mark.parametrize("split", SPLITS)
def test_a_split_is_read_whole(written, name, split) -> None:
    data = DATASETS[name](written[name], split, trust=("named",))
    assert len(data) == COUNTS[split] * (2 if name == "clevr_change" else 1)
    assert len({record.id for record in data.records}) == len(data)
    for index, record in enumerate(data.records):
        sample = data[index]
        assert (sample.id, sample.captions, sample.changed) == (record.id, record.captions, record.changed)
        assert sample.captions
        assert sample.before.dtype == sample.after.dtype == np.uint8
        assert sample.before.shape == sample.after.shape
        assert sample.mask is None
        assert all(caption == caption.lower().strip() for caption in sample.captions)


@pytest.mark.parametrize("name", OTHERS)
def test_dates_are_not_swapped_and_splits_not_shared(written, name) -> None:
    """The new square is in the second date: its mean is higher wherever something changed."""
    ids = Counter()
    for split in SPLITS:
        data = DATASETS[name](written[name], split)
        ids.update({(str(record.before), str(record.after), record.id) for record in data.records})
        for sample in (data[index] for index in range(len(data))):
            brighter = sample.after.mean() - sample.before.mean()
            assert (brighter > 5) == sample.changed
    assert set(ids.values()) == {1}


@pytest.mark.parametrize("name", OTHERS)
def test_an_unknown_split_is_refused(written, name) -> None:
    with pytest.raises(DatasetLayoutInvalid, match="train, val, test"):
        DATASETS[name](written[name], "valid")


@each_file
def test_a_missing_annotation_file_is_named(own, name, file) -> None:
    root = own(name)
    (root / file).unlink()
    with pytest.raises(DatasetLayoutInvalid, match=f"no {Path(file).name} there; give the folder of"):
        DATASETS[name](root)


@each_file
@pytest.mark.parametrize("text", ["{", "3", "null", '{"images": 3}', '["a.png"]', '{"train": ["a"]}'])
def test_other_files_are_refused(own, name, file, text) -> None:
    root = own(name)
    (root / file).write_text(text)
    with pytest.raises(DatasetLayoutInvalid, match="captions file") as caught:
        DATASETS[name](root)
    assert Path(file).name in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("name", OTHERS)
def test_a_missing_image_is_found_out_on_access(own, name) -> None:
    root = own(name)
    missing = DATASETS[name](root).records[3].after
    missing.unlink()
    data = DATASETS[name](root)
    assert data[0].before.shape[0] == 3
    with pytest.raises(DatasetLayoutInvalid, match=missing.name):
        data[3]


@pytest.mark.parametrize(
    ("name", "file", "key"),
    [
        ("spot_the_diff", "train.json", "img_id"),
        ("image_editing_request", "train.json", "img0"),
        ("image_editing_request", "train.json", "img1"),
        ("dubai_cc", "description_jsontr_te_val/Train_Dubai_CC.json", "filename"),
    ],
)
@pytest.mark.parametrize("value", ["../a.png", "a/b.png", "..", "", "a\\b.png", 3])
def test_names_that_lead_out_of_the_folder_are_refused(own, name, file, key, value) -> None:
    root = own(name)
    edit(
        root / file,
        lambda content: (content if name != "dubai_cc" else content["images"])[0].update({key: value}),
    )
    with pytest.raises(DatasetLayoutInvalid, match="is no file name"):
        DATASETS[name](root)


@pytest.mark.parametrize("name", ["spot_the_diff", "image_editing_request"])
def test_an_empty_split_is_refused(own, name) -> None:
    root = own(name)
    (root / "test.json").write_text("[]")
    with pytest.raises(DatasetLayoutInvalid, match="'test'"):
        DATASETS[name](root, "test")


# What is particular


def test_clevr_change_gives_a_changed_and_an_unchanged_pair_of_each_image(written) -> None:
    root = written["clevr_change"]
    records = DATASETS["clevr_change"](root, "val").records
    for number, moved, still in zip(numbers()["val"], records[::2], records[1::2], strict=True):
        assert moved.before == still.before == root / "images" / f"CLEVR_default_{number:06d}.png"
        assert moved.after == root / "sc_images" / f"CLEVR_semantic_{number:06d}.png"
        assert still.after == root / "nsc_images" / f"CLEVR_nonsemantic_{number:06d}.png"
        assert (moved.id, still.id) == (moved.after.name, still.after.name)
        assert (moved.changed, moved.kind, moved.captions) == (True, KINDS[number % 5], CHANGED[number % 2])
        assert (still.changed, still.kind, still.captions) == (False, "", UNCHANGED)


def test_clevr_change_refuses_an_image_without_captions(own) -> None:
    root = own("clevr_change")
    edit(root / "no_change_captions.json", lambda content: content.pop("CLEVR_default_000005.png"))
    with pytest.raises(DatasetLayoutInvalid, match=r"no_change_captions\.json.*000005"):
        DATASETS["clevr_change"](root)


def test_clevr_dc_knows_unchanged_pairs_by_their_captions(own) -> None:
    root = own("clevr_dc")
    records = DATASETS["clevr_dc"](root).records
    assert [r.id for r in records] == [f"{n}.png" for n in numbers()["train"]]
    assert [r.changed for r in records] == [n % 3 > 0 for n in numbers()["train"]]
    edit(root / "captions.json", lambda c: [c.update({k.removesuffix(".png"): c.pop(k)}) for k in [*c]])
    assert DATASETS["clevr_dc"](root).records == records


def test_spot_the_diff_keeps_entries_of_one_image_apart(written) -> None:
    single, multi = (
        DATASETS[name](written["spot_the_diff"], "val").records
        for name in ("spot_the_diff", "spot_the_diff_multi")
    )
    assert [record.id for record in single] == ["101", "101 (2)", "102", "103"]
    assert single[0].before == single[1].before
    assert single[2].after.name == "102_2.png"
    assert {record.changed for record in single} == {True}
    assert single[1].captions == CHANGED[1], "the empty sentence is left out"
    assert [record.captions for record in multi] == [(" . ".join(one.captions),) for one in single]
    assert [record.id for record in multi] == [record.id for record in single]


def test_spot_the_diff_lies_in_either_folders(own) -> None:
    root = own("spot_the_diff")
    records = DATASETS["spot_the_diff"](root).records
    (root / "resized_images").rename(root / "images")
    (root / "annotations").mkdir()
    for split in SPLITS:
        (root / f"{split}.json").rename(root / "annotations" / f"{split}.json")
    moved = DATASETS["spot_the_diff"](root)
    assert [record.captions for record in moved.records] == [record.captions for record in records]
    assert moved[0].before.shape == (3, 48, 64)


def test_edited_images_are_resized_to_the_first(written) -> None:
    data = DATASETS["image_editing_request"](written["image_editing_request"])
    first, second = data[0], data[1]
    assert first.before.shape == first.after.shape == (3, 40, 64)
    assert second.before.shape == (3, 40, 80)
    np.testing.assert_array_equal(
        first.before, frames(0, changed=True, height=40, width=64)[0].transpose(2, 0, 1)
    )
    assert data.records[0].captions == ("add a bench",)
    assert len(DATASETS["image_editing_request"](data.root, "val").records[0].captions) == 3


def test_one_sentence_on_a_change_makes_a_tile_of_dubai_changed(written) -> None:
    data = DATASETS["dubai_cc"](written["dubai_cc"])
    assert [record.changed for record in data.records] == [False, True, True, False, True, True]
    assert data.records[1].captions == ("the bench is gone.", "nothing was modified")
    assert {record.gsd for record in data.records} == {30.0}
    assert data[0].before.shape == (3, 50, 50)
    assert data.records[0].before.parent.name == "500_2000"
    assert data.records[0].after.parent.name == "500_2010"


# The real annotation files


def counts(root: Path, name: str) -> dict[str, tuple[int, int]]:
    """Pairs and captions of each split."""
    records = {split: DATASETS[name](root, split).records for split in SPLITS}
    return {split: (len(r), sum(len(one.captions) for one in r)) for split, r in records.items()}


@pytest.mark.real
def test_levir_cc_has_the_published_counts(shared_data, tmp_path) -> None:
    """RDD+ACR, Datasets: 6,815, 1,333 and 1,929 pairs with 50,385 captions; the file lacks 118 test pairs."""
    packed = shared_data / "data" / "annotations" / "levir_cc_caption_corpus.json.gz"
    with gzip.open(packed, "rt", encoding="utf-8") as file:
        corpus = json.load(file)
    entries = [
        {"filename": pair["filename"], "split": split, "sentences": sentences(pair["sentences"])}
        for split, pairs in corpus.items()
        for pair in pairs
    ]
    (tmp_path / "LevirCCcaptions.json").write_text(json.dumps({"images": entries}))
    found = counts(tmp_path, "levir_cc")
    assert found == {"train": (6815, 5 * 6815), "val": (1333, 5 * 1333), "test": (1811, 5 * 1811)}
    assert 1811 + 118 == 1929
    assert sum(captions for _, captions in found.values()) + 5 * 118 == 50385


@pytest.mark.real
def test_clevr_change_has_the_published_counts_and_types(shared_data, tmp_path) -> None:
    """SCORER+CBR, Sec. 4.1: 67,660, 3,976 and 7,970 pairs. The captions are not at hand: ours stand in."""
    for name in ("splits.json", "type_mapping.json"):
        shutil.copy(shared_data / "data" / "annotations" / "clevr_change" / name, tmp_path)
    for name, said in (("change_captions.json", CHANGED[0]), ("no_change_captions.json", UNCHANGED)):
        content = {f"CLEVR_default_{number:06d}.png": said for number in range(40000)}
        (tmp_path / name).write_text(json.dumps(content))
    records = {split: DATASETS["clevr_change"](tmp_path, split).records for split in SPLITS}
    assert {split: len(r) for split, r in records.items()} == {"train": 67660, "val": 3976, "test": 7970}
    assert sum(map(len, records.values())) == 79606
    kinds = Counter(record.kind for r in records.values() for record in r if record.changed)
    assert kinds == {"color": 7958, "material": 7963, "add": 7966, "drop": 7961, "move": 7955}
    assert {record.kind for r in records.values() for record in r if not record.changed} == {""}


@pytest.mark.real
def test_spot_the_diff_has_the_counts_of_its_files(shared_data) -> None:
    """The papers say 13,192 pairs, 8:1:1; the released files hold 12,562, 76:13:11."""
    root = shared_data / "data" / "annotations" / "spot_the_diff"
    single, multi = counts(root, "spot_the_diff"), counts(root, "spot_the_diff_multi")
    assert single == {"train": (9524, 17623), "val": (1634, 3304), "test": (1404, 2100)}
    assert multi == {"train": (9524, 9477), "val": (1634, 1628), "test": (1404, 1397)}
    assert sum(pairs for pairs, _ in single.values()) == 12562
    mean = sum(captions for _, captions in single.values()) / sum(texts for _, texts in multi.values())
    assert mean == pytest.approx(1.86, abs=0.02), "RDD+ACR, Datasets: 1.86 captions per pair"


@pytest.mark.real
def test_image_editing_request_has_the_published_counts(shared_data) -> None:
    """SCORER+CBR, Sec. 4.1: 3,061, 383 and 495 pairs, 3,939 in all, with 5,695 requests."""
    found = counts(shared_data / "data" / "annotations" / "image_editing_request", "image_editing_request")
    assert found == {"train": (3061, 3061), "val": (383, 1149), "test": (495, 1485)}
    assert sum(captions for _, captions in found.values()) == 5695


@pytest.mark.real
def test_dubai_cc_has_the_published_counts(shared_data) -> None:
    """500 tiles, 300, 50 and 150, five captions each (Hoxha et al.); the flags are ours."""
    root = shared_data / "data" / "annotations" / "dubai_cc"
    assert counts(root, "dubai_cc") == {"train": (300, 1500), "val": (50, 250), "test": (150, 750)}
    flags = [Counter(r.changed for r in DATASETS["dubai_cc"](root, split).records) for split in SPLITS]
    assert [flag[False] for flag in flags] == [84, 17, 44]
    for split in SPLITS:
        listed = (root / f"{split}.txt").read_text().split()
        names = [record.id for record in DATASETS["dubai_cc"](root, split).records]
        assert list(dict.fromkeys(line.split("-")[0] for line in listed)) == names


# Training on them


def run_config(name: str, *, changed: float = 0.2, cache: bool = False, augment: bool = False) -> Config:
    return Config(
        model=tiny_config("scorer", max_words=12, options={"layers": 1, "matching_heads": 2}),
        data=DataConfig(name=name, size=64, min_count=1, augment=augment, gsd=2.0),
        train=TrainConfig(
            epochs=1,
            batch_size=3,
            warmup_steps=1,
            bf16=False,
            cache_features=cache,
            frozen=("backbone",) if cache else (),
        ),
        loss={"caption": 1.0, "view": 0.1, "backward": 0.1, "changed": changed, "change_mask": 0.0},
    )


def train_on(config: Config, root: Path, output: Path):
    paths = RunPaths(data=root, output=output)
    return train_model(config, paths, name="tiny", command="rscc train", report=lambda line: None)


@pytest.fixture
def tiny_registered(monkeypatch) -> None:
    monkeypatch.setitem(backbone.BACKBONES, "tiny", tiny_backbone)


@pytest.mark.slow
@pytest.mark.parametrize("name", DATASETS)
def test_a_model_trains_on_every_data_set(written, tmp_path, tiny_registered, name) -> None:
    """From the official layout to a model that speaks of test pairs; images are resized, square or not."""
    pytest.importorskip("pycocoevalcap")
    folder = train_on(run_config(name), written[name], tmp_path)
    assert {"cider", "cider_changed", "flag_accuracy"} <= set(folder.card.scores)
    assert folder.card.gsd == 2.0
    test = DATASETS[name](written[name], "test")
    captioner = Captioner.load(folder.path, device="cpu")
    samples = [resize_sample(test[index], captioner.card.tile_size) for index in range(len(test))]
    before, after = (np.stack([getattr(one, date) for one in samples]) for date in ("before", "after"))
    said = captioner.caption(before, after)
    train = DATASETS[name](written[name]).records
    if all(record.changed for record in train):
        assert folder.card.changed_threshold == 0, "a flag without unchanged pairs is not learnt"
        assert folder.no_change_prefixes == ()
        assert all(caption.changed and caption.text != NO_CHANGE_CAPTION for caption in said)
    else:
        assert folder.card.changed_threshold > 0
        assert folder.no_change_prefixes
    report = evaluate_records(captioner, test.records, train, run={}, dataset=name, java=False)
    whole = report.row("tiny", "all")
    assert whole.captions.count == len(test)
    assert whole.captions.bleu4 is not None
    assert {row.subset for row in report.rows} >= set(KINDS if name == "clevr_change" else ()) & {
        record.kind for record in test.records
    }


def test_an_unlearnt_flag_silences_nothing(written, tmp_path, tiny_registered) -> None:
    """Without the loss of the flag the threshold is 0, whatever the data hold."""
    pytest.importorskip("pycocoevalcap")
    folder = train_on(run_config("dubai_cc", changed=0), written["dubai_cc"], tmp_path)
    assert folder.card.changed_threshold == 0
    assert folder.no_change_prefixes, "kept for callers who know that something changed"


@pytest.mark.parametrize("augment", [False, True])
def test_without_augmentation_cached_pairs_are_not_flipped(
    written, tmp_path, tiny_registered, augment
) -> None:
    pytest.importorskip("pycocoevalcap")
    train_on(run_config("spot_the_diff", cache=True, augment=augment), written["spot_the_diff"], tmp_path)
    flips = {np.load(path, mmap_mode="r").shape[1] for path in (tmp_path / "features").glob("*.npy")}
    assert flips == ({1, 4} if augment else {1})


def test_entries_without_a_sentence_are_not_trained_on(own, tmp_path, tiny_registered) -> None:
    pytest.importorskip("pycocoevalcap")
    root = own("spot_the_diff")
    for split in ("train", "val"):
        edit(root / f"{split}.json", lambda content: content[0].update(sentences=["", " "]))
    assert DATASETS["spot_the_diff"](root).records[0].captions == ()
    folder = train_on(run_config("spot_the_diff", cache=True), root, tmp_path / "run")
    assert "5 training and 3 validation pairs" in folder.card.data


def test_validation_takes_the_flag_from_the_words_where_it_is_not_learnt(written) -> None:
    """Unknown flags are what the references say; a silent head does not silence the decoder."""
    pytest.importorskip("pycocoevalcap")
    records = [replace(r, changed=None) for r in DATASETS["dubai_cc"](written["dubai_cc"]).records]
    model = tiny_model()
    with torch.no_grad():
        model.changed_head.net[-1].bias.fill_(-100)
        model.decoder.logits.bias[model.vocabulary.encode("house", 3)[1]] = 100
    silenced = caption_validation(records, size=64, bf16=False)(model)
    speaking = caption_validation(records, size=64, bf16=False, flag_decides=False)(model)
    assert silenced["flag_accuracy"] == pytest.approx(2 / 6)
    assert speaking["flag_accuracy"] == pytest.approx(4 / 6)
    unchanged = [record for record in records if record.captions[-1] == "everything remains the same."]
    assert "cider_changed" not in caption_validation(unchanged, size=64, bf16=False)(model)


# The shipped configs

PUBLISHED = {
    # SCORER+CBR: layers (Sec. 4.5), view and backward (Sec. 6.2), batch size (Table 8).
    ("scorer", "clevr_change"): (2, 0.1, 0.001, 128),
    ("scorer", "clevr_dc"): (1, 0.01, 0.004, 128),
    ("scorer", "spot_the_diff"): (3, 0.3, 0.5, 32),
    ("scorer", "image_editing_request"): (2, 0.003, 0.06, 16),
    # DIRL+CCR: lambda_d and lambda_c (Sec. 4.6).
    ("dirl", "clevr_change"): (0.5, 0.3),
    ("dirl", "clevr_dc"): (0.03, 0.05),
    ("dirl", "spot_the_diff"): (0.5, 0.004),
    ("dirl", "image_editing_request"): (0.001, 0.05),
    # RDD+ACR: object and action vectors (Figure 4).
    ("rdd", "clevr_change"): (32, 5),
    ("rdd", "levir_cc"): (32, 10),
    ("rdd", "spot_the_diff"): (32, 10),
    # CHEERS: rates and batches of Sec. 4.3, entities of Figure 5, weights of Table 5.
    ("cheers", "clevr_change"): (1e-3, 128, 3, 0.75, 0.5),
    ("cheers", "clevr_dc"): (1e-3, 128, 3, 0.75, 0.5),
    ("cheers", "spot_the_diff"): (5e-4, 96, 3, 0.75, 0.5),
    # DAVIR: lambda and batch of Appendix B, entities of Table 5.
    ("davir", "levir_cc"): (0.1, 16, 1),
    ("davir", "spot_the_diff"): (0.1, 16, 1),
    ("davir", "image_editing_request"): (0.1, 16, 1),
}


@pytest.mark.parametrize("paper", MODELS)
@pytest.mark.parametrize("name", DATASETS)
def test_every_pair_of_model_and_data_set_has_a_config_with_published_values(paper, name) -> None:
    config = load_config(f"{paper}_{name}")
    assert (config.model.paper, config.data.name) == (paper, name)
    assert (config.model.width, config.model.word_width, config.data.size) == (512, 300, 224)
    assert config.train.frozen == ("backbone",)
    satellite = name in ("levir_cc", "dubai_cc")
    assert config.data.augment == satellite
    assert (config.loss["changed"] > 0) == satellite
    assert (config.loss["change_mask"] > 0) == (name == "levir_cc")
    options, loss, train = config.model.options, config.loss, config.train
    found = {
        "scorer": lambda: (options["layers"], loss["view"], loss["backward"], train.batch_size),
        "dirl": lambda: (loss["decorrelation"], loss["ccr"]),
        "rdd": lambda: (options["object_vectors"], options["action_vectors"]),
        "cheers": lambda: (
            *(train.learning_rate, train.batch_size, options["entities"]),
            *(loss["consistency"], loss["contrast"]),
        ),
        "davir": lambda: (loss["attention"], train.batch_size, options["entities"]),
    }[paper]()
    assert found == PUBLISHED.get((paper, name), found)
