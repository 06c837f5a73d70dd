"""Two scenes on one grid, read as tiles, and change maps turned into polygons; knows no network."""

from tiling.errors import (
    ArchiveUnclear,
    BandNotFound,
    BoundsInvalid,
    LocationUnsupported,
    MissingCRS,
    MissingGeoreferencing,
    NoOverlap,
    NotARaster,
    NothingValid,
    PixelTypeUnsupported,
    ReprojectionFailed,
    ResolutionInvalid,
    ScaleInvalid,
    SceneDamaged,
    SceneIsFolder,
    SceneNotFound,
    SceneTooLarge,
    SceneUnreachable,
    SceneUnreadable,
    TilingError,
    TooFewBands,
    UnsafeReference,
)
from tiling.frame import Grid
from tiling.geodesy import geodesic_area_m2, to_wgs84
from tiling.grid import Tile, TileGrid, Window
from tiling.grouping import group_regions
from tiling.mosaic import Band, ChangeMosaic
from tiling.normalization import Normalization
from tiling.pair import ScenePair
from tiling.polygons import ChangeRegion, Polygonizer, polygonize
from tiling.radiometry import Stretch
from tiling.reader import PairTile, read_tiles
from tiling.registration import Registration
from tiling.regularize import regularized
from tiling.scene import SceneInfo, describe

__all__ = [
    "ArchiveUnclear",
    "Band",
    "BandNotFound",
    "BoundsInvalid",
    "ChangeMosaic",
    "ChangeRegion",
    "Grid",
    "LocationUnsupported",
    "MissingCRS",
    "MissingGeoreferencing",
    "NoOverlap",
    "Normalization",
    "NotARaster",
    "NothingValid",
    "PairTile",
    "PixelTypeUnsupported",
    "Polygonizer",
    "Registration",
    "ReprojectionFailed",
    "ResolutionInvalid",
    "ScaleInvalid",
    "SceneDamaged",
    "SceneInfo",
    "SceneIsFolder",
    "SceneNotFound",
    "ScenePair",
    "SceneTooLarge",
    "SceneUnreachable",
    "SceneUnreadable",
    "Stretch",
    "Tile",
    "TileGrid",
    "TilingError",
    "TooFewBands",
    "UnsafeReference",
    "Window",
    "describe",
    "geodesic_area_m2",
    "group_regions",
    "polygonize",
    "read_tiles",
    "regularized",
    "to_wgs84",
]
