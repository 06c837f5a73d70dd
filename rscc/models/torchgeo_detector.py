"""Runs a change detection network that TorchGeo trained (``ChangeDetectionTask``, now ``ChangeDetection``).

The network is built from the hyperparameters in its checkpoint and filled with the stored tensors; nothing
else of a checkpoint is used, and no code in one is run. ``model = "changestar"`` builds ``ChangeStarFarSeg``,
which TorchGeo has no task for.
"""

import math
import os
import tomllib
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any
from urllib.parse import urlparse

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from rscc.errors import ConfigInvalid, DetectorInvalid, WeightsNotFound, extra, first_line
from rscc.files import open_regular, read_file
from rscc.model_card import DetectorCard, DetectorSettings, ModelCard, with_detector
from rscc.settings import build
from rscc.weights import built_for, check_unpacked, is_stored

_BUILDING = ("model", "backbone", "in_channels", "task", "num_classes", "num_labels", "num_filters")
_STRIDE = 32
"""Encoders halve the sides of images five times."""
_RGB_STD = 255.0
_MOST_TOML = 2**20


class TorchGeoDetector(nn.Module):
    """Change probability of pairs of tiles.

    Attributes:
        card: of the model that it runs in, with :attr:`~rscc.model_card.ModelCard.detector`.
    """

    def __init__(self, network: nn.Module, task: str, card: ModelCard) -> None:
        super().__init__()
        detector = card.detector
        assert detector is not None, "the caller describes the detector"
        self.network, self.card, self._task = network, card, task
        self._changed, self._patch = list(detector.changed), detector.patch_size
        self.mean: Tensor
        self.std: Tensor
        for name in ("mean", "std"):
            numbers = torch.tensor(getattr(detector, name)).view(-1, 1, 1)
            self.register_buffer(name, numbers, persistent=False)

    def forward(self, before: Tensor, after: Tensor, values: Tensor | None = None) -> Tensor:
        """Return the change probability, (B, H, W) float32 in 0..1, of dates (B, 3, H, W) RGB in 0..255.

        ``values`` (B, 2, C, H, W) are of the bands on the card; None for a detector that sees RGB.
        """
        images = torch.stack([before, after], dim=1).float() if values is None else values
        height, width = images.shape[-2:]
        with torch.autocast(images.device.type, enabled=False):
            answers = self.network(self._padded((images - self.mean) / self.std))
            changed = self._of_change(answers)
        return changed[..., :height, :width]

    def _padded(self, images: Tensor) -> Tensor:
        """Repeat the last row and column up to sides that the network can halve; to squares for ChangeViT."""
        patches = getattr(getattr(self.network, "encoder", None), "patch_embed", None)
        side = getattr(patches, "patch_size", _STRIDE)
        multiple = math.lcm(*side) if isinstance(side, tuple) else int(side)
        height, width = images.shape[-2:]
        least = self._patch if patches is None else max(height, width, self._patch)
        high, wide = (-(-max(one, least) // multiple) * multiple for one in (height, width))
        flat = F.pad(images.flatten(1, 2), (0, wide - width, 0, high - height), mode="replicate")
        return flat.unflatten(1, images.shape[1:3])

    def _of_change(self, answers: Tensor | dict[str, Tensor]) -> Tensor:
        if isinstance(answers, dict):  # ChangeStar
            return answers["change_prob"].squeeze(1)
        if self._task == "multiclass":
            classes = answers.softmax(1)
            return classes[:, self._changed].sum(1) if self._changed else 1 - classes[:, 0]
        labels = answers.sigmoid()
        return (labels[:, self._changed] if self._changed else labels).amax(1)


class _Stacked(nn.Module):
    """Puts the dates (B, 2, C, H, W) behind each other, (B, 2 C, H, W), for networks that expect that."""

    def __init__(self, network: nn.Module) -> None:
        super().__init__()
        self.network = network

    def forward(self, images: Tensor) -> Tensor:
        result: Tensor = self.network(images.flatten(1, 2))
        return result


def load_torchgeo(file: str | Path, card: ModelCard) -> TorchGeoDetector:
    """Open the weights of a detector to run in a model.

    Args:
        file: a Lightning checkpoint, a torch file of tensors or a ``.safetensors`` file, with or without
            ``torchgeo:`` before it. ``<name>.toml`` beside it is read, see
            :class:`~rscc.model_card.DetectorSettings`.
        card: of the model whose trunk and words are used.

    Raises:
        DetectorInvalid: the file is missing, damaged, holds code, or is of an unknown network; its TOML file
            is invalid; or it was trained at a resolution that the model does not serve.
        ExtraNotInstalled: TorchGeo is not installed.
    """
    path = Path(str(file).removeprefix(PREFIX))
    whole, given, state = _read(path, card)
    found = TorchGeoDetector(_network(path, given, state), str(given.get("task", "binary")), whole).eval()
    _try_once(path, found)
    return found


def card_with_detector(file: Path, card: ModelCard) -> ModelCard:
    """Return the card of a model in which a detector runs, as :func:`load_torchgeo`, without its network."""
    return _read(file, card)[0]


def _read(path: Path, card: ModelCard) -> tuple[ModelCard, dict[str, Any], dict[str, Tensor]]:
    """Return the card with the detector, the hyperparameters, and the tensors of the network."""
    settings = read_settings(path)
    content, sha256 = _content(path)
    state, stored = _weights(path, content)
    given = {**stored, **settings.hyperparameters}
    if "model" not in given:
        raise DetectorInvalid(
            f"{path}: does not say which network it holds; write hyperparameters.model and .backbone into "
            f"{path.with_suffix('.toml').name} beside it"
        )
    datamodule = content.get("datamodule_hyper_parameters")
    datamodule = datamodule if isinstance(datamodule, dict) else {}
    if not isinstance(given.get("in_channels") or 3, int):
        raise DetectorInvalid(f"{path}: its in_channels is no number of bands; correct the hyperparameters")
    detector = replace(_described(path, settings, given, datamodule, card), sha256=sha256)
    return with_detector(card, detector), given, state


def _try_once(path: Path, detector: TorchGeoDetector) -> None:
    """Raise DetectorInvalid for a network that takes no tiles of the model's size."""
    settings, side = detector.card.detector, detector.card.tile_size
    assert settings is not None
    values = torch.zeros(1, 2, len(settings.bands), side, side) if settings.bands else None
    try:
        with torch.inference_mode():
            detector(*torch.zeros(2, 1, 3, side, side), values)
    except (AssertionError, RuntimeError, ValueError) as error:
        raise DetectorInvalid(
            f"{path}: its network does not take tiles of {side} x {side} pixels ({first_line(error)}); give "
            "one for images of any size"
        ) from error


def read_settings(path: Path) -> DetectorSettings:
    """Read the TOML file beside the weights; without one everything has its default."""
    file = path.with_suffix(".toml")
    if not file.is_file():
        return DetectorSettings()
    try:
        values = tomllib.loads(read_file(file, _MOST_TOML).decode("utf-8"))
        return build(DetectorSettings, values, file.name)
    except (OSError, ValueError, ConfigInvalid) as error:
        raise DetectorInvalid(f"{file}: not the description of a detector ({first_line(error)})") from error


def _content(path: Path) -> tuple[dict[str, Any], str]:
    """Return what a file of weights holds, and its SHA-256; only tensors and plain values are unpickled."""
    import hashlib
    import pickle

    from safetensors import SafetensorError
    from safetensors.torch import load as load_safetensors

    try:
        with open(path, "rb", opener=open_regular) as file:
            sha256 = hashlib.file_digest(file, "sha256").hexdigest()
            file.seek(0)
            check_unpacked(file)
            if path.suffix == ".safetensors":
                return load_safetensors(file.read()), sha256
            content = torch.load(file, map_location="cpu", weights_only=True)
    except OSError as error:
        raise DetectorInvalid(f"{path}: cannot be read ({error.strerror or error})") from error
    except pickle.UnpicklingError as error:
        raise DetectorInvalid(
            f"{path}: holds code or objects besides weights, which is never run, or is damaged; save the "
            "state_dict of the task alone, as a torch file or as safetensors"
        ) from error
    except (SafetensorError, RuntimeError, EOFError, ValueError, KeyError, TypeError) as error:
        raise DetectorInvalid(
            f"{path}: damaged, or no file of weights ({first_line(error)[:120]})"
        ) from error
    if not isinstance(content, dict):
        raise DetectorInvalid(f"{path}: holds no table of weights; give a checkpoint of TorchGeo")
    return content, sha256


def _weights(path: Path, content: Mapping[str, Any]) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """Return the tensors of the network by name, and the hyperparameters of its task."""
    state, stored = content.get("state_dict", content), content.get("hyper_parameters", {})
    are_names = isinstance(state, dict) and all(isinstance(name, str) for name in state)
    if not are_names or not isinstance(stored, dict):
        raise DetectorInvalid(f"{path}: not a checkpoint of TorchGeo; give one, or its state_dict")
    tensors = {name: value for name, value in state.items() if isinstance(value, Tensor)}
    hollow = next((name for name, value in tensors.items() if not is_stored(value)), None)
    if hollow is not None:
        raise DetectorInvalid(
            f"{path}: the tensor {hollow[:60]!r} has more numbers than the file; save it again"
        )
    inner = {name.removeprefix("model."): one for name, one in tensors.items() if name.startswith("model.")}
    if not (inner or tensors):
        raise DetectorInvalid(f"{path}: holds no tensor; give a checkpoint of TorchGeo, or its state_dict")
    return inner or tensors, stored


def _network(path: Path, given: Mapping[str, Any], state: Mapping[str, Tensor]) -> nn.Module:
    """Build the network that hyperparameters describe, and fill it."""
    values = {name: given[name] for name in _BUILDING if given.get(name) is not None}
    named = [str(values.get(name, "")) for name in ("model", "backbone")]
    if any(mark in name for name in named for mark in (":", "/", "\\")):
        raise DetectorInvalid(f"{path}: its network {' '.join(named)} would be looked up on a server")
    stored = sum(tensor.numel() for tensor in state.values())
    try:
        with extra("torchgeo", "--detector torchgeo:FILE"), built_for(stored):
            network = _built(values)
        network.load_state_dict(state)
    except (
        RuntimeError,
        ValueError,
        KeyError,
        TypeError,
        AttributeError,
        AssertionError,
        MemoryError,
    ) as error:
        raise DetectorInvalid(
            f"{path}: its weights do not fit {' with '.join(filter(None, named))} "
            f"({first_line(error)[:120]}); correct the hyperparameters in {path.with_suffix('.toml').name}"
        ) from error
    stacks = not named[0].startswith(("fcsiam", "changevit", "changestar"))
    return _Stacked(network) if stacks else network


def _built(values: Mapping[str, Any]) -> nn.Module:
    if values["model"] == "changestar":
        from torchgeo.models import ChangeStarFarSeg

        backbone, classes = values.get("backbone", "resnet50"), values.get("num_classes", 1)
        network: nn.Module = ChangeStarFarSeg(backbone=backbone, classes=classes, backbone_pretrained=False)
        return network
    built: nn.Module = change_detection_task()(**values).model
    return built


def change_detection_task() -> Any:
    """Return TorchGeo's class of change detection tasks, whatever its release calls it."""
    try:
        from torchgeo.tasks import ChangeDetection
    except ModuleNotFoundError:  # before 0.10
        from torchgeo.trainers import ChangeDetectionTask as ChangeDetection
    return ChangeDetection


def _described(
    path: Path,
    settings: DetectorSettings,
    given: Mapping[str, Any],
    datamodule: Mapping[str, Any],
    card: ModelCard,
) -> DetectorCard:
    """Describe a detector, and what had to be assumed."""
    count, channels = len(settings.bands) or 3, int(given.get("in_channels") or 3)
    if count != channels:
        raise DetectorInvalid(
            f"{path}: sees {channels} bands; name them, in its order, as bands in "
            f"{path.with_suffix('.toml').name} beside it"
        )
    mean, std = settings.mean or (0.0,), settings.std or ((1.0,) if settings.bands else (_RGB_STD,))
    patch = settings.patch_size or _side(datamodule.get("patch_size"))
    assumed = [
        None if settings.bands else "bands: red, green and blue, in this order, in 0..255",
        None if settings.mean and settings.std else f"mean {mean[0]:g} and std {std[0]:g}, of all bands",
        None if patch else f"patch_size: {max(card.search_size, card.tile_size)}, that of {card.name}",
        None if settings.gsd else f"gsd: {card.gsd:g} m, that of {card.name}",
    ]
    return DetectorCard(
        name=" with ".join(str(given[name]) for name in ("model", "backbone") if given.get(name)),
        file=path.name,
        sha256="",
        bands=settings.bands,
        mean=mean,
        std=std,
        patch_size=patch,
        gsd=settings.gsd,
        threshold=settings.threshold,
        changed=settings.changed,
        assumed=tuple(filter(None, assumed)),
    )


def _side(size: Any) -> int:
    """Return the side of the patches of a data module, which has one number or height and width."""
    sides = size if isinstance(size, list | tuple) else (size,)
    return max((side for side in sides if isinstance(side, int)), default=0)


PREFIX = "torchgeo:"


def torchgeo_trunk(name: str, file: Path | None = None) -> tuple[str, Path]:
    """Return the name of a trunk for ``model.backbone``, and the file of its weights; nothing is downloaded.

    Args:
        name: of weights in TorchGeo, such as ``ResNet50_Weights.SENTINEL2_RGB_MOCO``.
        file: their file; None: in TorchGeo's own cache, the folder of ``torch.hub``.

    Raises:
        ConfigInvalid: TorchGeo has no such weights, or they see other bands than red, green and blue.
    """
    import torch

    with extra("torchgeo", f"--trunk torchgeo:{name}"):
        from torchgeo.models import get_weight
    try:
        weights = get_weight(name)
    except (ValueError, KeyError) as error:
        raise ConfigInvalid(f"--trunk {PREFIX}{name}: TorchGeo has no weights of this name") from error
    bands, model = weights.meta.get("in_chans"), weights.meta.get("model")
    if bands != 3:
        raise ConfigInvalid(f"--trunk {PREFIX}{name}: sees {bands} bands; give weights for RGB")
    cached = Path(torch.hub.get_dir()) / "checkpoints" / os.path.basename(urlparse(weights.url).path)
    path = file or cached
    if not path.is_file():
        raise WeightsNotFound(
            f"{path}: no such file; give the weights of {name} with --backbone-weights, or let TorchGeo "
            "fetch them into its cache once"
        )
    return f"timm/{model}", path
