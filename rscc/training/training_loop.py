"""The training loop that all models, data sets and stages share.

A run folder holds ``log.jsonl`` (one line per epoch), ``config.json``, ``checkpoint.pt`` (to resume) and
``best.safetensors`` (the weights with the best validation score). Batches depend on (seed, epoch) alone and
the random state is set at the start of each epoch, so a resumed run equals an uninterrupted one.
"""

import json
import math
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import torch
from safetensors import safe_open
from safetensors.torch import load_file, save_file
from torch import Tensor, nn

from rscc.config import Config, TrainConfig
from rscc.data.pairs import to_device
from rscc.data.sources import BatchSource
from rscc.errors import ConfigInvalid, NonFiniteLoss
from rscc.files import atomic_write, read_file
from rscc.models.shared.captioner import ChangeCaptioner
from rscc.settings import build
from rscc.structures import PairBatch
from rscc.training.training_run import Report, clear_output

Validate = Callable[[ChangeCaptioner], dict[str, float]]
Losses = Callable[[ChangeCaptioner, PairBatch], dict[str, Tensor]]
"""Returns the unweighted loss terms of a model in training mode, for a batch on its device."""

LOWER_IS_BETTER = frozenset({"perplexity"})


@dataclass(frozen=True)
class TrainResult:
    """Result of a run: the best epoch (counted from 1), its scores, its weights, and the training time."""

    best_epoch: int
    best_scores: dict[str, float]
    weights: Path
    seconds: float


class WeightAverage:
    """Exponential moving average of the trainable weights; the decay is smaller in the first steps."""

    def __init__(self, model: nn.Module, decay: float):
        self.decay = decay
        self.steps = 0
        self.shadow = {n: p.detach().clone() for n, p in model.named_parameters() if p.requires_grad}

    @torch.no_grad()
    def update(self, model: nn.Module) -> None:
        """Add the weights after one optimiser step."""
        self.steps += 1
        decay = min(self.decay, self.steps / (self.steps + 9))
        for name, parameter in model.named_parameters():
            if name in self.shadow:
                self.shadow[name].lerp_(parameter.detach(), 1 - decay)

    @torch.no_grad()
    def swap(self, model: nn.Module) -> None:
        """Exchange the weights of the model and the average; a second call exchanges them back."""
        for name, parameter in model.named_parameters():
            if name in self.shadow:
                weights = parameter.detach().clone()
                parameter.copy_(self.shadow[name])
                self.shadow[name] = weights


def freeze(model: nn.Module, names: tuple[str, ...]) -> None:
    """Stop training the named submodules."""
    for name in names:
        try:
            module = model.get_submodule(name)
        except AttributeError as error:
            raise ConfigInvalid(f"train.frozen: this model has no part {name!r}") from error
        module.requires_grad_(False)


def build_optimizer(model: nn.Module, config: TrainConfig) -> torch.optim.Optimizer:
    """Build Adam or AdamW over all trainable parameters; the trunk has its own learning rate."""
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


