"""Errors a user can act on; each class is named by the fact it states.

The message is one line: the file, what is wrong, what to do. ``exit_code`` is that of the command: 2 if a
scene or an option is wrong, 1 if the run failed.
"""


class TilingError(Exception):
    """Root of every error that the ``tiling`` package raises on purpose."""

    exit_code = 2


class SceneNotFound(TilingError):
    """A scene, or a source of a VRT, does not exist."""


class SceneIsFolder(TilingError):
    """The path of a scene is a folder."""


class SceneUnreadable(TilingError):
    """A scene exists but cannot be opened."""


class SceneUnreachable(TilingError):
    """The server of a scene cannot be reached, or fails."""

    exit_code = 1


class LocationUnsupported(TilingError):
    """A scene is named by an unsupported address or virtual file system."""


class AddressForbidden(TilingError):
    """A scene is on a forbidden server: offline, or a stranger's file leads into our network."""


class ArchiveUnclear(TilingError):
    """A zip archive does not hold exactly one raster, and none was named."""


class NotARaster(TilingError):
    """The file is none of the raster formats that are allowed."""


class SceneDamaged(TilingError):
    """A part of a scene cannot be decoded.

    Attributes:
        scene: the path of the scene; None where the file is no scene.
    """

    def __init__(self, message: str, scene: str | None = None) -> None:
        super().__init__(message)
        self.scene = scene


class UnsafeReference(TilingError):
    """A scene refers to something outside its folder, or in an unchecked way."""


class SceneTooLarge(TilingError):
    """A scene, one of its blocks, or the requested grid is beyond the limits."""


class PixelTypeUnsupported(TilingError):
    """The pixels of a scene are not real numbers."""


class TooFewBands(TilingError):
    """A scene has fewer bands than red, green and blue."""


class BandNotFound(TilingError):
    """A scene does not have the requested band."""


class MissingCRS(TilingError):
    """A scene has no coordinate reference system."""


class MissingGeoreferencing(TilingError):
    """A scene has no georeferencing."""


class ReprojectionFailed(TilingError):
    """Coordinates cannot be transformed from one coordinate reference system to another."""


class NoOverlap(TilingError):
    """The scenes, or the scenes and the requested box, do not overlap."""


class OverlapTooSmall(NoOverlap):
    """The ground that both scenes show is narrower than the smallest change."""


class PixelsWithoutSize(MissingGeoreferencing):
    """The pixels of a scene have a size that no image of the ground has."""


class NothingValid(TilingError):
    """No pixel has data in both scenes."""


class BoundsInvalid(TilingError):
    """The box is not west, south, east, north in degrees."""


class ScaleInvalid(TilingError):
    """The scale of a scene to reflectances is unknown."""


class MapsNotWritable(TilingError):
    """A raster of the maps cannot be written: no permission, a full disk."""

    exit_code = 1
