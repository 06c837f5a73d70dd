"""Train a change detection network in TorchGeo and map a scene with it.

Usage: python examples/torchgeo_detector.py [FOLDER]        (needs pip install '.[torchgeo]'; takes minutes)

The pairs are generated ones in LEVIR-CC's layout. With data of your own the network learns more than the few
steps here let it.
"""

from __future__ import annotations

import sys
from pathlib import Path

from lightning.pytorch import Trainer, seed_everything
from make_demo_scene import make_scene
from masked_pairs import write_masked_pairs
from run_rscc import run_rscc

from rscc.data.torchgeo import LEVIRCCDataModule
from rscc.models.torchgeo_detector import change_detection_task


def train(data: Path, checkpoint: Path, steps: int = 40) -> Path:
    """Train FC-Siam-diff on the masks of a data set in LEVIR-CC's layout; return its checkpoint."""
    seed_everything(1)
    task = change_detection_task()(model="fcsiamdiff", backbone="resnet18", lr=2e-3)
    module = LEVIRCCDataModule(root=data, batch_size=4, size=128)
    trainer = Trainer(
        max_steps=steps, max_epochs=-1, accelerator="cpu", logger=False, enable_checkpointing=False
    )
    trainer.fit(task, datamodule=module)
    trainer.save_checkpoint(checkpoint)
    return checkpoint


if __name__ == "__main__":
    work = Path(sys.argv[1] if len(sys.argv) > 1 else "demo/torchgeo_detector")
    weights = train(write_masked_pairs(work / "pairs"), work / "fcsiamdiff.ckpt")
    scene = make_scene(work / "scene")
    run_rscc(
        *("caption", scene.before, scene.after, "--detector", f"torchgeo:{weights}"),
        *("-o", work / "changes.gpkg", "-o", work / "changes.html", "--overwrite"),
    )
