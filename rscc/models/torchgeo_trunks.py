"""Trunks that TorchGeo published: residual networks of timm with weights of satellite imagery."""

from __future__ import annotations

import os
from pathlib import Path
from urllib.parse import urlparse

from rscc.errors import ConfigInvalid, WeightsNotFound, extra

PREFIX = "torchgeo:"


def torchgeo_trunk(name: str, file: Path | None = None) -> tuple[str, Path]:
    """Return the name of a trunk for ``model.backbone``, and the file of its weights; nothing is downloaded.

    Args:
        name: of weights in TorchGeo, such as ``ResNet50_Weights.SENTINEL2_RGB_MOCO``.
        file: their file; None: in TorchGeo's own cache, the folder of ``torch.hub``.

    Raises:
        ConfigInvalid: TorchGeo has no such weights, or they see other bands than red, green and blue.
        WeightsNotFound: the file is not there.
        ExtraNotInstalled: TorchGeo is not installed.
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
