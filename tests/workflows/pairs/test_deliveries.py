"""Which raster of a delivery ``rscc pairs`` takes, for the deliveries of six providers."""

from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from rasters import north_up, write_scene

from tiling import choose_bands, describe
from workflows.pairs.delivery.contents import kind_by_name
from workflows.pairs.delivery.pictures import write_stack
from workflows.pairs.folders import folder_catalog
from workflows.pairs.options import CatalogOptions

SIDE = 32
DAYS = ("20200601", "20210605")


def raster(path: Path, bands: int = 1, dtype: str = "uint16", cell: float = 10.0, **options) -> None:
    """Write a raster of the same ground whatever its pixel size."""
    side = round(SIDE * 10 / cell)
    path.parent.mkdir(parents=True, exist_ok=True)
    values = np.random.default_rng(len(path.name)).integers(1, 200, (bands, side, side)).astype(dtype)
    colors = ["gray"] if bands == 1 else None
    if path.suffix in (".jp2",):
        options["driver"] = "JP2OpenJPEG"
    write_scene(
        path, values, transform=options.pop("transform", north_up(cell=cell)), colors=colors, **options
    )


def drone(root: Path, day: str) -> None:
    folder = root / f"{day[:4]}-{day[4:6]}-{day[6:]}"
    raster(folder / "odm_orthophoto/odm_orthophoto.tif", 4, "uint8", 0.5)
    for name in ("dsm", "dtm", "hillshade"):
        raster(folder / f"odm_dem/{name}.tif", 1, "float32", 1.0)
    raster(folder / "odm_dem/dsm_colored_hillshade.tif", 3, "uint8", 1.0)


def landsat(root: Path, day: str) -> None:
    scene = f"LC08_L2SP_006066_{day}_20210825_02_T1"
    for band in (*(f"SR_B{n}" for n in range(1, 8)), "ST_B10", "QA_PIXEL", "QA_RADSAT", "SR_QA_AEROSOL"):
        raster(root / scene / f"{scene}_{band}.TIF", cell=20.0, nodata=0)
    Image.new("RGB", (SIDE, SIDE), "green").save(root / scene / f"{scene}_thumb_small.jpeg")


def sentinel(root: Path, day: str) -> None:
    granule = root / f"S2A_MSIL2A_{day}T101031_N0214_R022_T32UPU_{day}T1.SAFE/GRANULE/L2A_T32UPU_A1"
    start = f"T32UPU_{day}T101031"
    for band in ("B02", "B03", "B04", "B08", "AOT", "WVP"):
        raster(granule / f"IMG_DATA/R10m/{start}_{band}_10m.jp2")
    for cell in (10, 20):
        raster(granule / f"IMG_DATA/R{cell}m/{start}_TCI_{cell}m.jp2", 3, "uint8", float(cell))
    raster(granule / f"IMG_DATA/R20m/{start}_SCL_20m.jp2", 1, "uint8", 20.0)
    raster(granule / "QI_DATA/MSK_CLDPRB_20m.jp2", 1, "uint8", 20.0)
    raster(granule / f"QI_DATA/{start}_PVI.jp2", 3, "uint8", 20.0)


def planet(root: Path, day: str) -> None:
    start = f"{day}_101010_1040_3B"
    raster(root / f"PSScene/{start}_AnalyticMS_SR.tif", 4)
    raster(root / f"PSScene/{start}_Visual.tif", 3, "uint8")
    raster(root / f"PSScene/{start}_udm2.tif", 8, "uint8")


def maxar(root: Path, day: str) -> None:
    folder = root / f"{day[:4]}-{day[4:6]}-{day[6:]}"
    raster(folder / "10300100D7E0C100-visual.tif", 3, "uint8", 0.5)
    raster(folder / "10300100D7E0C100-ms.tif", 8, "uint16", 2.0)
    raster(folder / "10300100D7E0C100-pan.tif", 1, "uint16", 0.5)


