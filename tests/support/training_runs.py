"""Small trainings: configs, sources that stop, and what a run left behind."""

import json
from pathlib import Path

import torch
from tiny_models import tiny_config

from rscc.config import Config, DataConfig, TrainConfig

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
    """The same batches in every epoch."""

    def __init__(self, *batches):
        self.batches = batches

    def steps(self) -> int:
        return len(self.batches)

    def epoch(self, number):
        yield from self.batches


def log_of(folder: Path) -> list[dict]:
    lines = [json.loads(line) for line in (folder / "log.jsonl").read_text().splitlines()]
    return [{key: value for key, value in line.items() if key != "seconds"} for line in lines]


def assert_same_tensors(one: dict, two: dict) -> None:
    assert set(one) == set(two)
    assert [name for name in one if not torch.equal(one[name], two[name])] == []
