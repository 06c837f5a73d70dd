"""Errors a user can act on; each class is named by the fact it states.

The message is one line: the file, what is wrong, what to do. ``exit_code`` is what the command returns: 2
when a scene or an option is wrong, 1 when they were right but the run failed.
"""


class TilingError(Exception):
    """Root of every error that the ``tiling`` package raises on purpose."""

    exit_code = 2


class SceneNotFound(TilingError):
    """There is no file at the path of a scene, or at that of a source of a VRT."""


class SceneIsFolder(TilingError):
    """The path of a scene is a folder."""


class SceneUnreadable(TilingError):
    """The file of a scene is there but may not be opened."""


class SceneUnreachable(TilingError):
    """The server of a scene cannot be reached, or fails; the scene may be right."""

    exit_code = 1


class LocationUnsupported(TilingError):
    """A scene is named by an address or a virtual file system that is not read."""


class AddressForbidden(TilingError):
    """A scene is on a server that may not be asked: none may, or a stranger's file leads into our network."""


class ArchiveUnclear(TilingError):
    """A zip archive does not hold exactly one raster, and none was named."""


class NotARaster(TilingError):
    """The file is none of the raster formats that are allowed."""


class SceneDamaged(TilingError):
    """The header of a scene can be read but some of its pixels cannot."""


class UnsafeReference(TilingError):
    """A scene refers to something outside its own folder, or in a way that is not checked."""


class SceneTooLarge(TilingError):
    """A scene, one of its blocks, or the grid that was asked for is beyond the limits."""


class PixelTypeUnsupported(TilingError):
    """The pixels of a scene are not real numbers."""


class TooFewBands(TilingError):
    """A scene has fewer bands than red, green and blue."""


class BandNotFound(TilingError):
    """A band was asked for that a scene does not have."""


class MissingCRS(TilingError):
    """A scene does not say which coordinate reference system its coordinates are in."""


class MissingGeoreferencing(TilingError):
    """A scene does not say where on the ground its pixels lie."""


class ReprojectionFailed(TilingError):
    """Coordinates cannot be brought from one coordinate reference system to another."""


class NoOverlap(TilingError):
    """The scenes, or the scenes and the box that was asked for, have no ground in common."""


class NothingValid(TilingError):
    """There is no pixel for which both scenes have data."""


class BoundsInvalid(TilingError):
    """The box is not west, south, east, north in degrees."""


class ScaleInvalid(TilingError):
    """A scene has no reflectances."""


class ProbabilityNotWritable(TilingError):
    """The raster of change probability cannot be written: no permission, a full disk."""

    exit_code = 1
