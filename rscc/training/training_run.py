"""A training run: its config, its inputs, the model it starts from, and the folder that it writes."""

import os
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from rscc.config import Config
from rscc.data.labels import read_labelled
from rscc.data.single_dates import read_roads
from rscc.errors import ConfigInvalid
from rscc.model_folder import find_model
from rscc.training.initial_weights import Start

Report = Callable[[str], None]
"""Receives one line of text."""

TRUNK = ("backbone", "change_head")
# What a run writes into its folder: model folders, and the files of the training loop.
_MODELS, _LOOP_FILES = ("model", "tuned"), ("checkpoint.pt", "best.safetensors", "log.jsonl", "config.json")


@dataclass(frozen=True)
class RunPaths:
    """Where a run reads and writes.

    Attributes:
        data: root of the captioned data set.
        output: run folder; the finished model is ``output/model``.
        masks: folders of further pairs with change masks, see
            :func:`~rscc.data.benchmarks.change_masks.change_masks`, or data sets of TorchGeo, see
            :func:`~rscc.data.torchgeo_pairs.torchgeo_pairs`.
        trunk: model folder or name to take the trunk and the change head from.
        backbone_weights: file of pretrained trunk weights; not together with ``trunk`` or ``start``.
        cache: folder of cached features; None: in ``output``.
        start: model folder or name to take all weights and the vocabulary from; a ``trunk`` replaces its
            trunk and change head.
        corpus: file of captions without images, for ``train.objective = "language"``.
        also: further folders in the layout of ``data.name`` whose train split is learned too.
        roads: folder of single dates with road masks, see
            :func:`rscc.training.head_training.fit_roads`; None: the road head of the start stays.
        labelled, labels: folder of further pairs, and their table of labels, to learn facts from; see
            :func:`rscc.data.labels.read_labelled`.
    """

    data: Path
    output: Path
    masks: tuple[Path, ...] = ()
    trunk: str | None = None
    backbone_weights: Path | None = None
    cache: Path | None = None
    start: str | None = None
    corpus: Path | None = None
    also: tuple[Path, ...] = ()
    roads: Path | None = None
    labelled: Path | None = None
    labels: Path | None = None


@dataclass(frozen=True)
class Run:
    """One training run.

    Attributes:
        config, paths: what is learned and how; where the run reads and writes.
        name, command: name of the new model and the command line, for its card.
    """

    config: Config
    paths: RunPaths
    name: str
    command: str
    device: str = "cpu"
    report: Report = print
    start: Start | None = None

    @property
    def masks_only(self) -> bool:
        """Whether only the loss of the change masks has a weight, so that no captions are needed."""
        return all(weight == 0 or term == "change_mask" for term, weight in self.config.loss.items())

    @property
    def whole_start(self) -> Start | None:
        """The start, if it is a whole captioner and this run trains captions: then the run fine-tunes it."""
        return self.start if self.start is not None and self.start.whole and not self.masks_only else None

    @property
    def freezes_trunk(self) -> bool:
        """Whether trunk and change head are not trained."""
        return set(TRUNK) <= set(self.config.train.frozen)

    @property
    def keeps_trunk(self) -> bool:
        """Whether trunk and change head stay those of the start."""
        return self.paths.start is not None and self.paths.trunk is None and self.freezes_trunk

    @property
    def learns_facts_alone(self) -> bool:
        """Whether only the fact heads of the start are trained further."""
        start, settings = self.whole_start, self.config.train
        if start is None or not (settings.facts and settings.facts_alone):
            return False
        return bool(start.folder.card.facts_sha256) and not self.paths.also and self.keeps_trunk


def check_output(paths: RunPaths, *, resume: bool = False, overwrite: bool = False) -> None:
    """Check that the run folder can be written without losing anything.

    Args:
        resume, overwrite: continue the run in that folder, or replace it.

    Raises:
        ConfigInvalid: both are given; the folder is a file; a start or trunk is its ``model`` or ``tuned``;
            one of these is no model folder; or it holds a run, and neither is given.
    """
    if resume and overwrite:
        raise ConfigInvalid("--resume continues a run, --overwrite replaces it; give one of them")
    if paths.output.exists() and not paths.output.is_dir():
        raise ConfigInvalid(f"{paths.output}: this is a file; give --output a folder for the run")
    models = [paths.output / name for name in _MODELS]
    for source in (paths.start, paths.trunk):
        if source is not None and find_model(source).resolve() in [path.resolve() for path in models]:
            raise ConfigInvalid(
                f"{source}: this run would overwrite the model it starts from; give another --output"
            )
    for path in models:
        if os.path.lexists(path) and not (path / "model.json").is_file():
            raise ConfigInvalid(f"{path}: exists already and is no model folder; give another --output")
    files = [*models, *(paths.output / name for name in _LOOP_FILES)]
    existing = next(filter(os.path.lexists, files), None)
    if existing is not None and not (resume or overwrite):
        raise ConfigInvalid(
            f"{existing}: exists already; add --resume to continue that run or --overwrite to replace it, or "
            "give another --output"
        )


def clear_output(folder: Path) -> None:
    """Remove the files of an earlier run's loop, so that no later run continues it."""
    for name in _LOOP_FILES:
        (folder / name).unlink(missing_ok=True)
    shutil.rmtree(folder / "tuned", ignore_errors=True)


def check_inputs(run: Run) -> None:
    """Check, before anything is learned, that every given input is used and can be read.

    Raises:
        ConfigInvalid: an input that this config does not use, or weights of the trunk from two places.
        DatasetLayoutInvalid: the folder of roads, or the table of labels, has another layout or no rows.
    """
    paths = run.paths
    if paths.corpus is not None:
        raise ConfigInvalid("only train.objective 'language' learns a corpus; leave --corpus out")
    if paths.masks and not run.masks_only:
        raise ConfigInvalid(
            f"{paths.masks[0]}: --masks needs a config in which only loss.change_mask has a weight, such as "
            "change_head"
        )
    for folder, option in ((paths.roads, "roads"), (paths.labelled, "labelled")):
        if folder is not None and (run.masks_only or not run.config.train.facts):
            raise ConfigInvalid(f"{folder}: this config learns no facts; leave --{option} out")
    if paths.labels is not None and paths.labelled is None:
        raise ConfigInvalid(f"{paths.labels}: give the folder of its images with --labelled")
    if paths.backbone_weights is not None and (paths.trunk is not None or (run.start and run.start.whole)):
        raise ConfigInvalid("give either backbone weights or a model folder that holds a trunk, not both")
    if paths.roads is not None:
        read_roads(paths.roads)
    if paths.labelled is not None:
        read_labelled(paths.labelled, paths.labels)
