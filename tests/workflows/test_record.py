from __future__ import annotations

import pytest

from workflows.record import public_path


@pytest.mark.parametrize("path", ["scene.tif", "../a b/scene?.tif", "C:/x/scene#1.tif", "me@home/scene.tif"])
def test_paths_are_recorded_as_given(path):
    assert public_path(path) == path


@pytest.mark.parametrize(
    ("address", "recorded"),
    [
        ("https://example.org/a/scene.tif?sig=abc&se=2020", "https://example.org/a/scene.tif"),
        ("/vsicurl/https://me:word@example.org/scene.tif", "/vsicurl/https://example.org/scene.tif"),
        ("s3://bucket/me@home/scene.tif", "s3://bucket/me@home/scene.tif"),
    ],
)
def test_addresses_are_recorded_without_secrets(address, recorded):
    assert public_path(address) == recorded
