"""Tell what a raster shows from its name and header: a picture, one band, a mask, an elevation model."""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import PurePosixPath

from tiling import SceneInfo

VISUAL, COLOR, STACK = "visual picture", "colour picture", "stack of bands"
PAN, BAND = "panchromatic band", "single band"
PREVIEW, MASK, ELEVATION, INDEX = "preview", "mask", "elevation model", "index"
PICTURES = (VISUAL, COLOR, STACK, PAN, BAND)
"""Contents that can be compared, the best first."""
NO_PICTURES = (PREVIEW, INDEX, ELEVATION, MASK)
PLURALS = {
    VISUAL: "visual pictures",
    COLOR: "colour pictures",
    STACK: "stacks of bands",
    PAN: "panchromatic bands",
    BAND: "single bands",
    PREVIEW: "previews",
    INDEX: "indices",
    ELEVATION: "elevation models",
    MASK: "masks, labels and quality layers",
}

# Words of names, and of folders as a whole, in lower case. Those of the first group mean it whatever the
# number of bands; the others may be names of places in a raster of three bands.
_ALWAYS = {
    MASK: r"udm2?",
    ELEVATION: r"n?dsm|n?dtm|chm|hillshade",
    PREVIEW: r"thumb(?:nail)?s?|previews?|pvi|quicklooks?|browse",
}
_OF_ONE_BAND = {
    MASK: (
        r"scl|fmask|qa|msk|\w*masks?|labels?|labelled|gt|groundtruth|annotations?|clouds?|cld\w*|snw\w*|shadows?|quality|valid|"
        r"class(?:es|ification|ified)?|segmentation|landcover|lulc|footprints?|seamlines?"
    ),
    ELEVATION: r"dem|dhm|elevations?|heights?|slope|aspect|relief|terrain|depth",
    INDEX: r"nd[a-z]{2}|evi2?|m?savi|nbr|aot|wvp|lst|temperature|coherence|emis|emsd|atran|cdist|[dtu]rad",
    PAN: r"pan|panchromatic|p\d[a-z]{2}",
}
_FOLDERS = {MASK: r"qi_data|gts?|masks?|labels?|annotations?", ELEVATION: r"odm_dem|dsm|dtm|dem|elevation"}
_VISUAL_WORDS = r"visual|tci|rgb|truecolou?r|natural|orthophoto"
_RESOLUTION = r"(?:[_.-]\d+m)?"
_BAND_NAME = re.compile(
    r"(?:^|(?P<scene>.*)[_.-])(?P<band>(?:sr_|st_)?b(?:and)?_?\d{1,2}a?|red|green|blue|"
    rf"nir(?:0?\d)?|swir_?\d{{0,2}}|coastal|rededge\d?){_RESOLUTION}",
    re.IGNORECASE,
)


@dataclass(frozen=True)
class Content:
    """What a raster shows.

    Attributes:
        kind: one of :data:`PICTURES` or :data:`NO_PICTURES`.
        band: the name of the only band, as in the file name; empty for other contents.
        scene: the file name without the band, and the grid: equal for the bands of one scene.
    """

    kind: str
    gsd: float
    band: str = ""
    scene: tuple[str, int] = ("", 0)

    @property
    def rank(self) -> tuple[int, float]:
        """Sort key, the best picture first: colours before single bands, then the finest pixels."""
        return (*PICTURES, *NO_PICTURES).index(self.kind), float(f"{self.gsd:.2g}")


def kind_by_name(name: str, bands: int = 1) -> str | None:
    """Return what a raster with so many bands shows by its path; None if that does not tell.

    >>> kind_by_name("20200601_3B_udm2.tif", 8), kind_by_name("masks/a.tif"), kind_by_name("st_cloud.tif", 3)
    ('mask', 'mask', None)
    """
    path = PurePosixPath(name.lower())
    words = _words(path.stem)
    places = [(_ALWAYS, words)]
    if bands <= 2:
        places += [(_OF_ONE_BAND, words), (_FOLDERS, list(path.parts[:-1]))]
    kinds = (kind for patterns, named in places for kind, pattern in patterns.items() if _any(pattern, named))
    return next(kinds, None)


def _any(pattern: str, words: Iterable[str]) -> bool:
    return any(re.fullmatch(pattern, word) for word in words)


def content_of(name: str, info: SceneInfo) -> Content:
    """Return what a raster shows, from its path under its source and its header."""
    colors = [color for color in info.colors if color != "alpha"]
    bands = 3 if info.palette is not None else len(colors)
    kind = kind_by_name(name, bands)
    if kind is not None:
        return Content(kind, info.gsd)
    stem = PurePosixPath(name).stem
    if bands > 2:
        is_visual = bands <= 4 and set(info.dtypes) == {"uint8"}
        return Content(VISUAL if is_visual or _any(_VISUAL_WORDS, _words(stem)) else COLOR, info.gsd)
    match = _BAND_NAME.fullmatch(stem)
    if match is None or len(colors) != 1 or info.gcps:
        return Content(BAND, info.gsd)
    grid = info.width, info.height, info.transform, info.crs.to_wkt()
    return Content(BAND, info.gsd, match["band"], (match["scene"] or "", hash(grid)))


def _words(stem: str) -> list[str]:
    return re.split(r"[^a-z0-9]+", stem.lower())
