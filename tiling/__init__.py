"""Two scenes on one grid, read as tiles, and change maps turned into polygons; knows no network."""

from tiling.access import ANYWHERE, Access
from tiling.bands import BandChoice, choose_bands
from tiling.errors import (
    AddressForbidden,
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
    ProbabilityNotWritable,
    ReprojectionFailed,
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
from tiling.frame import Frame, Grid, common_ground, plan_frame, pole_in
from tiling.geodesy import geodesic_area_m2, on_map, to_wgs84, transformer
from tiling.grid import Tile, TileGrid, Window, lattice
from tiling.grouping import group_regions
from tiling.layer import Layer
from tiling.location import is_address, locate
from tiling.mosaic import Band, ChangeMosaic
from tiling.normalization import Normalization
from tiling.pair import ScenePair
from tiling.plain import is_odd, plain_only
from tiling.polygons import ChangeRegion, Polygonizer, polygonize
from tiling.probability import KeptProbability, open_probability, write_probability
from tiling.radiometry import Stretch
from tiling.reader import PairTile, read_tiles
from tiling.registration import Registration
from tiling.regularize import regularized
from tiling.remote import safe_environment
from tiling.scene import SceneInfo, describe, files_of, open_scene
from tiling.sidecars import MAX_TEXT_BYTES
from tiling.spectral import SpectralPair, spectral_bands
from tiling.vrt import checked_sources, looks_like_vrt

__all__ = [
    "ANYWHERE",
    "MAX_TEXT_BYTES",
    "Access",
    "AddressForbidden",
    "ArchiveUnclear",
    "Band",
    "BandChoice",
    "BandNotFound",
    "BoundsInvalid",
    "ChangeMosaic",
    "ChangeRegion",
    "Frame",
    "Grid",
    "KeptProbability",
    "Layer",
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
    "ProbabilityNotWritable",
    "Registration",
    "ReprojectionFailed",
    "ScaleInvalid",
    "SceneDamaged",
    "SceneInfo",
    "SceneIsFolder",
    "SceneNotFound",
    "ScenePair",
    "SceneTooLarge",
    "SceneUnreachable",
    "SceneUnreadable",
    "SpectralPair",
    "Stretch",
    "Tile",
    "TileGrid",
    "TilingError",
    "TooFewBands",
    "UnsafeReference",
    "Window",
    "checked_sources",
    "choose_bands",
    "common_ground",
    "describe",
    "files_of",
    "geodesic_area_m2",
    "group_regions",
    "is_address",
    "is_odd",
    "lattice",
    "locate",
    "looks_like_vrt",
    "on_map",
    "open_probability",
    "open_scene",
    "plain_only",
    "plan_frame",
    "pole_in",
    "polygonize",
    "read_tiles",
    "regularized",
    "safe_environment",
    "spectral_bands",
    "to_wgs84",
    "transformer",
    "write_probability",
]
