"""Files of arrays that are computed once; a file's name is a hash of everything its content depends on."""

import hashlib
import json
import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import numpy as np
from filelock import FileLock
from torch import nn

from rscc.data.pairs import PairRecord
from rscc.files import atomic_write

Progress = Callable[[int, int], None]
"""Called with (finished, all) pairs."""


def stored_arrays(
    shapes: Mapping[Path, tuple[int, ...]], compute: Callable[[Sequence[np.ndarray]], None]
) -> list[np.ndarray]:
    """Open float16 arrays from files, and compute them first if one is missing.

    Args:
        shapes: file to shape; all files lie in one folder.
    """
    folder = next(iter(shapes)).parent
    folder.mkdir(parents=True, exist_ok=True)
    with FileLock(folder / ".lock"):  # of several runs one computes, the others wait and open the files
        if not all(path.is_file() for path in shapes):
            with atomic_write(*shapes) as drafts:
                arrays = [_new_array(*item) for item in zip(drafts, shapes.values(), strict=True)]
                compute(arrays)
                for array in arrays:
                    array.flush()
    return [np.load(path, mmap_mode="r") for path in shapes]


def _new_array(path: Path, shape: tuple[int, ...]) -> np.memmap:
    """Create a file with room for all of it: writing to a map on a full disk would kill the process."""
    array = np.lib.format.open_memmap(path, mode="w+", dtype=np.float16, shape=shape)
    if hasattr(os, "posix_fallocate"):
        with path.open("rb+") as file:
            os.posix_fallocate(file.fileno(), 0, path.stat().st_size)
    return array


def identity_key(identity: Mapping[str, object]) -> str:
    """Return a short hash of plain values."""
    return hashlib.sha256(json.dumps(identity, sort_keys=True).encode()).hexdigest()[:16]


def weights_digest(module: nn.Module) -> str:
    """Return a short hash of the weights of a module."""
    digest = hashlib.sha256()
    for name, value in sorted(module.state_dict().items()):
        digest.update(name.encode())
        digest.update(value.detach().float().cpu().numpy().tobytes())
    return digest.hexdigest()[:16]


def images_digest(records: Sequence[PairRecord]) -> str:
    """Return a hash of the names, sizes and times of the image files."""
    paths = (path for record in records for path in (record.before, record.after))
    return hashlib.sha256("\n".join(map(_describe_file, paths)).encode()).hexdigest()


def _describe_file(path: Path) -> str:
    try:
        status = path.stat()
    except OSError:  # reported when the file is read
        return str(path)
    return f"{path} {status.st_size} {status.st_mtime_ns}"
