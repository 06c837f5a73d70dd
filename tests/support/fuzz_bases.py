"""Sound folders that the command works on, to be damaged file by file."""

from __future__ import annotations

import hashlib
import json
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from unittest.mock import patch

import numpy as np
import rasterio
from archive_pairs import InlineEngine
from captioners import BrightnessCaptioner
from rasterio.control import GroundControlPoint
from rasters import band, north_up, source, write_bands, write_scene
from saved_models import saved
from scene_pairs import make_pair
from tiny_models import tiny_backbone

from rscc.models import backbones
from workflows.cli import batch
from workflows.cli.app import main

CHANGES = [(10, 10, 12, 14, 230), (40, 50, 15, 10, 20)]
SIZE = (64, 80)
REPORT = "report.geojson"


@dataclass(frozen=True)
class Base:
    """A sound folder and what is run in it.

    Attributes:
        name: of the kind.
        folder: with everything that the command reads; it is copied for each case.
        mutable: names of the files that are damaged, within the folder.
        words: of the command.
        output: what the command writes; None: nothing, or a whole archive.
        mend: called with the folder after the damage, to let it get past a hash.
    """

    name: str
    folder: Path
    mutable: tuple[str, ...]
    words: tuple[str, ...]
    output: str | None = None
    mend: Callable[[Path], None] | None = None


CAPTION = ("caption", "before.{}", "after.{}", "-o", REPORT, "-q")
HOSTS = {"tif": "GTiff", "png": "PNG", "jpg": "JPEG", "jp2": "JP2OpenJPEG"}


def all_bases(root: Path) -> list[Base]:
    """Make all bases under ``root``, which exists."""
    bases = [_host(root, suffix, driver) for suffix, driver in HOSTS.items()]
    bases += [_inspected(root), _vrt(root), _sidecars(root), _control_points(root), _zip(root)]
    bases += [_table(root, "csv"), _table(root, "parquet"), _stac(root), _dated(root)]
    bases += [_report(root), _report(root, "convert"), _index(root), _batch(root)]
    bases += [_model(root), _model(root, "verify")]
    return bases


def run(words: tuple[str, ...]) -> None:
    """Run the command in this process, with a model without weights unless a folder of one is named."""
    with (
        patch.dict(backbones.BACKBONES, tiny=tiny_backbone),
        patch.object(batch, "_engine", lambda *_: InlineEngine()),
    ):
        if "--model" in words:
            main(list(words))
        main(
            list(words),
            captioner_factory=lambda model, device: BrightnessCaptioner(),
            card_factory=lambda model: BrightnessCaptioner().card,
        )


def _folder(root: Path, name: str) -> Path:
    folder = root / name
    folder.mkdir()
    return folder


def _words(suffix: str) -> tuple[str, ...]:
    return tuple(word.format(suffix) for word in CAPTION)


def _host(root: Path, suffix: str, driver: str) -> Base:
    """Two scenes of one format; those that keep no place have it beside them."""
    folder = _folder(root, suffix)
    pair = make_pair(folder, CHANGES, size=SIZE)
    mutable = [f"before.{suffix}", f"after.{suffix}"]
    for path in (pair.before, pair.after):
        if driver != "GTiff":
            with rasterio.open(path) as scene:
                place = {"crs": scene.crs, "transform": scene.transform}
                write_scene(path.with_suffix(f".{suffix}"), scene.read(), driver=driver, **place)
            path.unlink()
            mutable += [side.name for side in folder.glob(f"{path.stem}.*.aux.xml")]
    return Base(suffix, folder, tuple(mutable), _words(suffix), REPORT)


def _inspected(root: Path) -> Base:
    folder = _folder(root, "inspect")
    make_pair(folder, CHANGES, size=SIZE)
    return Base("inspect", folder, ("before.tif", "after.tif"), ("inspect", "before.tif", "after.tif"))


