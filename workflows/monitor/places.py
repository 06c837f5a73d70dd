"""The places of a monitor: which scenes show which ground."""

import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import astuple, dataclass, field, replace
from functools import partial
from itertools import chain, count
from pathlib import Path
from typing import Any

import numpy as np
from rasterio.errors import RasterioError
from rasterio.windows import Window
from shapely.geometry import MultiPolygon, Polygon, shape

from tiling import SceneInfo, TileGrid, TilingError, is_address, open_scene
from workflows.addresses import public_path, unsigned
from workflows.dates import PartialDate, parse_date, scene_date
from workflows.errors import ScenesMissing
from workflows.identity import SceneIdentities
from workflows.monitor.events import Series, SeriesScene
from workflows.monitor.folder import MonitorFolder, read_state
from workflows.monitor.options import MonitorOptions
from workflows.options import SceneOptions
from workflows.pairs.catalog import Scene
from workflows.pairs.names import pair_id
from workflows.pairs.rules import place_words, share_ground
from workflows.report.geojson import geometry_member, rounded
from workflows.scenes import read_header

NAME = "place.json"
FINE = 2.0
"""Metres per pixel up to which scenes show single objects; coarser ones are another place."""
COMPARED_PX = 1024
"""Side of the squares in which two files are compared."""


@dataclass(frozen=True)
class KnownScene:
    """A scene of a place.

    Attributes:
        name: file name, with its folder where only that has the date; unique in its place and date.
        source: path or address, without signatures.
        date: ISO, as precise as known.
        key: what the scene was known by when it came, see :mod:`workflows.identity`; names its maps.
        identity: what it is known by now: another copy of its file has another time.
        content: hash of all its bytes, without the time; empty for a scene on a server.
    """

    name: str
    source: str
    date: str
    key: str
    gsd: float
    identity: str = ""
    content: str = ""

    def is_at(self, identity: str) -> bool:
        """Return whether the scene is known by an identity."""
        return identity in (self.key, self.identity)


@dataclass
class Place:
    """A place and its scenes.

    Attributes:
        ground: footprint of the scene that it began with, in degrees.
        scenes: in order of date, then of name.
        opened: how to open scenes in this run, by their sources: their headers, or signed addresses.
    """

    name: str
    ground: Polygon | MultiPolygon
    scenes: list[KnownScene]
    opened: dict[str, str | SceneInfo] = field(default_factory=dict)

    @property
    def dates(self) -> dict[str, str]:
        """The date of each scene by its name."""
        return {scene.name: scene.date for scene in self.scenes}

    @property
    def is_fine(self) -> bool:
        """Whether its scenes show single objects."""
        return self.scenes[0].gsd <= FINE

    def header(self, scene: KnownScene, options: SceneOptions) -> SceneInfo:
        """Return the header of a scene, which is read once in a run.

        Raises:
            TilingError: it cannot be opened.
        """
        info = read_header(self.opened.get(scene.source, scene.source), options)
        self.opened[scene.source] = info
        return info

    def series(self, folder: Path, options: MonitorOptions) -> Series:
        """Open the headers of all scenes.

        Raises:
            ScenesMissing: one cannot be opened any more.
        """
        scenes = []
        for scene in self.scenes:
            try:
                info = self.header(scene, options.reading)
            except TilingError as error:
                raise ScenesMissing(f"{error}; the events of {self.name} need all of its scenes") from error
            scenes.append(SeriesScene(scene.name, info, PartialDate(scene.date), scene.key))
        return Series(self.name, folder, tuple(scenes))

    def add(self, scene: KnownScene) -> None:
        """Add a scene, which replaces another version of itself; the order is that of the dates."""
        others = [
            one
            for one in self.scenes
            if one.source != scene.source and (one.name, one.date) != (scene.name, scene.date)
        ]
        self.scenes = sorted([*others, scene], key=lambda one: (PartialDate(one.date), one.name))

    def is_copied(self, content: str, date: str, source: str, identity: str) -> bool:
        """Return whether a file is a scene that was copied over itself or moved; it gets the new identity."""
        found = False
        for number, one in enumerate(self.scenes):
            if (one.content, one.date) != (content, date):
                continue
            if one.source == source or _is_gone(one.source):
                self.scenes[number], found = replace(one, identity=identity), True
        return found

    def as_dict(self) -> dict[str, Any]:
        """Return what is stored of it, as plain values."""
        ground = geometry_member(rounded(self.ground))
        return {"ground": ground, "scenes": [vars(scene) for scene in self.scenes]}


