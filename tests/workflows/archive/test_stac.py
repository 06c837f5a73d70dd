"""Items and catalog are valid STAC, relative, and say where and when."""

import json
import socket

import pystac
import pytest
import shapely
from archive_rows import change, failed_state, install, new_claim, pair_state, report
from shapely.geometry import MultiPolygon, box, mapping

from workflows.archive.layers.layers import write_layers
from workflows.archive.layers.stac import PROCESSING, pair_geometry, stac_item

pytest.importorskip("jsonschema", reason="pystac validates with jsonschema")
pytestmark = pytest.mark.usefixtures("core_schemas")


@pytest.fixture(autouse=True)
def _no_network(monkeypatch):
    monkeypatch.setattr(socket.socket, "connect", lambda *_: pytest.fail("a connection was asked for"))


def item_of(found, row=None):
    return stac_item(row or pair_state("a"), json.loads(found.encoded()))


@pytest.mark.parametrize(
    "found",
    [
        report(change()),
        report(),
        report(dates=(None, None)),
        report(change(west=179.9995), dates=("2019", None)),
        report(ground=mapping(box(12, 41, 13, 42))),
    ],
    ids=["changes", "none", "undated", "antimeridian", "ground"],
)
def test_items_are_valid(found):
    item = item_of(found)
    assert pystac.Item.from_dict(item).validate()
    assert json.loads(json.dumps(item, allow_nan=False)) == item


def test_an_item_says_what_was_found_with_what():
    item = item_of(report(change(1), change(2)))
    properties = item["properties"]
    assert (properties["rscc:changes"], properties["rscc:area_m2"], properties["gsd"]) == (2, 200.5, 0.5)
    assert properties["title"] == "Changes: a"
    assert properties["rscc:model"] == "brightness 1.2.3"
    assert properties["rscc:before"] == "/scenes/before.tif"
    assert item["stac_extensions"] == [PROCESSING]
    assert {name: value for name, value in properties.items() if name.startswith("processing:")} == {
        "processing:level": "L4",
        "processing:lineage": "Changes between two scenes, found and described by brightness 1.2.3",
        "processing:software": {"rscc": "0.1.0"},
    }
    links = {name: asset["href"] for name, asset in item["assets"].items()}
    assert links == {"changes": "./changes.geojson", "style": "./changes.qml"}


@pytest.mark.parametrize(
    ("dates", "interval"),
    [
        (("2019-08", "2020"), ("2019-08-01T00:00:00Z", "2020-12-31T23:59:59Z")),
        (("2019", "2020-02"), ("2019-01-01T00:00:00Z", "2020-02-29T23:59:59Z")),
        (("2019-08-31", "2021-01-05"), ("2019-08-31T00:00:00Z", "2021-01-05T23:59:59Z")),
        (("2021-01-05", "2019-08-31"), ("2019-08-31T00:00:00Z", "2021-01-05T23:59:59Z")),
        ((None, "2020-02"), ("0001-01-01T00:00:00Z", "2020-02-29T23:59:59Z")),
        (("2020", None), ("2020-01-01T00:00:00Z", "9999-12-31T23:59:59Z")),
        ((None, None), ("0001-01-01T00:00:00Z", "9999-12-31T23:59:59Z")),
    ],
)
def test_an_item_is_of_the_time_between_the_dates(dates, interval):
    properties = item_of(report(dates=dates))["properties"]
    assert (properties["start_datetime"], properties["end_datetime"]) == interval
    assert properties["datetime"] is None


def test_the_ground_comes_before_the_table_and_the_changes():
    ground, footprint = box(12, 41, 13, 42), box(10, 40, 14, 44)
    row = pair_state("a", footprint=shapely.to_wkb(footprint))
    found = json.loads(report(change()).encoded())
    with_ground = json.loads(report(change(), ground=mapping(ground)).encoded())
    assert pair_geometry(row, with_ground).equals(ground)
    assert pair_geometry(row, found).equals(footprint)
    assert pair_geometry(row).equals(footprint)
    assert pair_geometry(pair_state("a"), found).bounds == pytest.approx(change().geometry.bounds, abs=1e-7)
    assert pair_geometry(pair_state("a"), json.loads(report().encoded())) is None
    assert pair_geometry(failed_state("a")) is None


def test_a_box_across_180_degrees_is_narrow_and_without_changes_there_is_none():
    nowhere = item_of(report())
    assert nowhere["geometry"] is None and "bbox" not in nowhere
    cut = MultiPolygon([box(179.9, -1, 180, 1), box(-180, -1, -179.8, 1)])
    item = item_of(report(change(geometry=cut)))
    assert item["bbox"] == [179.9, -1, -179.8, 1]
    assert shapely.geometry.shape(item["geometry"]).area == pytest.approx(0.3 * 2)
    assert item["geometry"]["type"] == "MultiPolygon"


def test_the_catalog_leads_to_every_item_wherever_the_archive_lies(tmp_path):
    claim = new_claim(tmp_path / "first")
    rows = [pair_state("b"), failed_state("broken"), pair_state("a")]
    for row in rows:
        if row.state != "failed":
            install(claim, row, report(change()))
    write_layers(claim, lambda: rows)
    moved = claim.folder.path.rename(tmp_path / "moved")
    catalog = pystac.Catalog.from_file(str(moved / "catalog.json"))
    assert catalog.validate()
    items = list(catalog.get_items())
    assert [item.id for item in items] == ["b", "a"]
    assert catalog.validate_all() == 2
    for item in items:
        assert item.get_root().id == catalog.id
        assert item.get_parent().id == catalog.id
        for asset in item.get_assets().values():
            assert (moved / "pairs" / item.id / asset.href).is_file()
    # As the files say it: a reader that came by the catalog does not look where its items say that it lies.
    documents = [moved / "catalog.json", *(moved / "pairs").glob("[ab]/item.json")]
    for document in documents:
        for link in json.loads(document.read_text())["links"]:
            assert (document.parent / link["href"]).resolve(strict=True).is_relative_to(moved.resolve())
            if link["rel"] in ("root", "parent"):
                assert (document.parent / link["href"]).samefile(moved / "catalog.json")
    assert len(documents) == 3
    layers = [link.href for link in catalog.links if link.rel == "enclosure"]
    assert layers == ["./changes.parquet", "./changes.gpkg", "./summary.csv"]
    assert all((moved / href).is_file() for href in layers)
    assert str(tmp_path) not in (moved / "catalog.json").read_text()
