"""Stack the single bands of scenes of Landsat, Sentinel-2 and the like, so that they have colours."""

import os
import re
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from workflows.files import write_together
from workflows.pairs.catalog import Scene, Stack
from workflows.pairs.delivery.contents import STACK, Content

_PARTS = ("red", "green", "blue", "nir", "swir16", "swir22")
_LANDSAT = re.compile(r"L[COTEM]0?([4-9])")


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
    from tiling import spectral_parts

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
    )
    return Stack(scene, bands)


def write_stack(stack: Stack) -> None:
    """Write the VRT of a stack."""
    from tiling import describe, stack_vrt

    text = stack_vrt({part: describe(scene.location) for part, scene in stack.bands.items()})
    write_together({Path(stack.scene.location): [text]})