def tiled(root: Path, day: str) -> None:
    maxar(root, day)
    folder = root / f"{day[:4]}-{day[4:6]}-{day[6:]}"
    part = np.random.default_rng(1).integers(1, 200, (1, 8 * SIDE, 8 * SIDE)).astype("uint16")
    write_scene(folder / "10300100D7E0C100-pan.tif", part, transform=north_up(cell=0.5), colors=["gray"])


def aerial(root: Path, day: str) -> None:
    raster(root / f"images/tile_{day}.tif", 3, "uint8", 0.5)
    raster(root / f"labels/tile_{day}.tif", 1, "uint8", 0.5)
    raster(root / f"images/tile_{day}_cloudmask.tif", 1, "uint8", 0.5)
    raster(root / f"images/tile_{day}_preview.tif", 3, "uint8", 5.0)


DELIVERIES = {
    drone: ("odm_orthophoto.tif", {"elevation models": 8}),
    landsat: ("_stack.vrt", {"single bands": 16, "masks, labels and quality layers": 6, "previews": 2}),
    sentinel: ("_TCI_10m.jp2", {"single bands": 8, "visual pictures": 2, "indices": 4, "previews": 2,
                               "masks, labels and quality layers": 4}),
    planet: ("_Visual.tif", {"colour pictures": 2, "masks, labels and quality layers": 2}),
    maxar: ("-visual.tif", {"colour pictures": 2, "panchromatic bands": 2}),
    tiled: ("-visual.tif", {"colour pictures": 2, "panchromatic bands": 2}),
    aerial: ("tile_", {"masks, labels and quality layers": 4, "previews": 2}),
}  # fmt: skip


@pytest.mark.parametrize("delivery", DELIVERIES, ids=lambda made: made.__name__)
def test_the_picture_of_a_delivery_is_taken(tmp_path, delivery):
    for day in DAYS:
        delivery(tmp_path / "town", day)
    catalog = folder_catalog(tmp_path / "town", CatalogOptions())
    (row,) = catalog.rows
    taken, left_out = DELIVERIES[delivery]
    assert [taken in Path(scene).name for scene in (row.before, row.after)] == [True, True]
    assert [row.date_before, row.date_after] == ["2020-06-01", "2021-06-05"]
    assert "cloudmask" not in row.before and "preview" not in row.before and "labels" not in row.before
    assert catalog.left_out() == left_out
    assert catalog.chosen and not catalog.warnings
    assert not [one for one in catalog.skipped if not one.quiet]


@pytest.mark.parametrize(("start", "red", "blue"), [("LC09_L2SP_006066_", 4, 2), ("LT05_L2SP_006066_", 3, 1)])
@pytest.mark.slow
def test_bands_are_stacked_in_the_order_of_their_sensor(tmp_path, start, red, blue):
    for day in DAYS:
        for number in (1, 2, 3, 4, 5, 7):
            raster(tmp_path / f"{start}{day}_02_T1_SR_B{number}.TIF", nodata=0)
    catalog = folder_catalog(tmp_path, CatalogOptions())
    assert len(catalog.stacks) == 2 and not Path(catalog.rows[0].before).exists()
    for stack in catalog.stacks:
        write_stack(stack)
        assert stack.bands["red"].name.endswith(f"B{red}.TIF")
        assert stack.bands["blue"].name.endswith(f"B{blue}.TIF")
    info = describe(catalog.rows[0].before)
    assert info.descriptions[:4] == ("red", "green", "blue", "nir") and info.nodata == 0
    assert choose_bands(info).numbers == (1, 2, 3)
    # Another run takes the stacks as they are.
    again = folder_catalog(tmp_path, CatalogOptions())
    assert [row.before for row in again.rows] == [row.before for row in catalog.rows] and not again.stacks


