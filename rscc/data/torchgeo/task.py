"""The five papers' captioners as a LightningModule: their own losses, optimiser and schedule."""

from collections.abc import Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import torch
from lightning.pytorch import LightningModule
from torch import Tensor

from rscc.config import ModelConfig
from rscc.configs import load_config
from rscc.data.caches import EMPTY
from rscc.data.pairs import PairRecord
from rscc.data.torchgeo.datasets import UNKNOWN
from rscc.errors import ConfigInvalid
from rscc.models.backbones import build_backbone
from rscc.models.papers import model_class
from rscc.models.shared.captioner import ChangeCaptioner
from rscc.models.shared.losses import check_loss_weights
from rscc.settings import build
from rscc.structures import PairBatch
from rscc.text.vocabulary import Vocabulary
from rscc.training.train_model import build_model, training_material
from rscc.training.training_data import caption_text, every_caption
from rscc.training.training_loop import build_optimizer, build_schedule, freeze
from rscc.training.training_run import Run, RunPaths


class ChangeCaptioningTask(LightningModule):
    """Trains a captioner of one of the five papers by its config.

    Batches are those of :func:`rscc.data.torchgeo.collate_pairs`, their images divided by 255 as by any data
    module of TorchGeo.

    Attributes:
        model: the captioner; there from the start of a run, because it needs the words of the training split.
    """

    monitor = "val_loss"

    def __init__(
        self,
        config: str = "cheers_levir_cc",
        trunk: str | None = None,
        backbone_weights: str | None = None,
        records: Sequence[PairRecord] | None = None,
    ) -> None:
        """Read the config.

        Args:
            config: name of a shipped config, or a TOML file.
            trunk: model to take trunk and change head from.
            records: the training pairs; None: those of the trainer's data module.
        """
        super().__init__()
        self.save_hyperparameters(ignore=["records"])
        self.config = load_config(config)
        weights = None if backbone_weights is None else Path(backbone_weights)
        self._paths = RunPaths(Path(), Path(), trunk=trunk, backbone_weights=weights)
        self._records = records
        self.model: ChangeCaptioner | None = None

    def configure_model(self) -> None:
        """Build the model of the training split, where a checkpoint does not."""
        if self._records is None:
            module = getattr(self._trainer, "datamodule", None)
            self._records = getattr(getattr(module, "train_dataset", None), "records", None)
        if self.model is None and (self._records is not None or self._trainer is not None):
            if self._records is None:
                raise ConfigInvalid(
                    "the task needs training pairs: give records, or fit it with a data module"
                )
            captions = every_caption([self._captioned()])
            self._build(Vocabulary.build(captions, self.config.data.min_count))
            model = self._built()
            if model.prepares:
                model.prepare(training_material(model, self.config, self._captioned(), EMPTY))
        if self._records is not None:
            self._text = caption_text(self.config, self._captioned(), self._built().vocabulary)

    def training_step(self, batch: dict[str, Any], batch_idx: int) -> Tensor:
        """Return the weighted sum of the paper's loss terms."""
        return self._loss(batch, "train")

    def validation_step(self, batch: dict[str, Any], batch_idx: int) -> Tensor:
        """Return the same for a validation batch."""
        return self._loss(batch, "val")

    def on_train_epoch_start(self) -> None:
        """Keep frozen parts in evaluation mode."""
        for name in self.config.train.frozen:
            self._built().get_submodule(name).eval()

    def configure_optimizers(self) -> Any:
        """Return the optimiser and the schedule of the config, over the trainer's epochs."""
        optimizer = build_optimizer(self._built(), self.config.train)
        epochs = max(1, self.trainer.max_epochs or 1)
        steps = int(min(self.trainer.estimated_stepping_batches, 1e9)) // epochs
        schedule = build_schedule(optimizer, replace(self.config.train, epochs=epochs), max(1, steps))
        return {"optimizer": optimizer, "lr_scheduler": {"scheduler": schedule, "interval": "step"}}

    def on_save_checkpoint(self, checkpoint: dict[str, Any]) -> None:
        """Add the words and the prepared sizes, without which the weights mean nothing."""
        checkpoint["vocabulary"] = list(self._built().vocabulary.words)
        checkpoint["model"] = asdict(self._built().config)

    def on_load_checkpoint(self, checkpoint: dict[str, Any]) -> None:
        """Build the model for the words and sizes of a checkpoint; a prepared one needs no text encoder."""
        settings = build(ModelConfig, checkpoint["model"], "model")
        self.config = replace(self.config, model=settings)
        vocabulary, kind = Vocabulary(tuple(checkpoint["vocabulary"])), model_class(settings.paper)
        if kind.prepares:
            backbone = build_backbone(settings.backbone)
            self._use(kind(config=settings, backbone=backbone, vocabulary=vocabulary))
        else:
            self._build(vocabulary)

    def _loss(self, batch: dict[str, Any], stage: str) -> Tensor:
        smoothing = self.config.train.label_smoothing
        terms = self._built().losses(self._pair_batch(batch), self.config.loss, label_smoothing=smoothing)
        total = torch.stack([self.config.loss[name] * value.float() for name, value in terms.items()]).sum()
        size = len(batch["image"])
        self.log_dict({f"{stage}_{name}": value for name, value in terms.items()}, batch_size=size)
        self.log(f"{stage}_loss", total, batch_size=size)
        return total

    def _pair_batch(self, batch: dict[str, Any]) -> PairBatch:
        before, after = (255 * batch["image"]).unbind(1)
        mask = batch["mask"].squeeze(1)
        pairs = PairBatch(
            before=before,
            after=after,
            mask=(mask == 1).float(),
            mask_known=(mask != UNKNOWN).flatten(1).all(1),
            changed=batch["changed"],
            changed_known=torch.ones_like(batch["changed"], dtype=torch.bool),
        )
        chosen = [captions[int(torch.randint(len(captions), ()))] for captions in batch["caption"]]
        self._text.add(pairs, chosen)
        assert pairs.tokens is not None
        pairs.tokens = pairs.tokens.to(mask.device)
        return pairs

    def _captioned(self) -> list[PairRecord]:
        return [record for record in self._records or () if record.captions]

    def _build(self, vocabulary: Vocabulary) -> None:
        run = Run(self.config, self._paths, name="task", command="")
        self._use(build_model(run, vocabulary))

    def _use(self, model: ChangeCaptioner) -> None:
        check_loss_weights(model.loss_terms(), self.config.loss)
        freeze(model, self.config.train.frozen)
        self.model = model

    def _built(self) -> ChangeCaptioner:
        assert self.model is not None, "Lightning calls configure_model first"
        return self.model
