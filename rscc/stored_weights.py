"""What a file of weights holds, so that no module is built that would take much more than that.

A description of a few bytes can ask for a network of any size; the file beside it cannot lie about its own.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from torch import Tensor, nn
from torch.nn.modules import module as modules

# Not all that is built is stored: positions are computed, a weight may have two names, and a trunk is built
# whole before its last stages are cut off (ResNet-101 has 45 million numbers).
_FACTOR, _ROOM = 2, 2**26


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
        yield
    finally:
        for hook in hooks:
            hook.remove()
