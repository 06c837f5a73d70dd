"""Caption two scenes from Python, as ``rscc caption`` does: paths, open datasets, xarray and numpy arrays."""

from __future__ import annotations

import re
import shutil
import tempfile
import warnings
import weakref
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import rasterio
import rasterio.shutil
from rasterio.errors import RasterioError
from rasterio.io import DatasetReaderBase

from rscc.errors import ExtraNotInstalled
from workflows.dates import Day, iso_date
from workflows.errors import in_python, speaks_python
from workflows.option_fields import read_area, read_classes, texts_of
from workflows.options import Frame, SceneOptions
from workflows.progress import Progress
from workflows.report.report import Report
from workflows.scene.given.read import read_changes
from workflows.scene.resolution import chosen_model
from workflows.scene.run import caption_scene
from workflows.scenes import read_headers

if TYPE_CHECKING:
    from affine import Affine

    from rscc.captioner import Captioner


@speaks_python
def caption(
    before: Source,
    after: Source,
    *,
    model: str | Path | None = None,
    detector: str | None = None,
    device: str = "auto",
    captioner: Captioner | None = None,
    progress: Progress | None = None,
    transform: Affine | Sequence[float] | None = None,
    crs: object = None,
    date_before: Day | None = None,
    date_after: Day | None = None,
    bbox: tuple[float, float, float, float] | None = None,
    area: str | Path | None = None,
    bands: tuple[int | str, int | str, int | str] | None = None,
    band_names: Sequence[str] | None = None,
    scale: tuple[float, float] | Literal["reflectance"] | None = None,
    gsd: float | None = None,
    normalize: bool = False,
    align: bool = False,
    frame: Frame = "before",
    force: bool = False,
    offline: bool = False,
    allow_host: str | Sequence[str] | None = None,
    threshold: float | None = None,
    min_area: float | None = None,
    group_distance: float | None = None,
    regularize: bool = False,
    simplify: float = 1.0,
    fast: bool = False,
    ground: bool = True,
    only: str | Sequence[str] | None = None,
    direction: Literal["appeared", "disappeared"] | None = None,
    context: str | Sequence[str] = (),
    changes: Any = None,
    overlap: int | None = None,
    batch_size: int | None = None,
    memory: int | None = None,
    keep_maps: str | Path | None = None,
) -> Report:
    """Find what changed between two scenes and describe each change in a sentence.

    The keywords are the options of the command; :class:`workflows.SceneOptions` describes them.

    Args:
        before, after: scenes of the earlier and the later date: paths or addresses, open rasterio datasets,
            xarray arrays with a CRS, or arrays (bands, rows, columns).
        model: name or folder; None: chosen by the pixel size of the scenes.
        detector: ``torchgeo:FILE``, a network that finds the changes in place of the model's, see
            :meth:`rscc.Captioner.with_detector`.
        device: see :meth:`rscc.Captioner.load`.
        captioner: a loaded one, in place of ``model`` and ``device``; for many pairs.
        progress: called as ``progress(stage, done, total)`` with the stages ``tiles`` and ``captions``.
        transform, crs: georeferencing of numpy arrays, ``crs`` also of xarray arrays that have none.
        changes: polygons, or a mask of another detector, described in place of what would be found: a file, a
            GeoDataFrame, a GeoJSON collection, or anything with ``__geo_interface__``.

    Warns:
        UserWarning: for each of the report's ``run["warnings"]``, such as dates that seem swapped.

    Raises:
        TypeError: a scene is none of these.
        TilingError: a scene cannot be read, or the two cannot be compared; the message names the file.
        TooCoarse: a scene is coarser than the model is meant for; ``force=True`` captions it nevertheless.
        OptionInvalid: an option has a value out of its range.
        GivenInvalid: ``changes`` cannot be read, or are no polygons.
        RsccError: there is no such model or detector, or it cannot run here.
    """
    options = SceneOptions(
        bands=bands,
        band_names=None if band_names is None else tuple(band_names),
        bounds=bbox,
        area=None if area is None else read_area(str(area)),
        gsd=gsd,
        threshold=threshold,
        min_area=min_area,
        overlap=overlap,
        batch_size=batch_size,
        simplify=simplify,
        force=force,
        date_before=iso_date(date_before),
        date_after=iso_date(date_after),
        scale=scale,
        normalize=normalize,
        align=align,
        frame=frame,
        group_distance=group_distance,
        regularize=regularize,
        ground=ground,
        fast=fast,
        only=None if only is None else read_classes(texts_of(only)),
        direction=direction,
        context=tuple(texts_of(context)),
        changes=None if changes is None else read_changes(changes),
        memory=memory,
        keep_maps=None if keep_maps is None else Path(keep_maps),
        offline=offline,
        allow_hosts=None if allow_host is None else tuple(texts_of(allow_host)),
    )
    copies = Copies()
    placed = (isinstance(scene, str | Path | DatasetReaderBase) for scene in (before, after))
    if (transform, crs) != (None, None) and all(placed):
        raise TypeError("transform and crs are for arrays, and both scenes have their own; leave them out")
    earlier = scene_file(before, "before", copies, transform, crs)
    later = scene_file(after, "after", copies, transform, crs)
    with copies.unnamed():
        # What can be refused is refused before the model is loaded.
        infos = read_headers(earlier, later, options)
        if captioner is None:
            from rscc.captioner import Captioner

            chosen, options = chosen_model(infos, None if model is None else str(model), options)
            captioner = Captioner.load(chosen, device=device)
        if detector is not None:
            captioner = captioner.with_detector(detector)
        report = caption_scene(*infos, captioner, options, progress)
    for text in report.run["warnings"]:
        warnings.warn(in_python(copies.shown(text)), stacklevel=3)
    return replace(report, scenes=(str(earlier), str(later)), servers=options, copies=copies)


