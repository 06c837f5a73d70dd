"""Weights on disk: safetensors files with finite numbers only, and modules that are built to match one.

A model description of a few bytes can describe a network of any size, so memory is limited by the size of the
weights file beside it.
"""

import math
import zipfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO

import torch
from torch import Tensor, nn
from torch.nn.modules import module as modules
from torch.overrides import TorchFunctionMode

from rscc.errors import ModelFolderInvalid, NonFiniteOutput, WeightsNotFound

# A network has more parameters than its file: positions are computed, a weight may have two names, and a
# trunk is built whole before its last stages are removed (ResNet-101 has 45 million numbers).
_FACTOR, _ROOM = 2, 2**26
# Bytes of the header of safetensors: names and shapes.
_HEADER = 2**24
# Functions that draw the initial values of torch's layers, which takes longer than reading a file.
# Tensor.normal_ itself draws: nn.init.trunc_normal_ repeats it until every value fits.
_RANDOM_INIT = frozenset({nn.init.normal_, nn.init.uniform_, nn.init.kaiming_uniform_})


class _SkipRandomInit(TorchFunctionMode):
    """Leaves tensors uninitialised that would be filled with random numbers."""

    def __torch_function__(
        self, function: Any, types: Any, arguments: tuple[Any, ...] = (), named: dict[str, Any] | None = None
    ) -> Any:
        named = named or {}
        if function in _RANDOM_INIT:
            return named["tensor"] if "tensor" in named else arguments[0]
        return function(*arguments, **named)


def stored_elements(path: Path) -> int:
    """Return the number of elements in a safetensors file, from its header."""
    from safetensors import safe_open

    with safe_open(path, framework="pt") as file:
        return sum(math.prod(file.get_slice(name).get_shape()) for name in file.keys())  # noqa: SIM118


@contextmanager
def built_for(elements: int) -> Iterator[None]:
    """Build modules within this block for a file of so many numbers.

    Random initial values are skipped, so that parameters stay uninitialised; buffers and constants are set.

    Raises:
        MemoryError: from the block, as soon as there are far more parameters, before they are filled.
    """
    left = _FACTOR * elements + _ROOM

    def count(_module: nn.Module, name: str, tensor: Tensor | None) -> None:
        nonlocal left
        left -= 0 if tensor is None else tensor.numel()
        if left < 0:
            raise MemoryError(f"sizes ask for far more than the {elements:,} numbers that are stored")

    hooks = (
        modules.register_module_parameter_registration_hook(count),
        modules.register_module_buffer_registration_hook(count),
    )
    try:
        with _SkipRandomInit():
            yield
    finally:
        for hook in hooks:
            hook.remove()


def check_unpacked(file: BinaryIO) -> None:
    """Refuse a file of weights that is small on the disk and large in memory; it is then at its start.

    Raises:
        ValueError: it is a zip with compressed members, which torch never writes, or has a very long header.
    """
    file.seek(0)
    start = file.read(9)
    if start[8:] == b"{" and int.from_bytes(start[:8], "little") > _HEADER:  # of safetensors
        raise ValueError("its header is too long")
    try:
        if zipfile.is_zipfile(file) and any(one.compress_type for one in zipfile.ZipFile(file).infolist()):
            raise ValueError("it is compressed")
    except zipfile.BadZipFile as error:
        raise ValueError(str(error)) from error
    file.seek(0)


def is_stored(tensor: Tensor) -> bool:
    """Return whether a file has each number of a tensor: one that repeats its data may have any size."""
    if tensor.layout is not torch.strided or tensor.device.type != "cpu" or tensor.is_quantized:
        return False
    return tensor.numel() * tensor.element_size() <= tensor.untyped_storage().nbytes()


def load_weights(path: Path, wanted: Callable[[str], bool] = lambda name: True) -> dict[str, Tensor]:
    """Return the tensors of a file whose names are ``wanted``, by name.

    NaN or infinity is refused: it makes every answer NaN, which exceeds no threshold, so that a report would
    claim that nothing changed.

    Raises:
        ModelFolderInvalid: a tensor holds NaN or infinity, also as float32; the message names it.
        OSError, SafetensorError: the file cannot be read.
    """
    from safetensors import safe_open

    with safe_open(path, framework="pt") as file:
        state = {name: file.get_tensor(name) for name in file.keys() if wanted(name)}  # noqa: SIM118
    for name, value in state.items():
        numbers = value.float()
        # The sum is a fast check; it can overflow for finite numbers, so those are then checked one by one.
        if not bool(numbers.sum().isfinite()) and not bool(torch.isfinite(numbers).all()):
            raise ModelFolderInvalid(
                f"{path}: the tensor {name!r} holds NaN or infinity; get an intact copy or train it again"
            )
    return state


def save_weights(state: Mapping[str, Tensor], path: Path) -> None:
    """Write tensors by name, with the usual permissions of a new file."""
    from safetensors.torch import save_file

    path.touch()
    mode = path.stat().st_mode
    save_file(dict(state), path)
    # safetensors creates files that only the owner can read.
    path.chmod(mode)


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


def check_finite(name: str, *answers: Tensor | None) -> None:
    """Refuse NaN and infinity in answers (B, ...) of the model ``name``.

    Raises:
        NonFiniteOutput: with the numbers of the pairs that have them.
    """
    for answer in answers:
        if answer is None:
            continue
        finite = answer.isfinite().reshape(len(answer), -1).all(1)
        if not bool(finite.all()):
            pairs = (~finite).nonzero().flatten().tolist()
            raise NonFiniteOutput(
                f"{name}: the network answers NaN or infinity for pair {pairs[0] + 1} of "
                f"{len(answer)}; get an intact copy of the model, or try another device",
                pairs,
            )
