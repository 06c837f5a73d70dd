"""Tables, STAC and page of a monitor."""

import json
import re
from dataclasses import replace

import geopandas
import numpy as np
import pystac
import pytest
from painted_series import FLICKER, HOUSE, POND, SHOWN, find_squares, write_painted, write_series
from PIL import Image
from rasters import north_up
from shapely.geometry import box
from stored import assert_as_stored, contents

from workflows.errors import OptionInvalid
from workflows.monitor.monitor import run_monitor
from workflows.monitor.options import MonitorOptions
from workflows.monitor.outputs import pictures
from workflows.report.page.imagery import encoded


@pytest.fixture(scope="module")
def town(tmp_path_factory):
    folder = tmp_path_factory.mktemp("town")
    write_series(folder / "town")
    done = run_monitor([str(folder / "town")], folder / "out", MonitorOptions(), None, finder=find_squares)
    return folder / "out", done


@pytest.mark.slow
def test_outputs_are_as_stored_when_events_end_merge_and_part(tmp_path):
    """In 2019 the house grows into another and is gone later; what flickered is not seen again."""
    folder, out, other = tmp_path / "town", tmp_path / "out", (8, 18, 6)
    write_series(folder, {**SHOWN, "2018-10": (HOUSE, other), "2018-11": (HOUSE, other)})
    run_monitor([str(folder)], out, MonitorOptions(), None, finder=find_squares)
    write_painted(folder / "2019-01.tif", [HOUSE, (8, 14, 4), other, POND], hidden=[FLICKER])
    write_painted(folder / "2019-02-11.tif", [HOUSE, (8, 14, 4), other, POND])
    run_monitor([str(folder)], out, MonitorOptions(), None, finder=find_squares)
    write_series(folder, {"2020-03": (POND,), "2020-04": (POND,), "2020-05": (POND,)})
    feed = out / "feed.xml"
    run_monitor([str(folder)], out, MonitorOptions(), None, finder=find_squares, feed=feed)
    assert_as_stored("monitor", contents(out), tmp_path)


@pytest.mark.parametrize(("back", "ended"), [((), 3), ((HOUSE,), None)])
def test_what_came_back_has_no_end_on_the_page(tmp_path, back, ended):
    shown = [(), (HOUSE,), (HOUSE,), (), (), back, back]
    write_series(tmp_path / "town", {f"2018-{month:02}": one for month, one in enumerate(shown, 1)})
    options = MonitorOptions()
    done = run_monitor([str(tmp_path / "town")], tmp_path / "out", options, None, finder=find_squares)
    done.page(tmp_path / "page.html")
    (event,) = contents(tmp_path)["page.html"]["events"]
    assert event["ended"] == ended


def test_ground_without_data_does_not_make_a_picture_pale():
    values = np.random.default_rng(0).integers(4000, 6000, (3, 40, 40)).astype(np.uint16)
    valid = np.ones((40, 40), bool)
    valid[:30] = False
    values[:, ~valid] = 0
    shown = pictures._stretched(values, valid)[:, valid]
    assert shown.min() == 0 and shown.max() == 255 and 110 < shown.mean() < 145


@pytest.mark.parametrize(("width", "height"), [(0.01, 0.5), (0.5, 0.01)])
def test_no_side_of_a_picture_is_longer_than_the_most(town, width, height):
    place = replace(town[1].places[0].place, ground=box(15, 50, 15 + width, 50 + height))
    grid = pictures.frame_of(place).grid
    assert min(grid.width, grid.height) < max(grid.width, grid.height) == pictures.SIDE


def test_all_tables_hold_the_same_events(town):
    out, done = town
    tables = [
        geopandas.read_file(out / "events.gpkg", layer="events"),
        geopandas.read_parquet(out / "events.parquet"),
    ]
    tables += [geopandas.read_file(out / "events.geojson"), done.events]
    for table in tables:
        assert list(table["event_id"]) == [event.id for event in done.all_events]
        assert list(table["first_seen"]) == ["2018-05", "2018-07", "2018-09"]
        assert table.crs == "EPSG:4326"
    assert str(tables[0]["start"].dtype).startswith("datetime")