def read_places(folder: MonitorFolder) -> list[Place]:
    """Return the stored places, in order of their names."""
    return [read_state(folder.place(name) / NAME, partial(_place, name)) for name in folder.place_names()]


def _place(name: str, content: Mapping[str, Any]) -> Place:
    scenes = [KnownScene(**{**scene, "date": parse_date(scene["date"])}) for scene in content["scenes"]]
    return Place(name, shape(content["ground"]), scenes)


def add_scenes(places: list[Place], found: Sequence[Scene], options: MonitorOptions) -> Iterator[str]:
    """Add the scenes that are not known yet to the places whose ground they show; new ground is a new place.

    Yields:
        A warning for each scene that is left out; it is tried again by the next run.
    """
    identities, contents = SceneIdentities({}, False), SceneIdentities({}, True)
    ordered = sorted(found, key=lambda scene: (PartialDate(scene.date), scene.name, scene.location))
    for scene in ordered:
        source, key = unsigned(scene.location), identities.of(scene.location)
        content = ""
        known = [place for place in places if any(one.is_at(key) for one in place.scenes)]
        if not known and (content := contents.on_disk(scene.location) or ""):
            known = [place for place in places if place.is_copied(content, scene.date, source, key)]
        for place in known:
            place.opened[source] = scene.info or scene.location
            place.scenes = [
                replace(one, source=source) if one.is_at(key) and _is_gone(one.source) else one
                for one in place.scenes
            ]
        if known:
            continue
        try:
            info = read_header(scene.info or scene.location, options.reading)
        except TilingError as error:
            yield f"{error} (left out)"
            continue
        new = KnownScene(_name_of(scene), source, scene.date, key, round(info.gsd, 4), key, content)
        for place in _places_of(places, scene, info, options) or [_new_place(places, scene)]:
            twin = next((one for one in place.scenes if _is_twin(one, new)), None)
            if twin is not None:
                # The more precise date is kept, in whatever order they came.
                kept, left_out = (new, twin) if len(new.date) > len(twin.date) else (twin, new)
                same = "name" if twin.name == new.name else "pixels"
                yield (
                    f"{public_path(left_out.source)}: left out for {public_path(kept.source)}, "
                    f"of the same {same} and date"
                )
                if kept is twin:
                    continue
                place.scenes.remove(twin)
            place.add(new)
            place.opened[source] = info


def _is_gone(source: str) -> bool:
    return not is_address(source) and not os.path.exists(source)


def _is_twin(one: KnownScene, new: KnownScene) -> bool:
    """Return whether a scene that is there may be of the date of a new one, and has its name or pixels."""
    if one.source == new.source or not (one.date.startswith(new.date) or new.date.startswith(one.date)):
        return False
    if (one.name, one.date) == (new.name, new.date):
        return not _is_gone(one.source)
    are_files = not (is_address(one.source) or is_address(new.source))
    return are_files and _have_same_pixels(one.source, new.source)


def _have_same_pixels(one: str, other: str) -> bool:
    """Return whether two files hold the same values on the same ground, in whatever form they are stored."""
    with suppress(TilingError, RasterioError), open_scene(one) as first, open_scene(other) as second:
        ground, others = ((file.shape, file.crs, file.transform, file.dtypes) for file in (first, second))
        return ground == others and all(
            np.array_equal(*(file.read(window=Window(*astuple(tile.core))) for file in (first, second)))
            for tile in TileGrid(first.width, first.height, COMPARED_PX, 0)
        )
    return False


def _name_of(scene: Scene) -> str:
    """Return a file name, with its folder where only that has the date; of a STAC item its id."""
    parts = public_path(scene.name).replace("\\", "/").strip("/").split("/")
    return "/".join(parts[-1:] if scene_date(parts[-1], {}).value else parts[-2:])


def _places_of(
    places: Sequence[Place], scene: Scene, info: SceneInfo, options: MonitorOptions
) -> list[Place]:
    share, is_fine = options.min_overlap / 100, info.gsd <= FINE
    return [
        place
        for place in places
        if place.is_fine == is_fine and share_ground(place.ground, scene.footprint, share)
    ]


def _new_place(places: list[Place], scene: Scene) -> Place:
    taken, words = {place.name.lower() for place in places}, place_words(scene.footprint)
    longer = (pair_id(scene.site or "place", words, *map(str, end)) for end in chain([()], zip(count(2))))
    name = next(one for one in chain([pair_id(scene.site or words)], longer) if one.lower() not in taken)
    place = Place(name, scene.footprint, [])
    places.append(place)
    return place
