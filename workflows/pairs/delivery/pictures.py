"""Choose the picture of each delivery: of several rasters of one day and ground, the one to compare.

Single bands of scenes of Landsat, Sentinel-2 and the like are stacked, so that they have colours.
"""

import os
import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from pathlib import Path

import numpy as np
import shapely

from tiling import describe, spectral_parts, stack_vrt
from workflows.files import write_together
from workflows.pairs.catalog import Scene, Skipped, Stack
from workflows.pairs.delivery.contents import NO_PICTURES, PLURALS, STACK, Content
from workflows.printable import listed

_SAME_GROUND = 0.5
"""Share of the smaller raster that lies in the better one, if both are of one delivery."""
_EXAMPLES = 2
Dropped = tuple[Scene, Scene]
"""A raster, and the better one of its delivery."""
_PARTS = ("red", "green", "blue", "nir", "swir16", "swir22")
_LANDSAT = re.compile(r"L[COTEM]0?([4-9])")


@dataclass(frozen=True)
class Pictures:
    """The pictures of deliveries.

    Attributes:
        scenes: one for each date and ground, but where several are equally good.
        skipped: the other rasters.
        stacks: those of ``scenes`` that have to be written first.
        chosen: what was chosen and why, a line for each kind of choice.
        warnings: what is doubtful about dates, and why some bands are not stacked.
    """

    scenes: Sequence[Scene]
    skipped: Sequence[Skipped] = ()
    stacks: Sequence[Stack] = ()
    chosen: Sequence[str] = ()
    warnings: Sequence[str] = ()
    rasters: int = 0


def pictures_of(rasters: Sequence[Scene]) -> Pictures:
    """Return the pictures among the rasters of a folder, dated and undated.

    Masks, elevation models, indices and previews are no pictures. Of rasters of one date and ground the best
    is taken: visual, other colours, a stack of single bands, panchromatic, one band; of these the finest.
    """
    stacks, warnings = stacks_of([scene for scene in rasters if scene.date])
    there = {scene.location for scene in rasters}
    stacks = [stack for stack in stacks if stack.scene.location not in there]
    best, dropped = _best([*rasters, *(stack.scene for stack in stacks)])
    kept = [scene for scene in best if _kind(scene) not in NO_PICTURES]
    others = [scene for scene in best if _kind(scene) in NO_PICTURES]
    used = {scene.location for scene in kept}
    # A stack that is not needed is no file.
    dropped = [(scene, better) for scene, better in dropped if _kind(scene) != STACK]
    skipped = [left_out(scene.name, _kind(scene)) for scene in others]
    skipped += [
        Skipped(
            PLURALS[_kind(scene)], scene.name, f"left out for {better.name}, a {_kind(better)}", quiet=True
        )
        for scene, better in dropped
    ]
    chosen = list(_chosen(dropped))
    if others:
        words, names = _numbered(Counter(map(_kind, others))), _listed([scene.name for scene in others])
        chosen.append(f"none of {words} ({names}), no pictures; --glob NAMES takes them")
    return Pictures(kept, skipped, [one for one in stacks if one.scene.location in used], chosen, warnings)


def left_out(name: str, kind: str) -> Skipped:
    """Return why a raster that is no picture is left out."""
    return Skipped(PLURALS[kind], name, f"left out, its name says that it is no picture: {kind}", quiet=True)


def _kind(scene: Scene) -> str:
    return "" if scene.content is None else scene.content.kind


def _best(scenes: Sequence[Scene]) -> tuple[list[Scene], list[Dropped]]:
    """Divide scenes into those to compare, and those for which there is a better one."""
    groups: dict[tuple[str, ...], list[Scene]] = defaultdict(list)
    for scene in scenes:
        # Rasters of one year need not be of one day: they are of one delivery only within a folder.
        folder = () if len(scene.date) == 10 else (os.path.dirname(scene.location),)
        groups[(scene.date, *folder)].append(scene)
    kept: list[Scene] = []
    dropped: list[Dropped] = []
    for (date, *_), members in groups.items():
        if not date:
            kept += members
            continue
        best: list[Scene] = []
        for _, equals in groupby(sorted(members, key=_rank), key=_rank):
            better = _better(best, list(equals))
            best += [scene for scene, other in better if other is None]
            dropped += [(scene, other) for scene, other in better if other is not None]
        kept += best
    return kept, dropped


