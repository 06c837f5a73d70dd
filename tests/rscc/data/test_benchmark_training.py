"""Trainings on every benchmark."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from datasets import CLEVR_KINDS
from tiny_models import tiny_config, tiny_model
from training_runs import quick_config, row_of, trained

from rscc.captioner import Captioner
from rscc.config import Config, DataConfig, TrainConfig
from rscc.data.benchmarks.registry import DATASETS
from rscc.data.pairs import read_pair, resize_sample
from rscc.evaluation.evaluate import EvaluationOptions, evaluate_records
from rscc.structures import NO_CHANGE_CAPTION
from rscc.training.training_run import RunPaths
from rscc.training.validation import caption_validation

pytestmark = pytest.mark.usefixtures("tiny_registered")


def run_config(name: str, *, cache: bool = False, augment: bool = False) -> Config:
    return Config(
        model=tiny_config("scorer", max_words=12, options={"layers": 1, "matching_heads": 2}),
        data=DataConfig(name=name, size=64, min_count=1, augment=augment, gsd=2.0),
        train=TrainConfig(
            **{"epochs": 1, "batch_size": 3, "warmup_steps": 1, "bf16": False, "cache_features": cache},
            frozen=("backbone",) if cache else (),
        ),
        loss={"caption": 1.0, "view": 0.1, "backward": 0.1, "changed": 0.2, "change_mask": 0.0},
    )


def train_on(config: Config, root: Path, output: Path):
    return trained(config, RunPaths(data=root, output=output), name="tiny")


@pytest.mark.slow
@pytest.mark.parametrize("name", ["clevr_change", "dubai_cc", "spot_the_diff_multi"])
def test_a_model_trains_on_data_sets_of_each_sort(written, tmp_path, name) -> None:
    """From the official layout to a model that speaks of test pairs; images are resized, square or not."""
    folder = train_on(run_config(name), written[name], tmp_path)
    assert {"cider", "cider_changed", "flag_accuracy"} <= set(folder.card.scores)
    assert folder.card.gsd == 2.0
    test = DATASETS[name](written[name], "test")
    captioner = Captioner.load(folder.path, device="cpu")
    samples = [resize_sample(read_pair(record), captioner.card.tile_size) for record in test]
    before, after = (np.stack([getattr(one, date) for one in samples]) for date in ("before", "after"))
    said = captioner.caption(before, after)
    train = DATASETS[name](written[name])
    if all(record.changed for record in train):
        assert folder.card.changed_threshold == 0, "a flag without unchanged pairs is not learnt"
        assert folder.no_change_prefixes == ()
        assert all(caption.changed and caption.text != NO_CHANGE_CAPTION for caption in said)
    else:
        assert folder.card.changed_threshold > 0
        assert folder.no_change_prefixes
    report = evaluate_records(captioner, test, train, EvaluationOptions(dataset=name, java=False), run={})
    whole = row_of(report, "tiny", "all")
    assert whole.captions.count == len(test)
    assert whole.captions.bleu4 is not None
    kinds = set(CLEVR_KINDS) & {record.kind for record in test}
    assert {row.subset for row in report.rows} >= kinds


@pytest.mark.slow
@pytest.mark.parametrize("augment", [False, True])
def test_without_augmentation_cached_pairs_are_not_flipped(written, tmp_path, augment) -> None:
    train_on(run_config("spot_the_diff", cache=True, augment=augment), written["spot_the_diff"], tmp_path)
    flips = {np.load(path, mmap_mode="r").shape[1] for path in (tmp_path / "features").glob("*.npy")}
    assert flips == ({1, 4} if augment else {1})


def test_validation_takes_the_flag_from_the_words_where_it_is_not_learnt(written) -> None:
    """Unknown flags are what the references say; a silent head does not silence the decoder."""
    records = [replace(r, changed=None) for r in DATASETS["dubai_cc"](written["dubai_cc"])]
    model = tiny_model()
    with torch.no_grad():
        model.changed_head.net[-1].bias.fill_(-100)
        model.decoder.logits.bias[model.vocabulary.encode("house", 3)[1]] = 100
    silenced = caption_validation(records, quick_config())(model)
    speaking = caption_validation(records, quick_config(), flag_decides=False)(model)
    assert silenced["flag_accuracy"] == pytest.approx(2 / 6)
    assert speaking["flag_accuracy"] == pytest.approx(4 / 6)
    unchanged = [record for record in records if record.captions[-1] == "everything remains the same."]
    assert "cider_changed" not in caption_validation(unchanged, quick_config())(model)
