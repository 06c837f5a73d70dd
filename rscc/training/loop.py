"""The only training loop: every model, every data set, every stage.

A run folder holds ``log.jsonl`` (one line per epoch), ``config.json``, ``checkpoint.pt`` (to resume) and
``best.safetensors`` (the weights with the best validation score). Data order and augmentation depend on
(seed, epoch) alone and the random state is set anew at each epoch, so a resumed run repeats an
undisturbed one exactly.
"""

from __future__ import annotations

import json
import math
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import torch
from safetensors import safe_open
from safetensors.torch import load_file, save_file
from torch import Tensor, nn

from rscc.config import Config, TrainConfig, config_from_dict
from rscc.data.sources import BatchSource
from rscc.errors import ConfigInvalid, NonFiniteLoss
from rscc.files import atomic_write
from rscc.models.shared.captioner import ChangeCaptioner
from rscc.models.shared.losses import check_loss_weights
from rscc.structures import PairBatch
from rscc.training.objectives import Likelihood
from rscc.training.start import Report, clear_output

Validate = Callable[[ChangeCaptioner], dict[str, float]]

LOWER_IS_BETTER = frozenset({"perplexity"})


@dataclass(frozen=True)
class TrainResult:
    """What a run ended with: the best epoch (counted from 1), its scores, and where its weights lie."""

    best_epoch: int
    best_scores: dict[str, float]
    weights: Path
    seconds: float


class WeightAverage:
    """Exponential moving average of the trainable weights; steps early in the run count less history."""

    def __init__(self, model: nn.Module, decay: float):
        self.decay = decay
        self.steps = 0
        self.shadow = {n: p.detach().clone() for n, p in model.named_parameters() if p.requires_grad}

    @torch.no_grad()
    def update(self, model: nn.Module) -> None:
        """Take in the weights after one optimiser step."""
        self.steps += 1
        decay = min(self.decay, self.steps / (self.steps + 9))
        for name, parameter in model.named_parameters():
            if name in self.shadow:
                self.shadow[name].lerp_(parameter.detach(), 1 - decay)

    @torch.no_grad()
    def swap(self, model: nn.Module) -> None:
        """Exchange the model's weights and the average; a second call changes them back."""
        for name, parameter in model.named_parameters():
            if name in self.shadow:
                weights = parameter.detach().clone()
                parameter.copy_(self.shadow[name])
                self.shadow[name] = weights


def freeze(model: nn.Module, names: tuple[str, ...]) -> None:
    """Stop training the named submodules: no gradients, no dropout.

    Raises:
        ConfigInvalid: the model has no submodule of that name.
    """
    for name in names:
        try:
            module = model.get_submodule(name)
        except AttributeError as error:
            raise ConfigInvalid(f"train.frozen names {name!r}, which is no part of this model") from error
        module.requires_grad_(False)


def build_optimizer(model: nn.Module, config: TrainConfig) -> torch.optim.Optimizer:
    """Build Adam or AdamW over all trainable parameters, the trunk's with its own learning rate."""
    groups: dict[bool, list[nn.Parameter]] = {False: [], True: []}
    for name, parameter in model.named_parameters():
        if parameter.requires_grad:
            groups[name.startswith("backbone.")].append(parameter)
    parts = [
        {"params": parameters, "lr": config.learning_rate * (config.backbone_rate if trunk else 1.0)}
        for trunk, parameters in groups.items()
        if parameters
    ]
    if not parts:
        raise ConfigInvalid("train.frozen leaves nothing to train")
    kind = torch.optim.AdamW if config.optimizer == "adamw" else torch.optim.Adam
    return kind(parts, weight_decay=config.weight_decay)


def rate_factor(step: int, *, warmup: int, total: int, final: float) -> float:
    """Return the learning rate's factor: linear warm-up, then a cosine from 1 to ``final``."""
    if step < warmup:
        return (step + 1) / warmup
    done = min(1.0, (step - warmup) / max(1, total - warmup))
    return final + (1 - final) * (1 + math.cos(math.pi * done)) / 2


