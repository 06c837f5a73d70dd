"""A pair in memory, of noise."""

import numpy as np

from rscc.data.pairs import PairSample


def sample(captions=("a house on the left",), *, height=24, width=40, seed=0) -> PairSample:
    rng = np.random.default_rng(seed)
    before, after = (rng.integers(0, 256, (3, height, width), dtype=np.uint8) for _ in range(2))
    return PairSample("one", before, after, rng.random((height, width)) > 0.5, tuple(captions), True)