def test_bands_in_a_folder_without_rights_are_told_and_not_stacked(tmp_path, monkeypatch):
    for day in DAYS:
        sentinel_bands = (f"T32UPU_{day}T101031_{band}.tif" for band in ("B02", "B03", "B04"))
        for name in sentinel_bands:
            raster(tmp_path / name)
    monkeypatch.setattr("workflows.pairs.delivery.pictures.os.access", lambda *_: False)
    catalog = folder_catalog(tmp_path, CatalogOptions())
    assert not catalog.stacks and len(catalog.rows) == 1
    assert any(str(tmp_path) in warning for warning in catalog.warnings)


def test_names_that_are_asked_for_are_taken(tmp_path):
    for day in DAYS:
        aerial(tmp_path, day)
    catalog = folder_catalog(tmp_path, CatalogOptions(glob="*_cloudmask.tif"))
    assert [Path(row.before).name for row in catalog.rows] == ["tile_20200601_cloudmask.tif"]
    assert not catalog.chosen


def test_two_pictures_of_one_year_are_no_delivery_of_one_day(tmp_path):
    raster(tmp_path / "a_2019.tif", 3, "uint8")
    raster(tmp_path / "b_2019.tif", 3, "uint8")
    raster(tmp_path / "c_2020.tif", 3, "uint16")
    catalog = folder_catalog(tmp_path, CatalogOptions())
    assert {Path(row.before).name for row in catalog.rows} == {"a_2019.tif", "b_2019.tif"}
    (tmp_path / "c_2020.tif").unlink()
    alone = folder_catalog(tmp_path, CatalogOptions())
    assert not alone.rows and alone.left_out() == {"of an unclear order": 2}


def test_places_are_told_apart_by_ground_and_found_across_folders(tmp_path):
    for year in (2019, 2020):
        for place, east in (("a", 500_000), ("b", 510_000)):
            raster(tmp_path / f"all/{place}_{year}.tif", 3, "uint8", transform=north_up(east))
    catalog = folder_catalog(tmp_path, CatalogOptions())
    assert len({row.site for row in catalog.rows}) == 2
    for year, folder in ((2019, "first flight"), (2020, "second flight")):
        raster(tmp_path / f"flights/{folder}/x_{year}.tif", 3, "uint8")
    (row,) = folder_catalog(tmp_path / "flights", CatalogOptions()).rows
    assert (row.site, Path(row.before).name, Path(row.after).name) == ("flights", "x_2019.tif", "x_2020.tif")


@pytest.mark.parametrize("name", ["{}.tif", "{}-08-31.tif", "{}/ortho.tif"])
def test_the_date_of_a_name_counts_before_a_late_export_date_and_both_are_told(tmp_path, name):
    for year in (2015, 2017):
        path = tmp_path / "s" / name.format(year)
        raster(path, 3, "uint8", tags={"TIFFTAG_DATETIME": "2023:02:01 10:00:00"})
    catalog = folder_catalog(tmp_path, CatalogOptions())
    (row,) = catalog.rows
    assert (row.date_before[:4], row.date_after[:4]) == ("2015", "2017")
    assert all("2023-02-01" in warning and row.date_before[:4] in warning for warning in catalog.warnings[:1])
    assert len(catalog.warnings) == 2


@pytest.mark.parametrize(
    ("name", "bands", "kind"),
    [
        ("a/dtm.tif", 1, "elevation model"),
        ("a/masks/x.tif", 1, "mask"),
        ("S2_MSK_CLOUDS.tif", 1, "mask"),
        ("20JAN31101112-P2AS_R1C1-01_P001.TIF", 1, "panchromatic band"),
        ("x_ndvi.tif", 1, "index"),
        ("quicklook.png", 3, "preview"),
        ("St_Cloud_2019.tif", 3, None),
        ("town_2019.tif", 1, None),
        ("label_town.tif", 3, None),
    ],
)
def test_what_names_tell(name, bands, kind):
    assert kind_by_name(name, bands) == kind
