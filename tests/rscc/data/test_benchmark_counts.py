"""The readers on the real annotation files, and the published values of the shipped configs."""

import gzip
import json
import shutil
from collections import Counter
from pathlib import Path

import pytest
from benchmark_fixtures import CHANGED, UNCHANGED
from levir_cc_fixture import sentences

from rscc.config import load_config
from rscc.data.benchmarks.annotations import SPLITS
from rscc.data.benchmarks.registry import DATASETS
from rscc.models import MODELS


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


PUBLISHED = {
    # SCORER+CBR: layers (Sec. 4.5), view and backward (Sec. 6.2), batch size (Table 8).
    ("scorer", "clevr_change"): (2, 0.1, 0.001, 2 * 128),  # two pairs of an image
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
