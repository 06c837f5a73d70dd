"""Small trainings: configs, sources that stop, trainers, whole runs, and what a run left behind."""

import json
from pathlib import Path

import torch
from tiny_models import TinyTextEncoder, tiny_backbone, tiny_config, tiny_vocabulary

from rscc.config import Config, DataConfig, TrainConfig, config_from_dict
from rscc.data.benchmarks.levir_cc import LevirCC
from rscc.data.sources import CaptionText, ImageCaptionSource, all_forms
from rscc.model_folder import ModelFolder
from rscc.models import MODELS
from rscc.text.vocabulary import Vocabulary
from rscc.training.loop import Trainer
from rscc.training.objectives import self_critical
from rscc.training.run import train_model
from rscc.training.start import RunPaths

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


def small_config(train: dict, loss: dict, **sections) -> Config:
    """A config of a file, of a small model that is fed whole images."""
    model = {"backbone": "tiny", "width": 16, "heads": 2, "head_width": 8, "max_words": 12}
    data = {"size": 64, "min_count": 1}
    return config_from_dict({"model": model, "data": data, "train": train, "loss": loss, **sections})


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
    records = LevirCC(data, "train").records
    if source is None:
        vocabulary = Vocabulary.build(all_forms(records), min_count=1)
        segments = {caption: (caption[:12], caption[-12:]) for caption in all_forms(records)}
        text = CaptionText(vocabulary, max_words=12, segments=segments)
        source = ImageCaptionSource(
            records, text, batch_size=3, size=32, augment=True, seed=config.train.seed
        )
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
    critical = config.train.objective == "self_critical"
    return Trainer(
        model,
        source,
        validate,
        config=config,
        folder=folder,
        report=lambda line: None,
        objective=self_critical(config, model, records) if critical else None,
    )


def log_of(folder: Path) -> list[dict]:
    lines = [json.loads(line) for line in (folder / "log.jsonl").read_text().splitlines()]
    return [{key: value for key, value in line.items() if key != "seconds"} for line in lines]


def assert_same_tensors(one: dict, two: dict) -> None:
    assert set(one) == set(two)
    assert [name for name in one if not torch.equal(one[name], two[name])] == []
