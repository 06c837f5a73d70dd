"""What is computed once per pair and stored in files: maps of a frozen trunk, and extracted changes.

A file's name is a hash of all that its content depends on, so that another trunk, size or image gets another.
"""

from __future__ import annotations

import hashlib
import json
import os
import zlib
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from itertools import chain
from pathlib import Path

import numpy as np
import torch
from filelock import FileLock
from torch import nn

from rscc.data.augmentation import disturb
from rscc.data.pairs import FLIPS, PairRecord, PairSample, flip_array, flip_sample, read_pair, resize_sample
from rscc.files import atomic_write
from rscc.images import resize
from rscc.models.shared.backbone import STRIDES, Backbone
from rscc.models.shared.extraction import ChangeExtractor, grid_shares
from rscc.sequences import batches


def weights_digest(module: nn.Module) -> str:
    """Return a short hash of the weights of a trunk or a head."""
    digest = hashlib.sha256()
    for name, value in sorted(module.state_dict().items()):
        digest.update(name.encode())
        digest.update(value.detach().float().cpu().numpy().tobytes())
    return digest.hexdigest()[:16]


class ExtractionCache:
    """Shares of the trunk's grid that were extracted as changed, float16, indexed by record, unflipped."""

    def __init__(self, shares: np.ndarray):
        self.shares = shares  # (N, h, w)

    @classmethod
    def join(cls, caches: Sequence[ExtractionCache]) -> ExtractionCache:
        """Return a cache of the records of all caches, one after the other."""
        return cls(np.concatenate([cache.shares for cache in caches]))

    def read(self, indices: np.ndarray, flips: Sequence[str]) -> torch.Tensor:
        """Return (B, h, w) float32 in 0..1 of record ``indices[i]`` turned by ``flips[i]``."""
        turned = [flip_array(self.shares[i], flip) for i, flip in zip(indices, flips, strict=True)]
        return torch.from_numpy(np.stack(turned).astype(np.float32))


class FeatureCache:
    """Last maps of both dates, float16, indexed by record and flip; records may have unequally many flips.

    Attributes:
        flips: the flips of the records that have most, see :data:`~rscc.data.pairs.FLIPS`; the others have
            the first ones of them.
    """

    def __init__(self, maps: Iterable[np.ndarray], flips: Sequence[str], change: Iterable[np.ndarray]):
        # Of each record (F, 2, C, h, w) float16, and (F, H / 4, W / 4) float16 or none at all.
        self._maps, self._change = list(maps), list(change)
        self.flips = tuple(flips)

    @classmethod
    def join(cls, caches: Sequence[FeatureCache]) -> FeatureCache:
        """Return a cache of the records of all caches, one after the other; nothing is copied.

        Args:
            caches: at least one, with maps of one shape; the flips of each begin those of the longest. Either
                all store the change head's maps or none.
        """
        longest = max((cache.flips for cache in caches), key=len)
        assert all(longest[: len(cache.flips)] == cache.flips for cache in caches), "flips in another order"
        maps = chain.from_iterable(cache._maps for cache in caches)
        return cls(maps, longest, chain.from_iterable(cache._change for cache in caches))

    def views(self, indices: np.ndarray) -> np.ndarray:
        """Return how many flips each of these records has, (B,)."""
        return np.array([len(self._maps[i]) for i in indices.tolist()])

    def pooled(self, weights: np.ndarray | None = None) -> np.ndarray:
        """Return (N, 2, C) float32: the maps of the first flip, averaged as by :func:`weighted_mean`."""
        means = (
            weighted_mean(record[0].astype(np.float32), None if weights is None else weights[i])
            for i, record in enumerate(self._maps)
        )
        return np.stack(list(means))

    def read(self, indices: np.ndarray, views: np.ndarray) -> np.ndarray:
        """Return (B, 2, C, h, w) float32 of record ``indices[i]`` in flip number ``views[i]``."""
        pairs = zip(indices.tolist(), views.tolist(), strict=True)
        return np.stack([self._maps[i][view] for i, view in pairs]).astype(np.float32)

    def change(self, indices: np.ndarray, views: np.ndarray) -> torch.Tensor | None:
        """Return the change head's (B, H / 4, W / 4) float32 in 0..1 as :meth:`read`; None if not stored."""
        if not self._change:
            return None
        pairs = zip(indices.tolist(), views.tolist(), strict=True)
        return torch.from_numpy(np.stack([self._change[i][view] for i, view in pairs]).astype(np.float32))


