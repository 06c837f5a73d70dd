"""Everything that a run computes once per pair and stores: trunk maps, change maps and extracted changes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

import numpy as np
import torch

from rscc.config import Config
from rscc.data.pairs import FLIPS, PairRecord, flip_array, read_pair, resize_sample
from rscc.data.trunk_maps import (
    Progress,
    identity_key,
    images_digest,
    store_trunk_maps,
    stored_arrays,
    trunk_grid,
    weighted_mean,
)
from rscc.errors import ConfigInvalid
from rscc.models.shared.captioner import ChangeCaptioner
from rscc.models.shared.extraction import ChangeExtractor, grid_shares
from rscc.structures import PairBatch

Arrays = Sequence[np.ndarray] | np.ndarray


class PairCache:
    """Stored float16 arrays of some pairs, by record; records may have different numbers of flips.

    Attributes:
        maps: of each record (F, 2, C, h, w), the trunk's last maps of both dates; empty if the trunk runs in
            every step.
        change: of each record (F, H / 4, W / 4) in 0..1, the change head's maps; empty if not used.
        extracted: of each record (h, w) in 0..1, shares of the trunk's grid cells that were extracted as
            changed (DAVIR, Eq. 2-3), unflipped; empty if not used.
        flips: the flips of the records with the most, see :data:`~rscc.data.pairs.FLIPS`; other records have
            the first of them.
    """

    def __init__(
        self, maps: Arrays = (), change: Arrays = (), extracted: Arrays = (), flips: Sequence[str] = FLIPS[:1]
    ):
        self.maps, self.change, self.extracted = list(maps), list(change), list(extracted)
        self.flips = tuple(flips)

    @classmethod
    def join(cls, parts: Sequence[PairCache]) -> PairCache:
        """Return one cache of the records of all parts, in their order; nothing is copied.

        Args:
            parts: at least one, which store the same things in maps of one shape. The flips of each are the
                first ones of the longest.
        """
        longest = max((part.flips for part in parts), key=len)
        assert all(longest[: len(part.flips)] == part.flips for part in parts), "flips in another order"
        return cls(
            [array for part in parts for array in part.maps],
            [array for part in parts for array in part.change],
            [array for part in parts for array in part.extracted],
            longest,
        )

    def views(self, indices: np.ndarray) -> np.ndarray:
        """Return the number of flips of these records, (B,)."""
        return np.array([len(self.maps[i]) for i in indices.tolist()])

    def read(self, indices: np.ndarray, views: np.ndarray) -> torch.Tensor:
        """Return (B, 2, C, h, w) float32, the maps of record ``indices[i]`` in flip number ``views[i]``."""
        return _select(self.maps, indices, views)

    def add(self, batch: PairBatch, indices: np.ndarray, views: np.ndarray) -> None:
        """Fill in everything that is stored of record ``indices[i]`` in flip number ``views[i]``."""
        batch.features = self.read(indices, views)
        if self.change:
            batch.change = _select(self.change, indices, views)
        self.add_extracted(batch, indices, [self.flips[view] for view in views.tolist()])

    def add_extracted(self, batch: PairBatch, indices: np.ndarray, flips: Sequence[str]) -> None:
        """Fill in ``extracted`` of record ``indices[i]`` flipped by ``flips[i]``, if it is stored."""
        if self.extracted:
            pairs = zip(indices.tolist(), flips, strict=True)
            flipped = [flip_array(self.extracted[i], flip) for i, flip in pairs]
            batch.extracted = torch.from_numpy(np.stack(flipped).astype(np.float32))

    def pooled(self, weights: np.ndarray | None = None) -> np.ndarray:
        """Return (N, 2, C) float32: the maps of the first flip, averaged as by :func:`weighted_mean`."""
        means = (
            weighted_mean(maps[0].astype(np.float32), None if weights is None else weights[i])
            for i, maps in enumerate(self.maps)
        )
        return np.stack(list(means))


EMPTY = PairCache()


def _select(arrays: Sequence[np.ndarray], indices: np.ndarray, views: np.ndarray) -> torch.Tensor:
    pairs = zip(indices.tolist(), views.tolist(), strict=True)
    return torch.from_numpy(np.stack([arrays[i][view] for i, view in pairs]).astype(np.float32))


def store_extracted(
    extractor: ChangeExtractor,
    records: Sequence[PairRecord],
    folder: Path,
    *,
    size: int,
    grid: tuple[int, int],
    progress: Progress = lambda finished, count: None,
) -> np.ndarray:
    """Extract the changes of N pairs, (N, h, w) float16 in 0..1, or open the file of an earlier equal call.

    The file lies in ``folder`` and takes half a kilobyte per pair at 256 px; ``grid`` is the (h, w) of the
    trunk's last map, over which the masks are averaged.
    """

    def compute(arrays: Sequence[np.ndarray]) -> None:
        for i, record in enumerate(records):
            sample = resize_sample(read_pair(record), size)
            arrays[0][i] = grid_shares(extractor(sample.before, sample.after)[None], grid)[0]
            progress(i + 1, len(records))

    identity = {
        "extractor": extractor.identity,
        "size": size,
        "grid": list(grid),
        "records": images_digest(records),
    }
    path = folder / f"extracted-{identity_key(identity)}.npy"
    (shares,) = stored_arrays({path: (len(records), *grid)}, compute)
    return shares


def fill_caches(
    model: ChangeCaptioner,
    config: Config,
    folder: Path,
    parts: Sequence[Sequence[PairRecord]],
    val: Sequence[PairRecord],
    *,
    extract: bool,
    report: Callable[[str], None],
) -> tuple[list[PairCache], PairCache]:
    """Compute or open the caches of the training pairs, part by part, and of the validation pairs.

    The first part, the data set itself, is stored in all flips. One view is enough for further parts and for
    the validation pairs, because the flips fill the disk.

    Args:
        model: its trunk is final, if it is frozen.
        parts: training pairs of the data set, then those of further folders.

    Raises:
        ConfigInvalid: features are to be cached for a model that needs images in every step.
    """
    if config.train.cache_features and model.needs_images:
        raise ConfigInvalid(
            "train.cache_features: a CLIP retriever needs the images in every step; "
            "set it to false, or model.options.retriever to 'offline'"
        )
    model.eval()
    size = config.data.size

    def progress(what: str, done: int, total: int) -> None:
        if done == total or done % 160 == 0:
            report(f"{what}: {done} of {total} pairs")

    def fill(records: Sequence[PairRecord], flips: Sequence[str]) -> PairCache:
        arrays: dict[str, Arrays] = {}
        if config.train.cache_features:
            head = model.change_head if config.model.grounded else None
            step = partial(progress, "features")
            maps = store_trunk_maps(
                model.backbone, records, folder, config, flips=flips, head=head, progress=step
            )
            arrays |= dict(zip(("maps", "change"), maps, strict=False))
        if extract and model.extractor is not None:
            extractor = model.extractor.to(next(model.parameters()).device)
            grid, step = trunk_grid(model.backbone, size), partial(progress, "extracted changes")
            arrays["extracted"] = store_extracted(
                extractor, records, folder, size=size, grid=grid, progress=step
            )
        return PairCache(**arrays, flips=flips)

    first, *others = parts
    caches = [fill(first, FLIPS if config.data.augment else FLIPS[:1])]
    caches += [fill(part, FLIPS[:1]) for part in others]
    return caches, fill(val, FLIPS[:1])