def step_factor(step: int, *, every: int) -> float:
    """Return the learning rate's factor: a tenth of what it was after every so many steps."""
    return 0.1 ** (step // every)


def to_device(batch: PairBatch, device: torch.device) -> PairBatch:
    """Return a batch whose tensors lie on a device."""
    moved: dict[str, Any] = {
        name: value.to(device) if isinstance(value, Tensor) else value for name, value in vars(batch).items()
    }
    return PairBatch(**moved)


class Trainer:
    """Trains one model from one source of batches.

    Attributes:
        score_name: the validation score that chooses the checkpoint: the higher the better, unless it is one
            of :data:`LOWER_IS_BETTER`.
    """

    def __init__(
        self,
        model: ChangeCaptioner,
        source: BatchSource,
        validate: Validate,
        *,
        config: Config,
        folder: Path,
        report: Report = print,
        objective: Likelihood | None = None,
    ):
        """Take what to train; without an ``objective``, the terms of the likelihood are learnt."""
        self.objective = objective or Likelihood(config.loss, label_smoothing=config.train.label_smoothing)
        check_loss_weights(self.objective.loss_terms(model), config.loss)
        self.model, self.source, self.validate = model, source, validate
        self.config, self.folder, self.report = config, folder, report
        self.score_name = config.train.select
        freeze(model, config.train.frozen)
        self.optimizer = build_optimizer(model, config.train)
        settings = config.train
        steps = source.steps()
        factor = partial(
            rate_factor,
            warmup=settings.warmup_steps,
            total=steps * settings.epochs,
            final=settings.final_rate,
        )
        if settings.schedule == "paper":
            factor = partial(step_factor, every=steps * settings.decay_epochs)
        self.schedule = torch.optim.lr_scheduler.LambdaLR(self.optimizer, factor)
        self.average = WeightAverage(model, settings.ema) if settings.ema else None
        self.epoch, self.best_epoch, self.best_scores = 0, 0, dict[str, float]()
        self.seconds = 0.0

    def run(self, *, resume: bool = False) -> TrainResult:
        """Train until the last epoch or until the validation score has stopped rising.

        Raises:
            NonFiniteLoss: a loss term became NaN or infinite; nothing of that step is applied.
            ConfigInvalid: resuming with another config or vocabulary, or from a damaged file; or a term the
                data cannot give.
        """
        self.folder.mkdir(parents=True, exist_ok=True)
        config_file = self.folder / "config.json"
        if resume and (self.folder / "checkpoint.pt").is_file():
            if replace(_config_of(config_file), card=self.config.card) != self.config:
                raise ConfigInvalid(
                    f"{config_file} differs from the config of this run; start in a new folder"
                )
            self._load()
        else:
            if resume:
                self.report(f"no checkpoint.pt in {self.folder} to go on from: the run begins anew")
            clear_output(self.folder)
        with atomic_write(config_file, alone=True) as (draft,):
            draft.write_text(json.dumps(self.config.to_dict(), indent=1), encoding="utf-8")
        settings = self.config.train
        while self.epoch < settings.epochs and self.epoch - self.best_epoch < settings.patience:
            began = time.monotonic()
            terms = self._train_epoch()
            scores = self._validate_epoch()
            self.epoch += 1
            better = not self.best_scores or self._beats(scores, self.best_scores)
            if better:
                self.best_epoch, self.best_scores = self.epoch, scores
                self._save_best()
            self.seconds += time.monotonic() - began
            self._log(terms, scores, better)
            self._save()
        return TrainResult(self.best_epoch, self.best_scores, self.folder / "best.safetensors", self.seconds)

    def _beats(self, scores: dict[str, float], others: dict[str, float]) -> bool:
        one, other = scores[self.score_name], others[self.score_name]
        return one < other if self.score_name in LOWER_IS_BETTER else one > other

    def _train_epoch(self) -> dict[str, float]:
        config, model = self.config.train, self.model
        torch.manual_seed(config.seed * 100_003 + self.epoch)
        model.train()
        for name in config.frozen:
            model.get_submodule(name).eval()
        device = next(model.parameters()).device
        sums: dict[str, float] = defaultdict(float)
        count, counts = 0, Counter[str]()
        for index, batch in enumerate(self.source.epoch(self.epoch)):
            with torch.autocast(device.type, torch.bfloat16, enabled=config.bf16):
                terms, measured = self.objective.losses(
                    model, to_device(batch, device), place=(self.epoch, index)
                )
            total = torch.stack(
                [self.config.loss[name] * value.float() for name, value in terms.items()]
            ).sum()
            if not torch.isfinite(total):
                listed = ", ".join(f"{name} {value.item():.4g}" for name, value in terms.items())
                raise NonFiniteLoss(
                    f"the loss is not finite in epoch {self.epoch + 1} ({listed}); lower the rate"
                )
            self.optimizer.zero_grad(set_to_none=True)
            total.backward()
            if config.clip:
                nn.utils.clip_grad_norm_((p for p in model.parameters() if p.grad is not None), config.clip)
            self.optimizer.step()
            self.schedule.step()
            if self.average is not None:
                self.average.update(model)
            count += 1
            for name, value in (*terms.items(), ("total", total)):
                sums[name] += value.item()
            for name, number in measured.items():  # not every batch gives each of them
                sums[name] += number
                counts[name] += 1
        return {name: value / counts.get(name, count) for name, value in sums.items()}

    def _validate_epoch(self) -> dict[str, float]:
        self.model.eval()
        if self.average is not None:
            self.average.swap(self.model)
        with torch.no_grad():
            scores = self.validate(self.model)
        if self.average is not None:
            self.average.swap(self.model)
        return scores

    def _log(self, terms: dict[str, float], scores: dict[str, float], better: bool) -> None:
        line = {
            "epoch": self.epoch,
            "rate": self.schedule.get_last_lr()[0],
            "loss": {name: round(value, 5) for name, value in terms.items()},
            "validation": {name: round(value, 5) for name, value in scores.items()},
            "best": better,
            "seconds": round(self.seconds, 1),
        }
        with (self.folder / "log.jsonl").open("a", encoding="utf-8") as file:
            file.write(json.dumps(line) + "\n")
        losses = " ".join(f"{name} {value:.3f}" for name, value in terms.items())
        shown = " ".join(f"{name} {value:.3f}" for name, value in scores.items())
        self.report(f"epoch {self.epoch}: {losses} | {shown}{' *' if better else ''} ({self.seconds:.0f} s)")

    def _save_best(self) -> None:
        state = {name: value.contiguous() for name, value in self.model.state_dict().items()}
        if self.average is not None:
            state.update(self.average.shadow)
        with atomic_write(self.folder / "best.safetensors", alone=True) as (draft,):
            save_file(state, draft)

    def _save(self) -> None:
        state: dict[str, Any] = {
            "model": self.model.state_dict(),
            "optimizer": self.optimizer.state_dict(),
            "schedule": self.schedule.state_dict(),
            "epoch": self.epoch,
            "best_epoch": self.best_epoch,
            "best_scores": self.best_scores,
            "seconds": self.seconds,
            "vocabulary": list(self.model.vocabulary.words),
        }
        if self.average is not None:
            state["average"] = {"steps": self.average.steps, "shadow": self.average.shadow}
        with atomic_write(self.folder / "checkpoint.pt", alone=True) as (draft,), draft.open("wb") as file:
            torch.save(state, file)  # of a path it would not say why it cannot be written

    def _load(self) -> None:
        file = self.folder / "checkpoint.pt"
        with _sound(file):
            state = torch.load(file, map_location="cpu", weights_only=True)
            words = state.get("vocabulary")  # checkpoints of earlier versions have none
        if words is not None and words != list(self.model.vocabulary.words):
            raise ConfigInvalid(f"{file}: of captions with other words; start in a new folder")
        best = self.folder / "best.safetensors"
        with _sound(best), safe_open(best, "pt"):  # not read yet, but it is whole
            pass
        with _sound(file):
            self._restore(state)
        log = self.folder / "log.jsonl"
        if log.is_file():  # a run killed between log and checkpoint has logged an epoch that comes again
            lines = log.read_text(encoding="utf-8").splitlines(keepends=True)[: self.epoch]
            with atomic_write(log, alone=True) as (draft,):
                draft.write_text("".join(lines), encoding="utf-8")

    def _restore(self, state: dict[str, Any]) -> None:
        self.model.load_state_dict(state["model"])
        self.optimizer.load_state_dict(state["optimizer"])
        self.schedule.load_state_dict(state["schedule"])
        self.epoch, self.best_epoch = state["epoch"], state["best_epoch"]
        self.best_scores, self.seconds = state["best_scores"], state["seconds"]
        if self.average is not None:
            self.average.steps = state["average"]["steps"]
            for name, value in state["average"]["shadow"].items():
                self.average.shadow[name].copy_(value)  # stays on the model's device


@contextmanager
def _sound(file: Path) -> Iterator[None]:
    """Report whatever fails as a fault of a run's file that is taken in: torch has errors of many kinds."""
    try:
        yield
    except Exception as error:
        raise ConfigInvalid(
            f"{file}: missing, damaged or of another model ({type(error).__name__}); start in a new folder"
        ) from error


def _config_of(file: Path) -> Config:
    """Read what an earlier run wrote but for its card; what a newer version of rscc added has its default."""
    try:
        # What the card will say may change on the way, and between versions what it can say.
        return config_from_dict({**json.loads(file.read_text(encoding="utf-8")), "card": {}}, str(file))
    except (OSError, ValueError, TypeError, AttributeError) as error:
        raise ConfigInvalid(f"{file}: not the config of a run ({error}); start in a new folder") from error


def load_best(model: ChangeCaptioner, result: TrainResult) -> ChangeCaptioner:
    """Load the best weights of a run into its model.

    Raises:
        ConfigInvalid: their file is missing, damaged or of another model.
    """
    with _sound(result.weights):
        model.load_state_dict(load_file(result.weights))
    return model.eval()
