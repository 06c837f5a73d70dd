"""Options of a monitor."""

from dataclasses import dataclass
from typing import Literal

from rscc.folders import DEFAULT_MODEL
from workflows.option_fields import between, option
from workflows.options import SceneOptions
from workflows.pairs.options import CatalogOptions


@dataclass(frozen=True)
class MonitorOptions(CatalogOptions):
    """Which scenes are used, how they are read, and when an event counts as confirmed.

    Attributes:
        confirm: usable scenes that must show an event before it is confirmed, the first one included; an
            event that as many usable scenes in a row do not show has ended.
        model: shipped model or model folder for scenes that show single objects.
        context: layers of areas, as ``FILE:COLUMN``; events name the areas that they overlap.
        bands, band_names, scale, force: see :class:`workflows.options.SceneOptions`.
        others: see :class:`workflows.pairs.options.CatalogOptions`; ``pair`` has no effect.
    """

    confirm: int = option(
        2,
        "Confirm an event once this many usable scenes show it",
        panel="Detection",
        metavar="N",
        **between(1, 1000),
    )
    model: str = option(
        DEFAULT_MODEL,
        "Shipped model or model folder, for scenes that show single objects",
        panel="Detection",
        metavar="MODEL",
    )
    context: tuple[str, ...] = SceneOptions.again("context", default=())
    bands: tuple[int | str, int | str, int | str] | None = SceneOptions.again("bands")
    band_names: tuple[str, ...] | None = SceneOptions.again("band_names")
    scale: tuple[float, float] | Literal["reflectance"] | None = SceneOptions.again("scale")
    force: bool = option(False, "Process scenes whose resolution no detector is meant for", panel="Input")

    @property
    def reading(self) -> SceneOptions:
        """How scenes are read."""
        names = ("offline", "allow_hosts", "bands", "band_names", "scale", "force")
        return SceneOptions(**{name: getattr(self, name) for name in names})
