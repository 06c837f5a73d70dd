"""What red, green and blue tell of land cover, held against near infrared on real pairs.

    python benchmarks/cover_from_colours.py --scenes scenes

``--scenes`` holds the folders ``oscd_beirut`` and ``naip_4709963`` of dated GeoTIFFs.
"""

from __future__ import annotations

import argparse
from dataclasses import replace
from pathlib import Path

import numpy as np

from rscc.land_cover import EXCESS_GREEN, NDVI, NDWI, Bands, CoverRules, Light
from rscc.markdown import table
from tiling import ScenePair, SpectralPair, Window, describe

FOUR = ("red", "green", "blue", "nir")
_NAIP = "naip_4709963/m_4709963_se_14_1_"
PAIRS = {
    "Beirut 2015, 2017": ("oscd_beirut/20150820.tif", "oscd_beirut/20171003.tif"),
    "prairie 2009, 2017": (f"{_NAIP}20090818.tif", f"{_NAIP}20170827.tif"),
    "prairie 2014, 2020": (f"{_NAIP}20140720.tif", f"{_NAIP}20200831.tif"),
}
# NDVI must move by this much, beside what the whole scene moved, to agree.
MOVED = 0.05
# Mean of red, green and blue, of 255, below which ground is dark.
DARK = 60


def row(scenes: Path, name: str) -> tuple[str, ...]:
    """Return the shares of one pair as percentages."""
    infos = [replace(describe(scenes / path), descriptions=FOUR) for path in PAIRS[name]]
    with ScenePair.open(*infos) as pair, SpectralPair.open(pair) as spectral:
        samples = spectral.sample()
        before, after, valid = spectral.read(Window(0, 0, pair.grid.width, pair.grid.height))
    rules = CoverRules.fit(*({key: bands[key] for key in EXCESS_GREEN.bands} for bands in samples))
    old, new = rules.decide(before, after)["green cover"]
    ndvi = [NDVI.of(bands) for bands in (before, after)]
    change = ndvi[1] - ndvi[0]
    change -= np.nanmedian(change[valid])
    green = [
        share(values[valid & (called == 1)] > NDVI.yes)
        for values, called in zip(ndvi, (old, new), strict=True)
    ]
    lost, grown = valid & (old == 1) & (new == -1), valid & (old == -1) & (new == 1)
    blue = [dark_blue(bands, sample, valid) for bands, sample in zip((before, after), samples, strict=True)]
    return (
        name, *green, share(change[lost] < -MOVED), share(change[grown] > MOVED), *blue,
    )  # fmt: skip


def dark_blue(bands: Bands, sample: Bands, valid: np.ndarray) -> str:
    """Return how much of what is dark, and blue rather than red, is water by NDWI."""
    shown = Light.of(sample).brought(bands)
    dark = np.mean([shown[name] for name in EXCESS_GREEN.bands], axis=0) < DARK
    return share(NDWI.of(bands)[valid & dark & (shown["blue"] >= shown["red"])] > NDWI.yes)


def share(hits: np.ndarray) -> str:
    """Return the share of hits in percent; a dash without any pixel."""
    return f"{100 * hits.mean():.0f} %" if hits.size else "–"


if __name__ == "__main__":
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--scenes", type=Path, required=True)
    folder = parser.parse_args().scenes
    names = (
        "pair", "green is vegetation, before", "after", "lost green: NDVI fell", "grown green: NDVI rose",
        "dark blue is water, before", "after",
    )  # fmt: skip
    print(table(names, [row(folder, name) for name in PAIRS]))
