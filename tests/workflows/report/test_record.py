from __future__ import annotations

import pytest
import shapely
from captioners import captioned
from scene_pairs import make_pair

from tiling import to_wgs84
from workflows.addresses import public_path, without_secrets


@pytest.mark.parametrize(
    ("address", "recorded"),
    [
        ("https://example.org/a/scene.tif?sig=abc&se=2020", "https://example.org/a/scene.tif"),
        ("/vsicurl/https://me:word@example.org/scene.tif", "/vsicurl/https://example.org/scene.tif"),
        ("s3://bucket/me@home/scene.tif", "s3://bucket/me@home/scene.tif"),
        ("https://me:w@rd@example.org/scene.tif?sig=abc", "https://example.org/scene.tif"),
        ("https://me:wo?rd@example.org/scene.tif", "https://..."),
        ("http:/example.org/scene.tif?sig=abc", "http:/example.org/scene.tif"),
        ("https:/me:w@rd@example.org/scene.tif#x", "https:/example.org/scene.tif"),
        ("/vsis3/bucket/scene.tif?sig=abc", "/vsis3/bucket/scene.tif"),
        ("/vsicurl/https://host/a.tif?x=1#y", "/vsicurl/https://host/a.tif"),
        ("ftp://me:word@host/a.tif?x=1", "ftp://host/a.tif"),
        ("/vsicurl?header.Authorization=abc&url=https://me:word@example.org/scene.tif", "/vsicurl"),
    ],
)
def test_addresses_are_recorded_without_secrets(address, recorded):
    assert public_path(address) == recorded
    assert without_secrets(f"a.tif: see '{address}'.") == f"a.tif: see '{recorded}'."


def test_a_message_has_no_secrets_wherever_an_address_stands():
    text = "is it [https://h/a.tif,https://{}h/b.tif{}], or:/vsis3/b/c.tif{}: no, me@home/d?"
    assert without_secrets(text.format("me:w@rd@", "?sig=abc", "?sig=abc")) == text.format("", "", "")


def ground_of(pair, **options):
    return captioned(pair, **options).run["ground"]


@pytest.mark.slow
def test_the_ground_is_what_both_scenes_show_whatever_changed_on_it(tmp_path):
    pair = make_pair(tmp_path, [(40, 50, 30, 50, 240)], size=(150, 210))
    ground = shapely.geometry.shape(ground_of(pair))
    whole = to_wgs84(shapely.box(500_000, 5_600_000 - 75, 500_000 + 105, 5_600_000), "EPSG:32633")
    assert ground.hausdorff_distance(whole) < 2e-7
    assert shapely.get_num_coordinates(ground) == 5
    assert ground.exterior.is_ccw
    assert ground_of(pair, bounds=ground.buffer(-0.0003).bounds) == ground_of(pair)
