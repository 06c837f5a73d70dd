"""Small trainings and evaluations: configs, sources, trainers, whole runs, pairs of known brightness."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import torch
from captioners import card
from PIL import Image
from tiny_models import TinyTextEncoder, tiny_backbone, tiny_config, tiny_vocabulary

from rscc.config import Config, DataConfig, TrainConfig
from rscc.data.benchmarks.levir_cc import LevirCC
from rscc.data.pairs import PairRecord, PairSample
from rscc.data.sources import CaptionText, ImageCaptionSource, all_forms
from rscc.evaluation.evaluate import EvaluationOptions, evaluate_records
from rscc.evaluation.evaluation_report import EvaluationReport
from rscc.evaluation.score_rows import EvaluationRow
from rscc.model_folder import ModelFolder
from rscc.models.papers import MODELS
from rscc.settings import build
from rscc.structures import Caption, ChangePrediction
from rscc.text.vocabulary import Vocabulary
from rscc.training.train_model import train_model
from rscc.training.training_loop import Trainer
from rscc.training.training_run import RunPaths

LOSS = {"caption": 1.0, "n2o": 0.3, "v2a": 0.2, "changed": 0.5, "change_mask": 0.7}


def settings(**values) -> TrainConfig:
    fields = {"batch_size": 3, "epochs": 3, "warmup_steps": 2, "learning_rate": 3e-3, "ema": 0.9}
    return TrainConfig(**{**fields, **values})


def whole_config(train: TrainConfig, **loss) -> Config:
    return Config(
        model=tiny_config(max_words=12, dropout=0.2),
        data=DataConfig(size=32, min_count=1),
        train=train,
        loss=LOSS | loss,
    )


def quick_config(**values) -> Config:
    """A config of default settings, in float32, but for some fields of its data and training."""
    train = {name: values.pop(name) for name in list(values) if hasattr(TrainConfig, name)}
    return Config(data=DataConfig(**{"size": 64, **values}), train=TrainConfig(**{"bf16": False, **train}))


def small_config(train: dict, loss: dict, **sections) -> Config:
    """A config of a file, of a small model that is fed whole images."""
    model = {"backbone": "tiny", "width": 16, "heads": 2, "head_width": 8, "max_words": 12}
    data = {"size": 64, "min_count": 1}
    return build(Config, {"model": model, "data": data, "train": train, "loss": loss, **sections}, "config")


def trained(config: Config, paths: RunPaths, *, name="x", report=lambda line: None, **how) -> ModelFolder:
    return train_model(config, paths, name=name, command="rscc train", report=report, **how)


def sum_of_weights(model) -> dict[str, float]:
    """A validation without data: depends on the weights, falls and rises."""
    return {"cider": float(sum(p.detach().double().sum() for p in model.parameters()).sin())}


class Stopped(Exception):
    """What stops a run in these tests."""


class StoppingSource:
    """A source that fails before batch ``batch`` of epoch ``epoch``."""

    def __init__(self, source, epoch: int, batch: int):
        self.source, self.at = source, (epoch, batch)

    def steps(self) -> int:
        return self.source.steps()

    def epoch(self, number):
        for index, batch in enumerate(self.source.epoch(number)):
            if (number, index) == self.at:
                raise Stopped
            yield batch


class FixedSource:
    """The same batches in every epoch; what watches is called with its number."""

    def __init__(self, *batches, watch=lambda number: None):
        self.batches, self.watch = batches, watch

    def steps(self) -> int:
        return len(self.batches)

    def epoch(self, number):
        self.watch(number)
        yield from self.batches


def make_trainer(data, folder, config, *, seed=1, stop=None, validate=sum_of_weights, source=None) -> Trainer:
    """A trainer with everything random in it: augmentation, dropout, order, average of weights."""
    records = LevirCC(data, "train")
    if source is None:
        vocabulary = Vocabulary.build(all_forms(records), min_count=1)
        segments = {caption: (caption[:12], caption[-12:]) for caption in all_forms(records)}
        text = CaptionText(vocabulary, max_words=12, segments=segments)
        source = ImageCaptionSource(records, text, config)
        if stop is not None:
            source = StoppingSource(source, *stop)
    else:
        vocabulary = tiny_vocabulary()
    torch.manual_seed(seed)
    encoder = TinyTextEncoder()
    for parameter in encoder.parameters():
        torch.nn.init.normal_(parameter, generator=torch.Generator().manual_seed(7))
    model = MODELS["rdd"](
        config=config.model, backbone=tiny_backbone(), vocabulary=vocabulary, text_encoder=encoder
    )
    return Trainer(model, source, validate, config=config, folder=folder, report=lambda line: None)


def log_of(folder: Path) -> list[dict]:
    lines = [json.loads(line) for line in (folder / "log.jsonl").read_text().splitlines()]
    return [{key: value for key, value in line.items() if key != "seconds"} for line in lines]


def assert_same_tensors(one: dict, two: dict) -> None:
    assert set(one) == set(two)
    assert [name for name in one if not torch.equal(one[name], two[name])] == []


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


def row_of(report: EvaluationReport, name: str, subset: str) -> EvaluationRow:
    """The one row of a report of this name and subset."""
    (row,) = (row for row in report.rows if (row.name, row.subset) == (name, subset))
    return row


class BrightnessCaptioner:
    """Sees a change where the brightness differs, with ``surest`` at most.

    What is brighter are new villas, what is darker villas that are gone; ``shapes`` keeps what it looked at.
    """

    def __init__(self, *, surest=1.0, **values):
        self.surest = surest
        self.card = replace(card(name="brightness", tile_size=SIDE), **values)
        self.shapes: list[tuple[int, ...]] = []

    def predict_change(self, before, after):
        self.shapes.append(before.shape)
        probability = np.minimum(np.abs(after.astype(np.float32) - before).mean(1) / 100, self.surest)
        return ChangePrediction(probability, probability.max((1, 2)))

    def describe(self, before, after, *, beams):
        return self.predict_change(before, after), self.caption(before, after, beams=beams)

    def caption(self, before, after, *, beams, gated=True):
        darkest = np.abs(after.astype(np.float32) - before).mean(1).max((1, 2)) / 100
        differs = np.minimum(darkest, 1) >= self.card.changed_threshold * gated
        words = np.where(after.mean((1, 2, 3)) > before.mean((1, 2, 3)), "are built", "are removed")
        return [
            Caption(f"two villas {what}" if one else "there is no difference", score=0.5, changed=one)
            for one, what in zip(differs.tolist(), words, strict=True)
        ]


def report_of(records, train, *, captioner=None, features=None, observe=None, **options):
    run = {"data": "made up", "split": "test"}
    chosen = EvaluationOptions(java=False, **options)
    captioner = captioner or BrightnessCaptioner()
    return evaluate_records(captioner, records, train, chosen, run=run, features=features, observe=observe)


def features_of(records):
    """Features that bring each asked pair next to one training pair."""
    values = {"a": 0, "b": 10, "c": 20, "d": 30, "one": 19, "two": 11, "three": 1, "four": 29}
    return np.array(
        [[[values[record.id]] * 3, [2 * values[record.id]] * 3] for record in records], np.float32
    )


def kinds_of(records) -> list[PairRecord]:
    """Two kinds of change; an unchanged pair has one as well, which does not count."""
    kinds = ("add", "drop", "drop", "")
    return [replace(record, kind=kind) for record, kind in zip(records, kinds, strict=True)]


def sample(captions=("a house on the left",), *, height=24, width=40, seed=0) -> PairSample:
    rng = np.random.default_rng(seed)
    before, after = (rng.integers(0, 256, (3, height, width), dtype=np.uint8) for _ in range(2))
    return PairSample("one", before, after, rng.random((height, width)) > 0.5, tuple(captions), True)
