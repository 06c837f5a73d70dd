"""Modules built for a file of weights: none that would take much more than it holds, and no random numbers.

A description of a few bytes can ask for a network of any size; the file beside it cannot lie about its own.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from torch import Tensor, nn
from torch.nn.modules import module as modules
from torch.overrides import TorchFunctionMode

# Not all that is built is stored: positions are computed, a weight may have two names, and a trunk is built
# whole before its last stages are cut off (ResNet-101 has 45 million numbers).
_FACTOR, _ROOM = 2, 2**26
# What torch's own layers draw their first values by: methods of tensors, and the functions that come before
# these where somebody looks on. Drawing them takes longer than reading a file.
_DRAWN = frozenset(
    {Tensor.normal_, Tensor.uniform_, nn.init.normal_, nn.init.uniform_, nn.init.kaiming_uniform_}
)


class _Undrawn(TorchFunctionMode):
    """Leaves what would be filled with random numbers as it is."""

    def __torch_function__(
        self, function: Any, types: Any, arguments: tuple[Any, ...] = (), named: dict[str, Any] | None = None
    ) -> Any:
        named = named or {}
        if function in _DRAWN:
            return named["tensor"] if "tensor" in named else arguments[0]
        return function(*arguments, **named)


def stored_elements(path: Path) -> int:
    """Return how many numbers a safetensors file holds, by its header.

    Raises:
        OSError, safetensors.SafetensorError: it is missing, or its header is damaged.
    """
    from safetensors import safe_open

    with safe_open(path, framework="pt") as file:
        return sum(math.prod(file.get_slice(name).get_shape()) for name in file.keys())  # noqa: SIM118


@contextmanager
def built_for(elements: int) -> Iterator[None]:
    """Let the modules that are built within this block be such as a file of so many numbers can fill.

    Their parameters hold no values yet, but for constants; buffers are as they always are.

    Raises:
        MemoryError: from the block, as soon as there are far more, before they are given their values.
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
        with _Undrawn():
            yield
    finally:
        for hook in hooks:
            hook.remove()