def _vrt(root: Path) -> Base:
    folder = _folder(root, "vrt")
    make_pair(folder, CHANGES, size=SIZE)
    for name in ("before", "after"):
        whole = 'xOff="0" yOff="0" xSize="80" ySize="64"'
        rects = f"<SrcRect {whole}/><DstRect {whole}/>"
        sources = [source(f"{name}.tif", number, more=rects) for number in (1, 2, 3)]
        bands = [band(n, f"<NoDataValue>7</NoDataValue>{one}") for n, one in enumerate(sources, start=1)]
        write_bands(folder / f"{name}.vrt", "".join(bands), (80, 64))
    return Base("vrt", folder, ("before.vrt", "after.vrt"), _words("vrt"), REPORT)


def _sidecars(root: Path) -> Base:
    """A scene whose nodata, place and mask lie beside it."""
    folder = _folder(root, "sidecars")
    make_pair(folder, CHANGES, size=SIZE)
    with rasterio.open(folder / "after.tif", "r+") as scene:
        scene.write_mask(np.full(SIZE, 255, np.uint8))
    (folder / "before.tif.aux.xml").write_text(
        '<PAMDataset><SRS>EPSG:32633</SRS><Metadata><MDI key="ACQUISITIONDATE">2019-05-06</MDI></Metadata>'
        '<PAMRasterBand band="1"><Description>red</Description><NoDataValue>3</NoDataValue><Metadata>'
        '<MDI key="STATISTICS_MAXIMUM">255</MDI></Metadata><Offset>0</Offset><Scale>1</Scale></PAMRasterBand>'
        "</PAMDataset>"
    )
    sides = tuple(path.name for path in folder.iterdir() if path.suffix != ".tif")
    return Base("sidecars", folder, sides, _words("tif"), REPORT)


def _control_points(root: Path) -> Base:
    folder = _folder(root, "control-points")
    make_pair(folder, CHANGES, size=SIZE)
    points = [
        GroundControlPoint(row, col, *(north_up() * (col, row))) for row in (0, 64) for col in (0, 40, 80)
    ]
    image = np.full((3, *SIZE), 100, np.uint8)
    write_scene(folder / "before.tif", image, transform=None, gcps=points)
    return Base("control-points", folder, ("before.tif",), _words("tif"), REPORT)


def _zip(root: Path) -> Base:
    folder = _folder(root, "zip")
    make_pair(folder, CHANGES, size=SIZE)
    for name in ("before", "after"):
        shutil.make_archive(str(folder / name), "zip", folder, f"{name}.tif")
        (folder / f"{name}.tif").unlink()
    return Base("zip", folder, ("before.zip", "after.zip"), _words("zip"), REPORT)


def _pairs_table(folder: Path, name: str) -> None:
    make_pair(folder, CHANGES, size=SIZE, names=("a_2019.tif", "b_2020.tif"))
    (folder / "source.csv").write_text(
        "pair,before,after,date_before,date_after,site,footprint\n"
        'one,a_2019.tif,b_2020.tif,2019,2020,town,"POLYGON((15 50, 15.001 50, 15.001 50.001, 15 50))"\n'
        "two,a_2019.tif,missing.tif,2019-05,2020-01-02,,\n"
    )
    _quiet(folder, ("pairs", "source.csv", "-o", name))


def _quiet(folder: Path, words: tuple[str, ...]) -> None:
    """Run a command that must succeed in a folder."""
    import os

    here = Path.cwd()
    os.chdir(folder)
    try:
        run((*words, "-q"))
    except SystemExit as ended:
        assert ended.code == 0, (words, ended.code)
    finally:
        os.chdir(here)


def _table(root: Path, suffix: str) -> Base:
    folder = _folder(root, f"table-{suffix}")
    _pairs_table(folder, f"pairs.{suffix}")
    words = ("batch", f"pairs.{suffix}", "--out", "archive", "--dry-run")
    return Base(f"table-{suffix}", folder, (f"pairs.{suffix}",), words)