def build_schedule(
    optimizer: torch.optim.Optimizer, config: TrainConfig, steps: int
) -> torch.optim.lr_scheduler.LambdaLR:
    """Build the schedule of a config; an epoch has ``steps`` steps."""

    def factor(step: int) -> float:
        if config.schedule == "paper":  # a tenth of the rate after every few epochs
            return float(0.1 ** (step // (steps * config.decay_epochs)))
        total = steps * config.epochs
        return rate_factor(step, warmup=config.warmup_steps, total=total, final=config.final_rate)

    return torch.optim.lr_scheduler.LambdaLR(optimizer, factor)


class Trainer:
    """Trains one model from one source of batches."""

    def __init__(
        self,
        model: ChangeCaptioner,
        source: BatchSource,
        validate: Validate,
        *,
        config: Config,
        folder: Path,
        report: Report = print,
        losses: Losses | None = None,
    ):
        """Prepare a run; without ``losses`` the model's own loss terms are used."""
        self.model, self.source, self.validate = model, source, validate
        self.config, self.folder, self.report = config, folder, report
        self.losses = losses or self._model_losses
        freeze(model, config.train.frozen)
        self.optimizer = build_optimizer(model, config.train)
        self.schedule = build_schedule(self.optimizer, config.train, source.steps())
        self.average = WeightAverage(model, config.train.ema) if config.train.ema else None
        self.epoch, self.best_epoch, self.best_scores = 0, 0, dict[str, float]()
        self.seconds = 0.0

    def run(self, *, resume: bool = False) -> TrainResult:
        """Train until the last epoch or until the validation score has stopped improving.

        Raises:
            NonFiniteLoss: a loss term became NaN or infinite; nothing of that step is applied.
            ConfigInvalid: resuming with another config or vocabulary, or from a damaged file; or the data
                lacks what a loss term needs.
        """
        self.folder.mkdir(parents=True, exist_ok=True)
        if resume and (self.folder / "checkpoint.pt").is_file():
            self._load()
        else:
            if resume:
                self.report(f"no checkpoint.pt in {self.folder}: the run starts from the beginning")
            clear_output(self.folder)
        with atomic_write(self.folder / "config.json") as (draft,):
            draft.write_text(json.dumps(asdict(self.config), indent=1), encoding="utf-8")
        settings = self.config.train
        while self.epoch < settings.epochs and self.epoch - self.best_epoch < settings.patience:
            began = time.monotonic()
            terms = self._train_epoch()
            scores = self._validate_epoch()
            self.epoch += 1
            better = not self.best_scores or self._is_better(scores)
            if better:
                self.best_epoch, self.best_scores = self.epoch, scores
                self._save_best()
            self.seconds += time.monotonic() - began
            self._log(terms, scores, better)
            self._save()
        return TrainResult(self.best_epoch, self.best_scores, self.folder / "best.safetensors", self.seconds)

    def _is_better(self, scores: dict[str, float]) -> bool:
        name = self.config.train.select
        new, best = scores[name], self.best_scores[name]
        return new < best if name in LOWER_IS_BETTER else new > best

    def _train_epoch(self) -> dict[str, float]:
        settings, model = self.config.train, self.model
        torch.manual_seed(settings.seed * 100_003 + self.epoch)
        model.train()
        for name in settings.frozen:
            model.get_submodule(name).eval()
        device = next(model.parameters()).device
        sums: dict[str, float] = defaultdict(float)
        count = 0
        for batch in self.source.epoch(self.epoch):
            with torch.autocast(device.type, torch.bfloat16, enabled=settings.bf16):
                terms = self.losses(model, to_device(batch, device))
            weighted = [self.config.loss[name] * value.float() for name, value in terms.items()]
            total = torch.stack(weighted).sum()
            if not torch.isfinite(total):
                listed = ", ".join(f"{name} {value.item():.4g}" for name, value in terms.items())
                raise NonFiniteLoss(
                    f"the loss is not finite in epoch {self.epoch + 1} ({listed}); lower the learning rate"
                )
            self.optimizer.zero_grad(set_to_none=True)
            total.backward()
            if settings.clip:
                trained = [p for p in model.parameters() if p.grad is not None]
                nn.utils.clip_grad_norm_(trained, settings.clip)
            self.optimizer.step()
            self.schedule.step()
            if self.average is not None:
                self.average.update(model)
            count += 1
            for name, value in (*terms.items(), ("total", total)):
                sums[name] += value.item()
        return {name: value / count for name, value in sums.items()}

    def _model_losses(self, model: ChangeCaptioner, batch: PairBatch) -> dict[str, Tensor]:
        smoothing = self.config.train.label_smoothing
        return model.losses(batch, self.config.loss, label_smoothing=smoothing)

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
        with atomic_write(self.folder / "best.safetensors") as (draft,):
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
        # Given a path instead of a file, torch.save does not say why it could not write.
        with atomic_write(self.folder / "checkpoint.pt") as (draft,), draft.open("wb") as file:
            torch.save(state, file)

    def _load(self) -> None:
        """Continue the run of the folder; see :meth:`run` for what is refused."""
        config_file = self.folder / "config.json"
        with _readable(config_file):
            # Without the card, whose fields may change between versions.
            stored = build(Config, {**json.loads(read_file(config_file)), "card": {}}, "config")
        if replace(stored, card=self.config.card) != self.config:
            raise ConfigInvalid(f"{config_file} differs from the config of this run; start in a new folder")
        file, best = self.folder / "checkpoint.pt", self.folder / "best.safetensors"
        with _readable(file):
            state = torch.load(file, map_location="cpu", weights_only=True)
            words = state["vocabulary"]
        if words != list(self.model.vocabulary.words):
            raise ConfigInvalid(f"{file}: of captions with other words; start in a new folder")
        with _readable(best), safe_open(best, "pt"):  # it is read at the end: find damage now
            pass
        with _readable(file):
            self._restore(state)
        log = self.folder / "log.jsonl"
        if log.is_file():  # a run killed between log and checkpoint has logged an epoch that is repeated
            lines = log.read_text(encoding="utf-8").splitlines(keepends=True)[: self.epoch]
            with atomic_write(log) as (draft,):
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
def _readable(file: Path) -> Iterator[None]:
    """Raise ConfigInvalid for any failure: torch raises errors of many kinds for damaged files."""
    try:
        yield
    except Exception as error:
        raise ConfigInvalid(
            f"{file}: missing, damaged or of another model ({type(error).__name__}); start in a new folder"
        ) from error


def load_best(model: ChangeCaptioner, result: TrainResult) -> ChangeCaptioner:
    """Load the best weights of a run into its model; return it in evaluation mode."""
    with _readable(result.weights):
        model.load_state_dict(load_file(result.weights))
    return model.eval()
