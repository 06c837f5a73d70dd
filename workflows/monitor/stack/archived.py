"""The maps of an archive, which a series takes in place of running the network.

They are copied, since the archive may come from anybody, and the copy is checked: it must be of this model,
of the ground of both scenes, complete and undamaged. Maps on other pixels of that ground are moved by less
than a pixel, onto those of the series.
"""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import TYPE_CHECKING

from rscc.files import atomic_write, parsed_json, read_file
from tiling import Grid, TilingError, open_regular, plan_frame
from workflows.archive.folder import writing
from workflows.errors import MapsUnusable
from workflows.monitor.events import Pair, Series, map_key
from workflows.options import SceneOptions
from workflows.report.record import model_record
from workflows.scene.map_description import ABOUT
from workflows.scene.maps import EVIDENCE, PROBABILITY, ChangeMaps, read_maps
from workflows.scene.network.detect import answers_of
from workflows.scene.resolution import planned_gsd

if TYPE_CHECKING:
    from rscc.captioner import Captioner

# Bytes of a raster: so many for a pixel, and for all that does not grow with the pixels.
_PIXEL_BYTES, _OTHER_BYTES = 32, 2**20
# Pixels by which grids of the same ground may differ.
_OFF = 2


def is_left_out(series: Series, pair: Pair) -> bool:
    """Return whether both scenes are of an archive that did not compare them."""
    name = map_key(*(series.scenes[number].key for number in pair))
    return name not in series.archived and series.archived_keys.issuperset(name.split("-"))


def adopted_maps(
    series: Series, pair: Pair, place: Path, options: SceneOptions, captioner: Captioner
) -> ChangeMaps | None:
    """Copy the maps of a pair from an archive; None where it has none that can be used.

    Args:
        place: folder for the copy, which does not exist.

    Raises:
        TooCoarse: the model is not meant for the scenes.
        OutputNotWritable: the system refused.
    """
    scenes = [series.scenes[number] for number in pair]
    source = series.archived.get(map_key(*(scene.key for scene in scenes)))
    if source is None:
        return None
    first, second = (scene.info for scene in scenes)
    try:
        gsd = planned_gsd((first, second), captioner.card, options)
        grid = plan_frame(first, second, gsd=gsd, lattice=series.scenes[0].info).grid
        with writing(place):
            place.mkdir(parents=True)
        most = _OTHER_BYTES + _PIXEL_BYTES * grid.width * grid.height
        for name in (PROBABILITY, EVIDENCE):
            _copy(source / name, place / name, most)
        about = parsed_json(read_file(_unlinked(source / ABOUT)))
        with atomic_write(place / ABOUT) as (draft,):
            draft.write_text(json.dumps(about), encoding="utf-8")
        maps = read_maps(place)
        answers, rules = answers_of(captioner, options)
        wanted = {"model": model_record(captioner.card), "answers": answers, "rules": rules}
        if {name: maps.about.get(name) for name in wanted} != json.loads(json.dumps(wanted)):
            raise ValueError("of another model")
        about["grid"]["anchor"] = _anchor(maps, grid)
        if not (maps.is_complete and all(map(maps.is_finished, maps.rows))):
            raise ValueError("damaged")
        maps.close()
        with atomic_write(place / ABOUT) as (draft,):
            draft.write_text(json.dumps(about), encoding="utf-8")
        return read_maps(place)
    except (OSError, ValueError, TypeError, KeyError, AttributeError, MapsUnusable, TilingError):
        shutil.rmtree(place, ignore_errors=True)
        return None


def _unlinked(path: Path) -> Path:
    if path.is_symlink():
        raise ValueError("a link")
    return path


def _copy(source: Path, target: Path, most: int) -> None:
    """Copy a plain file of at most so many bytes; a missing one is left out."""
    if not _unlinked(source).exists():
        return
    with open(source, "rb", opener=open_regular) as file, target.open("xb") as copy:
        left = most
        while block := file.read(2**22):
            left -= len(block)
            if left < 0:
                raise ValueError("too large")
            copy.write(block)


def _anchor(maps: ChangeMaps, grid: Grid) -> list[int]:
    """Return where maps lie on the pixels of a series; raises ValueError where they show other ground."""
    own = maps.frame.grid
    col = (own.transform.c - grid.transform.c) / grid.transform.a
    row = (own.transform.f - grid.transform.f) / grid.transform.e
    finer = (abs(own.transform.a / grid.transform.a - 1), abs(own.transform.e / grid.transform.e - 1))
    drift = max(finer) * max(grid.width, grid.height)
    off = (col, row, own.width - grid.width, own.height - grid.height, drift)
    if own.crs != grid.crs or not max(map(abs, off)) <= _OFF:
        raise ValueError("of other ground")
    return [grid.anchor[0] + round(col), grid.anchor[1] + round(row)]