def test_the_catalog_has_a_valid_item_for_each_event(town, core_schemas):
    out, _ = town
    catalog = pystac.Catalog.from_file(str(out / "catalog.json"))
    items = list(catalog.get_items())
    assert [item.id for item in items] == ["town-1", "town-2", "town-3"]
    for item in items:
        item.validate()
        assert item.properties["version"] and item.properties["deprecated"] is False
        assert (out / "places" / "town" / "items" / item.assets["page"].href).resolve().is_file()


def test_a_page_is_written_where_it_is_asked_for(town, tmp_path):
    _, done = town
    text = done.page(tmp_path / "town.html").read_text(encoding="utf-8")
    assert "A house was built" in text and "http://" not in text.replace("http://www.w3.org", "")
    with pytest.raises(OptionInvalid, match="village"):
        done.page(tmp_path / "village.html", place="village")


def test_texts_of_strangers_cannot_leave_their_place(tmp_path):
    folder = tmp_path / "a<script>b"
    folder.mkdir()
    for date in ("2018-01", "2018-02"):
        write_painted(folder / f"{date} <b>.tif", [HOUSE] if date.endswith("2") else [])
    done = run_monitor([str(folder)], tmp_path / "out", MonitorOptions(), None, finder=find_squares)
    place = done.places[0].place.name
    page = (tmp_path / "out" / "places" / place / "events.html").read_text(encoding="utf-8")
    assert "<b>" not in page.partition('id="data">')[2].partition("</script>")[0]
    assert "<" not in place


def test_an_output_that_was_removed_comes_back(town):
    out, _ = town
    before = (out / "events.parquet").read_bytes()
    (out / "events.parquet").unlink()
    run_monitor([], out, MonitorOptions(), None, finder=find_squares)
    assert (out / "events.parquet").read_bytes() == before
    assert json.loads((out / "events.geojson").read_text())["features"]


def test_several_places_are_listed_with_links_to_their_pages(tmp_path, town):
    out, _ = town
    assert not (out / "index.html").exists()
    write_series(tmp_path / "both" / "town")
    write_series(
        tmp_path / "both" / "<b>&", {"2018-01": (), "2018-02": ()}, transform=north_up(x=600_000, cell=10.0)
    )
    done = run_monitor(
        [str(tmp_path / "both")], tmp_path / "out", MonitorOptions(), None, finder=find_squares
    )
    page = (tmp_path / "out" / "index.html").read_text()
    links = re.findall('href="([^"]*)"', page)
    assert len(links) == 2 == len(done.places) and links[0] == "places/town/events.html"
    assert all((tmp_path / "out" / link).is_file() for link in links)
    assert "<b>" not in page and "2 confirmed" in page


def test_pictures_beyond_the_bytes_of_a_page_are_shown_smaller_and_kept(town, tmp_path, monkeypatch):
    place, noise = town[1].places[0].place, np.random.default_rng(0)
    (tmp_path / "pictures").mkdir()
    for number, scene in enumerate(place.scenes):
        image = Image.fromarray(noise.integers(0, 255, (128, 128, 3), np.uint8)).convert("RGBA")
        image.putalpha(255 if number else 128)
        (tmp_path / "pictures" / f"{scene.key}.webp").write_bytes(encoded(image))
    whole = pictures.read_pictures(tmp_path, place.scenes)
    monkeypatch.setattr(pictures, "PAGE_BYTES", sum(map(len, whole)) // 2)
    smaller = pictures.read_pictures(tmp_path, place.scenes)
    assert all(smaller) and sum(map(len, smaller)) <= pictures.PAGE_BYTES
    pictures.make_pictures(tmp_path, place, MonitorOptions())
    for path in tmp_path.glob("pictures/*.*.webp"):
        path.write_bytes(b"kept")
    assert set(pictures.read_pictures(tmp_path, place.scenes)) == {b"kept"}
