"""Train CHEERS with Lightning on a data set of TorchGeo's kind.

Usage: python examples/lightning_captioner.py [FOLDER]        (needs pip install '.[train,torchgeo]')

The pairs are generated, and the trunk is that of rscc-small: a run of a minute that shows the steps, not a
model to use.
"""

from __future__ import annotations

import sys
from pathlib import Path

from lightning.pytorch import Trainer, seed_everything
from masked_pairs import write_masked_pairs

from rscc.data.torchgeo import ChangeCaptioningTask, LEVIRCCDataModule

CONFIG = """
[model]
paper = "cheers"
backbone = "efficientnet_lite0"
width = 128
heads = 4
head_width = 48
pool = 2
[model.options]
retriever = "offline"
entities = 3
[data]
size = 128
min_count = 1
[train]
learning_rate = 1e-3
bf16 = false
frozen = ["backbone"]
[loss]
caption = 1.0
consistency = 0.75
contrast = 0.5
changed = 0.2
change_mask = 1.0
"""


def train(data: Path, folder: Path, config: str = CONFIG, **task: str) -> ChangeCaptioningTask:
    """Train on a data set in LEVIR-CC's layout; return the task with its trained model."""
    seed_everything(1)
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "cheers.toml").write_text(config)
    captioner = ChangeCaptioningTask(str(folder / "cheers.toml"), **task)
    module = LEVIRCCDataModule(root=data, batch_size=4, size=128)
    trainer = Trainer(
        max_epochs=2, accelerator="cpu", logger=False, enable_checkpointing=False, gradient_clip_val=5.0
    )
    trainer.fit(captioner, datamodule=module)
    trainer.save_checkpoint(folder / "cheers.ckpt")
    return captioner


if __name__ == "__main__":
    work = Path(sys.argv[1] if len(sys.argv) > 1 else "demo/lightning_captioner")
    trained = train(write_masked_pairs(work / "pairs"), work, trunk="rscc-small")
    print(
        f"{work / 'cheers.ckpt'}: validation loss {float(trained.trainer.callback_metrics['val_loss']):.3f}"
    )