class Copies:
    """A temporary folder for scenes that are no files; it goes when the last reference to this goes."""

    def __init__(self) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="rscc-scenes-"))
        weakref.finalize(self, shutil.rmtree, self.folder, ignore_errors=True)

    def shown(self, text: str) -> str:
        """Return a message that names a scene in the folder ``before`` or ``after``."""
        return re.sub(rf"{re.escape(str(self.folder))}[/\\\\](before|after)\.tif", r"\1", text)

    @contextmanager
    def unnamed(self) -> Iterator[None]:
        """Let the errors of a block name the scenes in the folder ``before`` and ``after``."""
        try:
            yield
        except Exception as error:
            error.args = tuple(self.shown(one) if isinstance(one, str) else one for one in error.args)
            raise


Source = Any
"""What :func:`scene_file` takes; xarray need not be installed."""
_TAKEN = (
    "a path, an open rasterio dataset, an xarray.DataArray with a CRS (rioxarray), or an array (bands, rows, "
    "columns) or (rows, columns) with transform= and crs="
)


def scene_file(
    source: Source,
    role: str,
    copies: Copies,
    transform: Affine | Sequence[float] | None = None,
    crs: object = None,
) -> str | Path:
    """Return the path of a scene; what is not a file is written to one in ``copies``.

    Args:
        source: see :data:`Source`.
        role: ``before`` or ``after``, the name in messages and of the file.
        transform, crs: georeferencing of a numpy array, or the CRS of an xarray array.

    Raises:
        TypeError: it is something else; the message says what is taken.
    """
    path = copies.folder / f"{role}.tif"
    if isinstance(source, str | Path):
        return source
    if isinstance(source, DatasetReaderBase):
        return _dataset(source, role, path)
    if isinstance(source, np.ndarray):
        return _array(source, role, path, transform, crs)
    if hasattr(source, "dims") and hasattr(source, "values"):
        return _data_array(source, role, path, crs)
    raise TypeError(f"{role} is of type {type(source).__name__}; give {_TAKEN}")


def _dataset(source: DatasetReaderBase, role: str, path: Path) -> str | Path:
    if source.closed:
        raise TypeError(f"{role} is a closed rasterio dataset; open it, or give its path")
    if Path(source.name).is_file():
        return source.name
    # In memory, a warped view, or on a server under another session.
    rasterio.shutil.copy(source, path, driver="GTiff", tiled=True)
    return path


def _array(
    source: np.ndarray, role: str, path: Path, transform: Affine | Sequence[float] | None, crs: object
) -> Path:
    if transform is None or crs is None:
        raise TypeError(f"{role} is an array; give its georeferencing as transform= and crs= too")
    if source.ndim not in (2, 3) or 0 in source.shape:
        raise TypeError(f"{role} is an array of shape {source.shape}; give (bands, rows, columns)")
    if source.ndim == 3 and source.shape[2] <= 4 < source.shape[0]:
        raise TypeError(
            f"{role} is an array of shape {source.shape}, with the bands last; give array.transpose(2, 0, 1)"
        )
    bands = source[None] if source.ndim == 2 else source
    bands = bands.astype(np.uint8) if bands.dtype == bool else bands
    try:
        with rasterio.open(
            path,
            "w",
            driver="GTiff",
            width=bands.shape[2],
            height=bands.shape[1],
            count=bands.shape[0],
            dtype=bands.dtype,
            crs=crs,
            transform=rasterio.Affine(*tuple(transform)[:6]),
        ) as target:
            target.write(np.ma.getdata(bands))
            if np.ma.isMaskedArray(bands):
                target.write_mask(~np.ma.getmaskarray(bands).any(axis=0))
    except (RasterioError, TypeError, ValueError) as error:
        raise TypeError(f"{role} is an array that makes no scene ({error}); give {_TAKEN}") from error
    return path


def _data_array(source: Any, role: str, path: Path, crs: object) -> Path:
    try:
        import rioxarray  # noqa: F401  it adds the accessor rio
    except ModuleNotFoundError as error:
        raise ExtraNotInstalled(
            f"{role} is an xarray array, which needs rioxarray; install rscc[notebook]"
        ) from error
    if source.rio.crs is None and crs is None:
        raise TypeError(f"{role} is an xarray.DataArray without a CRS; give crs=, or use .rio.write_crs")
    (source if source.rio.crs else source.rio.write_crs(crs)).rio.to_raster(path)
    return path
