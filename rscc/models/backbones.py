"""The registry of trunks: :data:`BACKBONES` maps a config's ``model.backbone`` to its builder."""

import itertools
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from rscc.errors import ConfigInvalid, WeightsNotFound, extra
from rscc.models.trunks import bottleneck, inverted_residual
from rscc.models.trunks.backbone import STRIDES, Backbone
from rscc.weights import read_tensors

_WEIGHTS = "backbone weights, safetensors or a torch file of tensors alone"


def _split_at_strides(modules: list[nn.Module]) -> tuple[list[nn.Sequential], tuple[int, ...]]:
    """Group modules into three stages that end at strides 4, 8 and 16, with their channels; drop the rest."""
    ends: dict[int, tuple[int, int]] = {}
    x = torch.zeros(1, 3, 64, 64)
    with torch.no_grad():
        for index, module in enumerate(modules):
            x = module.eval()(x)
            stride = 64 // x.shape[-1] if x.ndim == 4 and x.shape[-1] else 0
            if stride > STRIDES[-1] or x.ndim != 4:
                break
            ends[stride] = (index + 1, x.shape[1])
    if any(stride not in ends for stride in STRIDES):
        raise ConfigInvalid(f"this trunk has no maps at strides {STRIDES}; it ends them at {sorted(ends)}")
    starts = [0, *(ends[stride][0] for stride in STRIDES)]
    stages = [nn.Sequential(*modules[a:b]) for a, b in itertools.pairwise(starts)]
    return stages, tuple(ends[stride][1] for stride in STRIDES)


def _torchvision_modules(name: str, *, pretrained: bool) -> list[nn.Module]:
    from torchvision import models

    name, _, recipe = name.partition(".")
    try:
        weights = models.get_model_weights(name)
        if recipe and recipe not in weights.__members__:
            known = ", ".join(weights.__members__)
            raise ConfigInvalid(f"torchvision has no weights {recipe!r} of {name}; it has {known}")
        model = models.get_model(name, weights=weights[recipe or "DEFAULT"] if pretrained else None)
    except ValueError as error:
        raise ConfigInvalid(f"torchvision has no model {name!r}") from error
    return list(model.features if hasattr(model, "features") else model.children())


def _resnet50(weights: Path | None) -> Backbone:
    """ResNet-50 to its third stage in the layout of the Keras weights; inputs are centred, not scaled."""
    trunk = bottleneck.residual_layers()
    if weights is not None:
        result = trunk.load_state_dict(read_tensors(weights, _WEIGHTS), strict=False)
        missing = [name for name in result.missing_keys if not name.endswith("num_batches_tracked")]
        if missing or result.unexpected_keys:
            raise WeightsNotFound(
                f"{weights}: not a ResNet-50 up to its third stage ({len(missing)} tensors are missing, "
                f"{len(result.unexpected_keys)} are unknown)"
            )
    *stem, second, third = trunk
    stages = [nn.Sequential(*stem), nn.Sequential(second), nn.Sequential(third)]
    mean = (123.68, 116.779, 103.939)
    return Backbone(stages, channels=bottleneck.CHANNELS, mean=mean, std=(1.0, 1.0, 1.0))


def _efficientnet_lite0(weights: Path | None) -> Backbone:
    """EfficientNet-Lite0 to stride 16, inputs in -1..1."""
    stages = nn.ModuleList(inverted_residual.inverted_stages())
    if weights is not None:
        stages.load_state_dict(_first_of(stages, read_tensors(weights, _WEIGHTS), weights), strict=False)
    return Backbone(stages, channels=inverted_residual.CHANNELS, mean=(127.5,) * 3, std=(127.5,) * 3)


def _first_of(module: nn.Module, state: dict[str, Tensor], path: Path) -> dict[str, Tensor]:
    """Rename the first published weights to those of ``module``, layer by layer, and check shapes."""
    expected = {k: v for k, v in module.state_dict().items() if not k.endswith("num_batches_tracked")}
    published = [v for k, v in state.items() if not k.endswith("num_batches_tracked")][: len(expected)]
    if [v.shape for v in published] != [v.shape for v in expected.values()]:
        raise WeightsNotFound(f"{path}: these weights are of another network")
    return dict(zip(expected, published, strict=True))