def build_feature_cache(
    backbone: Backbone,
    records: Sequence[PairRecord],
    folder: Path,
    *,
    size: int,
    flips: Sequence[str] = FLIPS,
    batch_size: int = 16,
    bf16: bool = True,
    head: nn.Module | None = None,
    disturbance: float = 0.0,
    progress: Callable[[int, int], None] | None = None,
) -> FeatureCache:
    """Compute the cache, or open the one that an earlier call left for the same trunk, files and size.

    Args:
        folder: where the files lie; about 1 MB per pair and flip at 256 px.
        size: side in pixels that images are resized to.
        head: a frozen change head whose maps are stored, too.
        disturbance: strength, 0..1, of :func:`rscc.data.augmentation.disturb` on all flips but the first.
        progress: called with (done, all) pairs.
    """
    folder.mkdir(parents=True, exist_ok=True)
    identity: dict[str, object] = {
        "backbone": weights_digest(backbone),
        "size": size,
        "flips": list(flips),
        "records": _digest_of(records),
    }
    if disturbance > 0 and len(flips) > 1:
        identity["disturbance"] = disturbance
    count = (len(records), len(flips))
    grid = trunk_grid(backbone, size)
    files: dict[Path, tuple[int, ...]] = {
        folder / f"features-{_key(identity)}.npy": (*count, 2, backbone.channels[-1], *grid)
    }
    if head is not None:
        key = _key({**identity, "head": weights_digest(head)})
        files[folder / f"change-{key}.npy"] = (*count, size // STRIDES[0], size // STRIDES[0])
    with FileLock(folder / ".lock"):  # of several runs one makes them, the others wait and open them
        if not all(path.is_file() for path in files):
            with atomic_write(*files, alone=True) as drafts:
                arrays = [_new_array(*one) for one in zip(drafts, files.values(), strict=True)]
                for start in range(0, len(records), batch_size):
                    samples = [read_pair(record) for record in records[start : start + batch_size]]
                    for view, flip in enumerate(flips):
                        turned = [flip_sample(sample, flip) for sample in samples]
                        if view:
                            turned = [_disturbed(sample, view, disturbance) for sample in turned]
                        views = _compute_maps(backbone, head, turned, size, bf16)
                        for array, values in zip(arrays, views, strict=True):
                            array[start : start + len(samples), view] = values
                    if progress is not None:
                        progress(min(start + batch_size, len(records)), len(records))
                for array in arrays:
                    array.flush()
    maps, *change = (np.load(path, mmap_mode="r") for path in files)
    return FeatureCache(maps, flips, chain.from_iterable(change))


def _new_array(path: Path, shape: tuple[int, ...]) -> np.memmap:
    """Return a new file as an array, with room for all of it: without, a write would end the process.

    Raises:
        OSError: the disk has no room for it.
    """
    array = np.lib.format.open_memmap(path, mode="w+", dtype=np.float16, shape=shape)
    if hasattr(os, "posix_fallocate"):
        with path.open("rb+") as file:
            os.posix_fallocate(file.fileno(), 0, path.stat().st_size)
    return array


def _disturbed(sample: PairSample, view: int, strength: float) -> PairSample:
    """Disturb both dates, each in its own way, the same for the same pair and view."""
    rng = np.random.default_rng((zlib.crc32(sample.id.encode()), view))
    before, after = (disturb(image, rng, strength) for image in (sample.before, sample.after))
    return replace(sample, before=before, after=after)


@torch.no_grad()
def _compute_maps(
    backbone: Backbone, head: nn.Module | None, samples: Sequence[PairSample], size: int, bf16: bool
) -> list[np.ndarray]:
    """Return the last maps (B, 2, C, h, w) of the samples, and of a head (B, H / 4, W / 4) in 0..1."""
    device = next(backbone.parameters()).device
    dates = ([s.before for s in samples], [s.after for s in samples])
    images = np.stack([resize(image, (size, size)) for images in dates for image in images])
    with torch.autocast(device.type, torch.bfloat16, enabled=bf16):
        maps = backbone(torch.from_numpy(images).to(device))
        halves = [[m[: len(samples)] for m in maps], [m[len(samples) :] for m in maps]]
        computed = [torch.stack([halves[0][-1], halves[1][-1]], dim=1)]
        if head is not None:
            computed.append(head(*halves).sigmoid())
    return [values.float().cpu().numpy() for values in computed]


def build_extraction_cache(
    extractor: ChangeExtractor,
    records: Sequence[PairRecord],
    folder: Path,
    *,
    size: int,
    grid: tuple[int, int],
    progress: Callable[[int, int], None] | None = None,
) -> ExtractionCache:
    """Extract the changes of all pairs, or open what an earlier call left for the same settings and pairs.

    Args:
        extractor: DAVIR's, Eq. 2-3.
        folder: where the file lies; half a kilobyte per pair at 256 px.
        size: side in pixels that images are resized to.
        grid: (h, w) of the trunk's last map, over which the masks are averaged.
        progress: called with (done, all) pairs.
    """
    folder.mkdir(parents=True, exist_ok=True)
    identity = {
        "extractor": extractor.identity,
        "size": size,
        "grid": list(grid),
        "records": _digest_of(records),
    }
    path = folder / f"extracted-{_key(identity)}.npy"
    with FileLock(folder / ".lock"):  # of several runs one makes it, the others wait and open it
        if not path.is_file():
            shares = np.zeros((len(records), *grid), dtype=np.float16)
            for i, record in enumerate(records):
                sample = resize_sample(read_pair(record), size)
                shares[i] = grid_shares(extractor(sample.before, sample.after)[None], grid)[0]
                if progress is not None:
                    progress(i + 1, len(records))
            with atomic_write(path, alone=True) as (draft,), draft.open("wb") as file:
                np.save(file, shares)
    return ExtractionCache(np.load(path))


def trunk_grid(backbone: Backbone, size: int) -> tuple[int, int]:
    """Return (h, w) of the last map of images of ``size`` x ``size`` pixels."""
    device = next(backbone.parameters()).device
    with torch.no_grad():
        last = backbone(torch.zeros(1, 3, size, size, dtype=torch.uint8, device=device))[-1]
    return last.shape[-2], last.shape[-1]


def _digest_of(records: Sequence[PairRecord]) -> str:
    paths = (path for record in records for path in (record.before, record.after))
    return hashlib.sha256("\n".join(map(_file_identity, paths)).encode()).hexdigest()


def _file_identity(path: Path) -> str:
    """Return what tells a file from one that took its place."""
    try:
        status = path.stat()
    except OSError:  # reported where it is read
        return str(path)
    return f"{path} {status.st_size} {status.st_mtime_ns}"


def _key(identity: dict[str, object]) -> str:
    return hashlib.sha256(json.dumps(identity, sort_keys=True).encode()).hexdigest()[:16]


def weighted_mean(maps: np.ndarray, weights: np.ndarray | None) -> np.ndarray:
    """Average maps (..., h, w) over their positions, by weights (h, w) if there are any and one is not 0."""
    if weights is None or not weights.any():
        return maps.mean((-2, -1))
    shares = weights.astype(np.float32) / weights.sum(dtype=np.float32)
    return (maps * shares).sum((-2, -1))


def pooled_features(
    backbone: Backbone,
    records: Sequence[PairRecord],
    *,
    size: int,
    batch_size: int = 16,
    bf16: bool = True,
    weights: np.ndarray | None = None,
) -> np.ndarray:
    """Return (N, 2, C) float32: the trunk's last map of both dates of each pair, averaged over its positions.

    Args:
        size: side in pixels that images are resized to.
        weights: (N, h, w) of the positions, see :func:`weighted_mean`.
    """
    means: list[np.ndarray] = []
    for part in batches(records, batch_size):
        (maps,) = _compute_maps(backbone, None, [read_pair(record) for record in part], size, bf16)
        for pair in maps:
            means.append(weighted_mean(pair, None if weights is None else weights[len(means)]))
    return np.stack(means)
