"""Files of weights that others published."""

from pathlib import Path

import torch
from torch import Tensor

from rscc.errors import WeightsNotFound


def read_tensors(path: Path, what: str) -> dict[str, Tensor]:
    """Return the tensors of a safetensors or torch file by name; nothing else is unpickled.

    Raises:
        WeightsNotFound: there is no such file, or it holds anything but tensors; the message asks for
            ``what``.
    """
    from safetensors.torch import load_file

    if not path.is_file():
        raise WeightsNotFound(f"{path}: no such file; give {what}")
    try:
        if path.suffix == ".safetensors":
            return load_file(path)
        state = torch.load(path, map_location="cpu", weights_only=True)
    except Exception as error:  # a damaged file can raise anything in the libraries
        raise WeightsNotFound(
            f"{path}: damaged, or holds more or other than tensors ({type(error).__name__}); give {what}"
        ) from error
    if not isinstance(state, dict) or not all(isinstance(value, Tensor) for value in state.values()):
        raise WeightsNotFound(f"{path}: does not hold a table of tensors; give {what}")
    return state