def _rank(scene: Scene) -> tuple[float, ...]:
    if scene.content is None:
        return ()
    return scene.content.rank if len(scene.date) == 10 else scene.content.rank[:1]


def _better(best: Sequence[Scene], scenes: Sequence[Scene]) -> list[tuple[Scene, Scene | None]]:
    """Return each of ``scenes`` with the one of ``best`` that shows its ground."""
    if not best:
        return [(scene, None) for scene in scenes]
    grounds = np.array([scene.footprint for scene in best], dtype=object)
    tree, areas = shapely.STRtree(grounds), shapely.area(grounds)
    pairs: list[tuple[Scene, Scene | None]] = []
    for scene in scenes:
        near = np.sort(tree.query(scene.footprint))
        common = shapely.area(shapely.intersection(grounds[near], scene.footprint))
        same = near[common >= _SAME_GROUND * np.minimum(areas[near], scene.footprint.area)]
        pairs.append((scene, best[int(same[0])] if len(same) else None))
    return pairs


def _chosen(dropped: Iterable[Dropped]) -> Iterator[str]:
    """Yield what was taken in place of what, by kind of the former."""
    kinds = sorted(dropped, key=lambda pair: _kind(pair[1]))
    for kind, pairs in groupby(kinds, key=lambda pair: _kind(pair[1])):
        members = list(pairs)
        taken = list(dict.fromkeys(better.name for _, better in members))
        yield f"{_numbered({kind: len(taken)})} ({_listed(taken)}), not {_numbered(_counts(members))}"


def _counts(dropped: Iterable[Dropped]) -> Counter[str]:
    return Counter(
        f"coarser {_kind(scene)}" if _kind(scene) == _kind(better) else _kind(scene)
        for scene, better in dropped
    )


def _numbered(counts: dict[str, int]) -> str:
    words = []
    for kind, count in counts.items():
        plain = kind.removeprefix("coarser ")
        words.append(f"{count:,} {kind if count == 1 else kind[: -len(plain)] + PLURALS[plain]}")
    return ", ".join(words)


def _listed(names: Sequence[str]) -> str:
    return listed(list(dict.fromkeys(name.rpartition("/")[2] for name in names)), _EXAMPLES)


def stacks_of(scenes: Sequence[Scene]) -> tuple[list[Stack], list[str]]:
    """Return the scenes whose bands show red, green and blue on one grid; and why some cannot be stacked."""
    groups: dict[tuple[object, ...], list[Scene]] = defaultdict(list)
    for scene in scenes:
        if scene.content is not None and scene.content.band:
            groups[(os.path.dirname(scene.location), scene.date, *scene.content.scene)].append(scene)
    stacks, warnings = [], []
    for members in groups.values():
        stack, folder = _stack(members), os.path.dirname(members[0].location)
        if stack is not None and not os.access(folder, os.W_OK):
            warnings.append(
                f"{folder}: its bands are not stacked, since nothing can be written there; copy the folder, "
                "or build a VRT with gdalbuildvrt -separate"
            )
        elif stack is not None:
            stacks.append(stack)
    return stacks, warnings


def _stack(members: Sequence[Scene]) -> Stack | None:
    contents = [scene.content for scene in members if scene.content is not None]
    landsat = _LANDSAT.match(os.path.basename(members[0].location))
    numbers = spectral_parts([content.band for content in contents], int(landsat[1]) if landsat else None)
    bands = {part: members[numbers[part] - 1] for part in _PARTS if part in numbers}
    if not {*_PARTS[:3]} <= bands.keys():
        return None
    red, prefix = bands["red"], contents[0].scene[0]
    name = f"{prefix}_stack.vrt" if prefix else "stack.vrt"
    scene = replace(
        red,
        name="/".join([*red.name.split("/")[:-1], name]),
        location=os.path.join(os.path.dirname(red.location), name),
        content=Content(STACK, contents[0].gsd),
        info=None,
    )
    return Stack(scene, bands)


def write_stack(stack: Stack) -> None:
    """Write the VRT of a stack."""
    text = stack_vrt({part: describe(scene.location) for part, scene in stack.bands.items()})
    write_together({Path(stack.scene.location): [text]})
