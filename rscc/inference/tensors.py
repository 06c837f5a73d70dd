"""Weights on disk: safetensors files whose every number is one."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from rscc.errors import ModelFolderInvalid

if TYPE_CHECKING:
    from torch import Tensor


def load_weights(path: Path) -> dict[str, Tensor]:
    """Return the tensors of a file by name.

    A network with NaN or infinity in it answers NaN, which no threshold is below: nothing would be found.

    Raises:
        ModelFolderInvalid: a tensor holds NaN or infinity, also as float32; the message names it.
        OSError, SafetensorError: the file cannot be read.
    """
    import torch
    from safetensors.torch import load_file

    state = load_file(path)
    for name, value in state.items():
        numbers = value.float()
        # A sum over NaN or infinity is no number either; that of sound ones may be too large, so they decide.
        if not bool(numbers.sum().isfinite()) and not bool(torch.isfinite(numbers).all()):
            raise ModelFolderInvalid(
                f"{path}: the tensor {name!r} holds NaN or infinity; get a sound copy or train it anew"
            )
    return state


def save_weights(state: Mapping[str, Tensor], path: Path) -> None:
    """Write tensors by name; who may read the file is up to the system, as for every other file.

    Raises:
        OSError, SafetensorError: the file cannot be written.
    """
    from safetensors.torch import save_file

    path.touch()
    mode = path.stat().st_mode
    save_file(dict(state), path)
    # safetensors lets nobody else read what it writes.
    path.chmod(mode)
