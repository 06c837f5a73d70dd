"""Check an installation: libraries, drivers, weights, Java, QGIS, and one small run of a model."""

from __future__ import annotations

import platform
import shutil
import subprocess
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from typing import TYPE_CHECKING

import numpy as np

import rscc
from rscc.errors import RsccError
from rscc.model_folder import available_models, find_model, open_model_folder
from workflows.progress import cores

if TYPE_CHECKING:
    from rscc.captioner import Captioner

OK, LACKS, WRONG = "ok", "lacks", "wrong"
# Drivers that scenes are read with, and reports written with.
_RASTERS = ("GTiff", "JP2OpenJPEG", "JPEG", "PNG", "VRT")
_VECTORS = ("GeoJSON", "GPKG", "FlatGeobuf")
_PACKAGES = ("torch", "rasterio", "pyogrio", "shapely", "pyproj", "pyarrow")
_QGIS = ("qgis", "qgis_process", "qgis-ltr", "qgis-bin.exe")
# Seconds that Java may take to print its version.
_JAVA_SECONDS = 20.0


@dataclass(frozen=True)
class Finding:
    """One line of the answer.

    Attributes:
        state: ``ok``; ``lacks`` something that only a part of rscc needs; ``wrong``: captioning will fail.
            ``rscc verify`` has other states, see :mod:`workflows.archive.verify`.
        detail: what was found, and what to do where something is wrong.
    """

    subject: str
    state: str
    detail: str


def examine(model: str, device: str, load: Callable[[str, str], Captioner]) -> Iterator[Finding]:
    """Yield the findings on an installation, quick checks first.

    Last, the captioner that ``load`` returns for ``model`` and ``device`` predicts two tiles.
    """
    yield _versions()
    yield _device()
    yield from _drivers()
    yield from map(_weights, sorted({*(card.name for card in available_models()), model}))
    yield _java()
    yield _qgis()
    yield _self_test(model, device, load)


def _versions() -> Finding:
    found, missing = [f"rscc {rscc.__version__}", f"Python {platform.python_version()}"], []
    for name in _PACKAGES:
        try:
            found.append(f"{name} {version(name)}")
        except PackageNotFoundError:
            missing.append(name)
    if missing:
        return Finding("versions", WRONG, f"{', '.join(missing)}: not installed; install rscc again")
    return Finding("versions", OK, ", ".join(found))


def _device() -> Finding:
    import torch

    names = [torch.cuda.get_device_name(number) for number in range(torch.cuda.device_count())]
    return Finding("device", OK, ", ".join(names) or f"no GPU, {cores()} processor cores")


def _drivers() -> Iterator[Finding]:
    import pyogrio
    from rasterio.env import Env

    with Env() as env:
        rasters = set(env.drivers())
    vectors = {name for name, rights in pyogrio.list_drivers().items() if "w" in rights}
    for subject, wanted, there in (("rasters", _RASTERS, rasters), ("vectors", _VECTORS, vectors)):
        if missing := [name for name in wanted if name not in there]:
            what = f"this GDAL has no {', '.join(missing)}; install rasterio and pyogrio by pip"
            yield Finding(subject, WRONG, what)
        else:
            yield Finding(subject, OK, ", ".join(wanted))


def _weights(model: str) -> Finding:
    try:
        folder = open_model_folder(find_model(model), check_hashes=True)
    except RsccError as error:
        return Finding("weights", WRONG, str(error))
    return Finding("weights", OK, f"{folder.card.name} {folder.card.version}: every file is as recorded")


def _java() -> Finding:
    missing = Finding("java", LACKS, "none; only METEOR of rscc evaluate needs it")
    if (java := shutil.which("java")) is None:
        return missing
    try:
        done = subprocess.run(
            (java, "-version"), capture_output=True, text=True, timeout=_JAVA_SECONDS, check=True
        )
    except (OSError, subprocess.SubprocessError):
        return missing
    return Finding("java", OK, next(iter((done.stdout + done.stderr).splitlines()), "java"))


def _qgis() -> Finding:
    place = next(filter(None, map(shutil.which, _QGIS)), None)
    if place is None:
        return Finding("qgis", LACKS, "not on PATH; reports open in any GIS")
    return Finding("qgis", OK, place)


def _self_test(model: str, device: str, load: Callable[[str, str], Captioner]) -> Finding:
    """Predict a tile beside itself, and beside itself with something new in it."""
    try:
        captioner = load(model, device)
        side = captioner.card.tile_size
        ground = np.random.default_rng(0).integers(90, 120, (1, 3, side, side), dtype=np.uint8)
        later = ground.copy()
        later[..., side // 3 : side * 2 // 3, side // 3 : side * 2 // 3] = 230
        began = time.perf_counter()
        found = captioner.predict_change(np.concatenate([ground] * 2), np.concatenate([ground, later]))
        seconds = time.perf_counter() - began
    except RsccError as error:
        return Finding("self-test", WRONG, str(error))
    probability = np.asarray(found.change_probability)
    valid = probability.shape == (2, side, side) and np.isfinite(probability).all()
    if not valid or probability.min() < 0 or probability.max() > 1:
        return Finding("self-test", WRONG, f"{model} gives no probabilities here; try --device cpu")
    same, changed = found.changed_probability.tolist()
    if not same < changed:
        what = f"{model} sees no more change in a changed tile ({changed:.2f}) than in the same ({same:.2f})"
        return Finding("self-test", WRONG, f"{what}; try --device cpu")
    words = f"P(changed) {same:.2f} of a tile beside itself, {changed:.2f} with something new"
    return Finding("self-test", OK, f"{model}, 2 tiles in {seconds:.1f} s; {words}")
