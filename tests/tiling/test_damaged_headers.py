"""Headers of strangers that say what cannot be: an ordinary error that names the file, or the rest of them.

What a VRT asks of its sources can even end the process, so it is asked for in another one.
"""

import struct
import subprocess
import sys

import numpy as np
import pytest
from rasters import (
    band,
    gcp_list,
    refused_file,
    source,
    textured,
    write_bands,
    write_scene,
    write_vrt,
)

from tiling import (
    MissingGeoreferencing,
    SceneDamaged,
    SceneTooLarge,
    UnsafeReference,
    describe,
)

IMAGE = textured(40, 60)
READ = """import sys
from tiling import ScenePair
for path in sys.argv[1:]:
    try:
        ScenePair.open(path, path)
    except Exception as error:
        print(error)
"""


# Bands that are not there


def write_wish(folder, wish):
    """A VRT of which every band is what ``wish`` says of a.tif."""
    name = f"{wish.strip() or 'none'}.vrt"
    return write_bands(folder / name, "".join(band(n, source("a.tif", wish)) for n in (1, 2, 3)))


@pytest.mark.slow
def test_a_vrt_does_not_ask_for_bands_that_its_source_lacks(folder):
    """The mask of a band that is not there ends GDAL, and the process with it."""
    paths = [write_wish(folder, wish) for wish in ("mask,4", "mask,9", " mask,999999 ", "4", "9")]
    done = subprocess.run([sys.executable, "-c", READ, *paths], capture_output=True, text=True)
    assert done.returncode == 0 and done.stdout.count("the VRT asks for band") == len(paths)
    for path in paths:
        refused_file(SceneDamaged, path)


@pytest.mark.parametrize("wish", ["mask,x", "mask,-1", "-1", "1.5", "mask,1,2", "overview", "1" * 40])
def test_a_vrt_asks_for_bands_by_number(folder, wish):
    refused_file(UnsafeReference, write_wish(folder, wish))


# Masks and palettes


def write_mask(path, flags, size=(40, 60)):
    """Write a mask beside a raster; ``flags`` is what it says of itself, band by band."""
    tags = {f"INTERNAL_MASK_FLAGS_{number}": flag for number, flag in enumerate(flags, start=1)}
    mask = write_scene(path.with_name("mask.tif"), np.full((1, *size), 255, np.uint8), tags=tags)
    mask.rename(path.with_name(f"{path.name}.msk"))


def test_a_mask_that_lacks_bands_is_damaged(folder):
    path = folder / "a.tif"
    write_mask(path, ["2", "2", "2"])
    assert describe(path).masked_by == "mask"
    write_mask(path, ["2", "x", "-1"])
    refused_file(SceneDamaged, path)


@pytest.mark.parametrize("size", [(20, 30), (80, 120)])
def test_a_mask_of_another_size_is_refused(folder, size):
    """GDAL would lay its first pixels on those of the scene, or all of it on a part of them."""
    path = folder / "a.tif"
    write_mask(path, ["2", "2", "2"], size)
    refused_file(SceneDamaged, path, f"the mask a.tif.msk has {size[1]} x {size[0]} pixels")
    (folder / "a.tif.msk").unlink()
    write_mask(path, [], size)
    assert describe(path).unused_mask == "a.tif.msk", "it masks nothing, which is said"


# Texts


@pytest.mark.parametrize("options", [{}, {"BIGTIFF": "YES"}, {"ENDIANNESS": "BIG"}], ids=str)
def test_metadata_of_a_tiff_have_a_limit(folder, options):
    """GDAL reads them all: 200 MB of small entries took it 38 s and 3 GB."""
    limit = 4 * 2**20
    path = write_scene(folder / "much.tif", IMAGE, tags={"NOTE": "x" * (limit - 1000)}, **options)
    assert len(describe(path).tags["NOTE"]) == limit - 1000
    path = write_scene(folder / "more.tif", IMAGE, tags={"NOTE": "x" * (limit + 1000)}, **options)
    refused_file(SceneTooLarge, path)


def test_a_directory_that_is_nowhere_hides_no_metadata(folder):
    path = write_scene(folder / "more.tif", IMAGE, tags={"NOTE": "x" * 5 * 2**20})
    content = bytearray(path.read_bytes())
    (start,) = struct.unpack_from("<I", content, 4)
    (entries,) = struct.unpack_from("<H", content, start)
    struct.pack_into("<I", content, start + 2 + 12 * entries, 2**32 - 10)
    path.write_bytes(content)
    refused_file(SceneTooLarge, path)


@pytest.mark.timeout(60)
@pytest.mark.parametrize("length", [0, 1, 7, 18, 2**32 - 1])
@pytest.mark.parametrize("box", [b"lbl ", b"asoc"])
def test_a_box_of_a_jpeg_2000_without_end_is_not_read_for_ever(folder, box, length):
    path = write_scene(folder / "a.jp2", textured(40, 40), driver="JP2OpenJPEG")
    content = bytearray(path.read_bytes())
    struct.pack_into(">I", content, content.rindex(box, 0, content.index(b"gml.root")) - 4, length)
    path.write_bytes(content)
    refused_file(SceneDamaged, path)


# Places and names


CORNERS = [(0, 0, 500_000, 5_600_000), (60, 0, 500_030, 5_600_000), (0, 40, 500_000, 5_599_980)]


@pytest.mark.parametrize("value", ["nan", "inf", "-inf", "1e308", "-1e13"])
@pytest.mark.parametrize("number", range(4), ids=["column", "row", "x", "y"])
def test_control_points_are_numbers(folder, value, number):
    describe(write_vrt(folder / "b.vrt", place=gcp_list(CORNERS)))
    point = [60, 40, 500_030, 5_599_980]
    point[number] = value
    path = write_vrt(folder / "b.vrt", place=gcp_list([*CORNERS, point]))
    refused_file(MissingGeoreferencing, path)


def test_control_points_that_make_pixels_of_no_size_are_refused(folder):
    """One point lies so far off that the transform between all of them is as good as none."""
    points = [(x, y, 500_000 + x / 2, 5_600_000 - y / 2) for y in (0, 40) for x in (0, 30, 60)]
    describe(write_vrt(folder / "b.vrt", place=gcp_list(points)))
    points[4] = (30, 274_877_906_944, *points[4][2:])
    refused_file(MissingGeoreferencing, write_vrt(folder / "b.vrt", place=gcp_list(points)))
