"""Maps of a frozen trunk and its change head for the pairs of a training, stored or averaged.

A file of arrays is computed once; its name is a hash of everything that its content depends on.
"""

import hashlib
import json
import os
import zlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import torch
from filelock import FileLock
from torch import nn

from rscc.config import Config
from rscc.data.augmentation import disturb
from rscc.data.pairs import FLIPS, PairRecord, PairSample, flip_sample, read_pair
from rscc.files import atomic_write
from rscc.images import resize
from rscc.models.trunks.backbone import STRIDES, Backbone
from rscc.sequences import batches

Progress = Callable[[int, int], None]
"""Called with (finished, all) pairs."""

_BATCH = 16


def store_trunk_maps(
    backbone: Backbone,
    records: Sequence[PairRecord],
    folder: Path,
    config: Config,
    *,
    flips: Sequence[str] = FLIPS,
    head: nn.Module | None = None,
    progress: Progress = lambda finished, count: None,
) -> list[np.ndarray]:
    """Compute the maps, or open the files of an earlier call with the same trunk, images and settings.

    Args:
        folder: folder of the files; about 1 MB per pair and flip at 256 px.
        config: gives ``data.size``, ``train.bf16``, and ``data.disturb``, the strength of
            :func:`rscc.data.augmentation.disturb` on all flips but the first.
        head: a frozen change head whose maps are stored too.

    Returns:
        (N, F, 2, C, h, w) float16, and of a head (N, F, H / 4, W / 4) float16 in 0..1.
    """
    size, strength = config.data.size, config.data.disturb

    def compute(arrays: Sequence[np.ndarray]) -> None:
        done = 0
        for part in batches(records, _BATCH):
            samples = [read_pair(record) for record in part]
            for view, flip in enumerate(flips):
                flipped = [flip_sample(sample, flip) for sample in samples]
                if view:
                    flipped = [_disturbed(sample, view, strength) for sample in flipped]
                maps = _compute_maps(backbone, head, flipped, size, config.train.bf16)
                for array, values in zip(arrays, maps, strict=True):
                    array[done : done + len(part), view] = values
            done += len(part)
            progress(done, len(records))

    identity: dict[str, object] = {
        "backbone": weights_digest(backbone),
        "size": size,
        "flips": list(flips),
        "records": images_digest(records),
    }
    if strength > 0 and len(flips) > 1:
        identity["disturbance"] = strength
    count = (len(records), len(flips))
    maps_file = folder / f"features-{identity_key(identity)}.npy"
    shapes: dict[Path, tuple[int, ...]] = {
        maps_file: (*count, 2, backbone.channels[-1], *trunk_grid(backbone, size))
    }
    if head is not None:
        key = identity_key({**identity, "head": weights_digest(head)})
        shapes[folder / f"change-{key}.npy"] = (*count, size // STRIDES[0], size // STRIDES[0])
    return stored_arrays(shapes, compute)


def _disturbed(sample: PairSample, view: int, strength: float) -> PairSample:
    """Disturb both dates, each differently, but always equally for the same pair and view."""
    rng = np.random.default_rng((zlib.crc32(sample.id.encode()), view))
    before, after = (disturb(image, rng, strength) for image in (sample.before, sample.after))
    return replace(sample, before=before, after=after)


@torch.no_grad()
def _compute_maps(
    backbone: Backbone, head: nn.Module | None, samples: Sequence[PairSample], size: int, bf16: bool
) -> list[np.ndarray]:
    """Return the last maps (B, 2, C, h, w) of the samples, and of a head (B, H / 4, W / 4) in 0..1."""
    device = next(backbone.parameters()).device
    images = [sample.before for sample in samples] + [sample.after for sample in samples]
    pixels = np.stack([resize(image, (size, size)) for image in images])
    with torch.autocast(device.type, torch.bfloat16, enabled=bf16):
        maps = backbone(torch.from_numpy(pixels).to(device))
        before, after = [m[: len(samples)] for m in maps], [m[len(samples) :] for m in maps]
        computed = [torch.stack([before[-1], after[-1]], dim=1)]
        if head is not None:
            computed.append(head(before, after).sigmoid())
    return [values.float().cpu().numpy() for values in computed]


def trunk_grid(backbone: Backbone, size: int) -> tuple[int, int]:
    """Return (h, w) of the last map of images of ``size`` x ``size`` pixels."""
    device = next(backbone.parameters()).device
    with torch.no_grad():
        last = backbone(torch.zeros(1, 3, size, size, dtype=torch.uint8, device=device))[-1]
    return last.shape[-2], last.shape[-1]


def weighted_mean(maps: np.ndarray, weights: np.ndarray | None) -> np.ndarray:
    """Average maps (..., h, w) over their positions, by weights (h, w) unless None or all 0."""
    if weights is None or not weights.any():
        return maps.mean((-2, -1))
    shares = weights.astype(np.float32) / weights.sum(dtype=np.float32)
    return (maps * shares).sum((-2, -1))


def pooled_features(
    backbone: Backbone,
    records: Sequence[PairRecord],
    *,
    size: int,
    bf16: bool = True,
    weights: np.ndarray | None = None,
) -> np.ndarray:
    """Return (N, 2, C) float32: the trunk's last map of both dates of each pair, averaged over its positions.

    Images are resized to ``size``; ``weights`` (N, h, w) of the positions are as in :func:`weighted_mean`.
    """
    means: list[np.ndarray] = []
    for part in batches(records, _BATCH):
        (maps,) = _compute_maps(backbone, None, [read_pair(record) for record in part], size, bf16)
        for pair in maps:
            means.append(weighted_mean(pair, None if weights is None else weights[len(means)]))
    return np.stack(means)


def stored_arrays(
    shapes: Mapping[Path, tuple[int, ...]], compute: Callable[[Sequence[np.ndarray]], None]
) -> list[np.ndarray]:
    """Open float16 arrays of these shapes, files of one folder; compute them first if one is missing."""
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