class _TimmBackbone(Backbone):
    """Any timm trunk with ``features_only``; a plain transformer returns its last map, after its norm."""

    def __init__(self, name: str, *, pretrained: bool):
        import timm

        try:
            whole = timm.create_model(name, pretrained=False, features_only=True)
            reductions = whole.feature_info.reduction()
            if len(set(reductions)) == 1:
                settings: dict[str, Any] = dict(num_classes=0, dynamic_img_size=True, dynamic_img_pad=True)
            elif all(stride in reductions for stride in STRIDES):
                # Layers after stride 16 are not built: nothing reads them, so they could not be trained.
                indices = tuple(reductions.index(stride) for stride in STRIDES)
                settings = {"features_only": True, "out_indices": indices}
            else:
                raise ConfigInvalid(
                    f"timm model {name!r} has no maps at strides {STRIDES}; it has {reductions}"
                )
            extractor = timm.create_model(name, pretrained=pretrained, **settings)
        except (RuntimeError, AttributeError, ValueError, TypeError) as error:
            raise ConfigInvalid(f"timm has no trunk {name!r} that gives feature maps ({error})") from error
        is_plain = "features_only" not in settings
        channels = (extractor.num_features,) if is_plain else extractor.feature_info.channels()
        data = timm.data.resolve_data_config({}, model=extractor)
        super().__init__(
            [extractor],
            channels=tuple(channels),
            mean=tuple(255 * value for value in data["mean"]),
            std=tuple(255 * value for value in data["std"]),
        )
        self._is_plain = is_plain

    def forward(self, images: Tensor) -> list[Tensor]:
        x = ((images.float() - self.mean) / self.std).contiguous(memory_format=torch.channels_last)
        extractor: Any = self.stages[0]
        if self._is_plain:
            return extractor.forward_intermediates(x, indices=1, norm=True, intermediates_only=True)
        return list(extractor(x))


def _load_published(extractor: nn.Module, path: Path) -> None:
    """Fill timm's feature extractor; the published weights may have more layers."""
    result = extractor.load_state_dict(read_tensors(path, _WEIGHTS), strict=False)
    missing = [name for name in result.missing_keys if not name.endswith("num_batches_tracked")]
    if missing:
        raise WeightsNotFound(f"{path}: these weights are of another network ({missing[0]} is missing)")


BACKBONES: dict[str, Callable[[Path | None], Backbone]] = {
    "resnet50": _resnet50,
    "efficientnet_lite0": _efficientnet_lite0,
}


def build_backbone(name: str, *, weights: str | Path | None = None, download: bool = False) -> Backbone:
    """Build a trunk by name.

    Args:
        name: a key of :data:`BACKBONES`, ``torchvision/<model>.<weights>`` (by default the library's newest
            weights), ``timm/<model>``, or, for DAVIR's large size, ``instructblip/<folder or hub name>``.
            A plain vision transformer of timm, such as CLIP's, has one map, at the stride of its patches.
        weights: file of weights for a key of :data:`BACKBONES` or a model of timm, whose layers after stride
            16 are left out; None leaves them random.
        download: let torchvision, timm or transformers fetch the model's published weights.

    Raises:
        ConfigInvalid: an unknown name, or a network without maps at strides 4, 8 and 16.
        ExtraNotInstalled: the library with this trunk is not installed.
        WeightsNotFound: ``weights`` is not a file, or published weights cannot be downloaded.
    """
    source, _, rest = name.partition("/")
    if ":" in rest and not download:
        raise ConfigInvalid(f"backbone {name!r} is looked up on the network, which is not allowed here")
    if source == "timm" and rest:
        with extra("train", f"backbone {name!r}"):
            trunk = _TimmBackbone(rest, pretrained=download)
        if weights is not None:
            _load_published(trunk.stages[0], Path(weights))
        return trunk
    if source == "instructblip" and rest:
        from rscc.models.instructblip import load_instructblip

        return load_instructblip(rest, download=download)
    if source == "torchvision" and rest:
        try:
            with extra("train", f"backbone {name!r}"):
                modules = _torchvision_modules(rest, pretrained=download)
        except OSError as error:
            raise WeightsNotFound(
                f"{name}: its published weights cannot be downloaded ({error}); give a file with "
                "--backbone-weights, a model with --trunk, or go online once"
            ) from error
        stages, channels = _split_at_strides(modules)
        return Backbone(stages, channels=channels)
    if name not in BACKBONES:
        names = ", ".join(BACKBONES)
        raise ConfigInvalid(
            f"unknown backbone {name!r}; known are {names}, timm/<model>, torchvision/<model>"
        )
    return BACKBONES[name](Path(weights) if weights is not None else None)