def _stac(root: Path) -> Base:
    folder = _folder(root, "stac")
    for year in (2019, 2020):
        make_pair(folder, [], size=SIZE, names=(f"s{year}.tif", "other.tif"))
        box = [15.0, 50.5, 15.001, 50.501]
        corners = [[box[0], box[1]], [box[2], box[1]], [box[2], box[3]], [box[0], box[3]], [box[0], box[1]]]
        item = {
            "type": "Feature", "stac_version": "1.0.0", "id": f"s{year}", "bbox": box, "links": [],
            "geometry": {"type": "Polygon", "coordinates": [corners]}, "collection": "c",
            "properties": {"datetime": f"{year}-06-01T10:00:00Z", "eo:cloud_cover": 3, "gsd": 0.5},
            "assets": {"visual": {"href": f"s{year}.tif", "type": "image/tiff", "roles": ["data"]}},
        }  # fmt: skip
        (folder / f"s{year}.json").write_text(json.dumps(item))
    links = [{"rel": "item", "href": f"./s{year}.json"} for year in (2019, 2020)]
    catalog = {"type": "Catalog", "stac_version": "1.0.0", "id": "c", "description": "d", "links": links}
    (folder / "catalog.json").write_text(json.dumps(catalog))
    names = ("catalog.json", "s2019.json", "s2020.json")
    return Base("stac", folder, names, ("pairs", "catalog.json", "-o", "pairs.csv"), "pairs.csv")


def _dated(root: Path) -> Base:
    folder = _folder(root, "dated-folder")
    make_pair(folder, [], size=SIZE, names=("a_2019.tif", "a_2020.tif"))
    words = ("pairs", ".", "-o", "pairs.csv")
    return Base("dated-folder", folder, ("a_2019.tif", "a_2020.tif"), words, "pairs.csv")


def _report(root: Path, name: str = "report") -> Base:
    folder = _folder(root, name)
    make_pair(folder, CHANGES, size=SIZE)
    _quiet(folder, ("caption", "before.tif", "after.tif", "-o", REPORT))
    if name == "convert":
        return Base(name, folder, (REPORT,), ("convert", REPORT, "changes.gpkg"), "changes.gpkg")
    return Base(name, folder, (REPORT,), ("explain", REPORT, "--id", "1"))


def _archive(root: Path, name: str) -> Path:
    folder = _folder(root, name)
    _pairs_table(folder, "pairs.csv")
    rows = (folder / "source.csv").read_text().splitlines()
    (folder / "source.csv").write_text("\n".join(rows[:2]) + "\n")
    _quiet(folder, ("batch", "source.csv", "--out", "archive"))
    return folder


def _index(root: Path) -> Base:
    folder = _archive(root, "index")
    return Base("index", folder, ("archive/index.sqlite",), ("status", "archive", "--failed"))


def _batch(root: Path) -> Base:
    """An archive to go on with, of which anything may be damaged."""
    folder = _archive(root, "archive")
    shutil.rmtree(folder / "archive" / "work", ignore_errors=True)
    names = ("index.sqlite", "run.json", "catalog.json", "pairs/one/changes.geojson", "pairs/one/item.json")
    mutable = (*(f"archive/{name}" for name in names), "source.csv")
    return Base("archive", folder, mutable, ("batch", "source.csv", "--out", "archive", "-q"))


def _model(root: Path, name: str = "model") -> Base:
    folder = _folder(root, name)
    make_pair(folder, CHANGES, size=SIZE)
    with patch.dict(backbones.BACKBONES, tiny=tiny_backbone):
        saved(folder / "model", gsd=0.5, gsd_range=(0.2, 2.0), tile_size=64)
    words = ("caption", "before.tif", "after.tif", "--model", "model", "-o", REPORT, "-q", "--device", "cpu")
    if name == "verify":
        _quiet(folder, words)
        return Base(name, folder, (REPORT, "before.tif"), ("verify", REPORT, "--model", "model"))
    names = ("model.json", "model.json", "vocabulary.json", "model.safetensors")
    return Base(name, folder, tuple(f"model/{name}" for name in names), words, REPORT, _seal)


def _seal(folder: Path) -> None:
    """Record the hashes of what is there, as who makes a model folder to harm somebody would."""
    file = folder / "model" / "model.json"
    try:
        content = json.loads(file.read_bytes())
        hashes = content["sha256"]
        for name in ("model.safetensors", "vocabulary.json"):
            hashes[name] = hashlib.sha256((file.parent / name).read_bytes()).hexdigest()
    except (ValueError, KeyError, TypeError, RecursionError):
        return
    file.write_text(json.dumps(content))
