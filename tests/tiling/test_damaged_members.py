"""Members of archives whose packed bytes are damaged: refused in one line."""

from __future__ import annotations

import zipfile

import numpy as np
import pytest
from rasters import write_scene

from tiling import TilingError, describe


def test_a_member_of_an_archive_whose_packed_bytes_are_damaged(tmp_path):
    noise = np.random.default_rng(1).integers(0, 255, (3, 200, 200), np.uint8)
    write_scene(tmp_path / "a.tif", noise)
    with zipfile.ZipFile(tmp_path / "a.zip", "w", zipfile.ZIP_DEFLATED) as archive:
        archive.write(tmp_path / "a.tif", "a.tif")
    sound = (tmp_path / "a.zip").read_bytes()
    for place in range(40, len(sound) - 120, 1009):
        content = bytearray(sound)
        content[place : place + 60] = b"\xff" * 60
        (tmp_path / "a.zip").write_bytes(content)
        with pytest.raises(TilingError, match=r"a\.zip") as caught:
            describe(tmp_path / "a.zip")
        assert "\n" not in str(caught.value)
