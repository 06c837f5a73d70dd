"""DAVIR's extraction of changes (Eq. 2-3) against plain loops over pixels, squares and neighbours."""

import math

import numpy as np
import pytest

from rscc.models.shared.extraction import (
    Extraction,
    difference,
    extract_change,
    find_clusters,
    merge_agreeing,
)


def pair_with_square(height=48, width=64, top=8, left=20, side=16):
    """Two dates of noise, the second darker, duller and with a bright square."""
    rng = np.random.default_rng(0)
    before = rng.integers(90, 160, (3, height, width)).astype(np.uint8)
    after = (before * 0.6 + rng.normal(20, 2, before.shape)).clip(0, 255).astype(np.uint8)
    after[:, top : top + side, left : left + side] = 250
    return before, after


def slow_difference(before, after) -> np.ndarray:
    height, width = before.shape[1:]
    out = np.zeros((height, width))
    for band in range(3):
        dates = [date[band].astype(float) for date in (before, after)]
        means = [sum(v.flat) / v.size for v in dates]
        spreads = [
            math.sqrt(sum((x - m) ** 2 for x in v.flat) / v.size) for v, m in zip(dates, means, strict=True)
        ]
        for place in np.ndindex(height, width):
            one, other = ((dates[i][place] - means[i]) / spreads[i] * sum(spreads) / 2 for i in (0, 1))
            out[place] += abs(one - other) / 3
    return out


def slow_clusters(differing, delta, cell, eps, min_samples) -> list[set[tuple[int, int]]]:
    """DBSCAN by its definition: cores that are near each other, and what is near a core."""
    height, width = differing.shape
    over = [
        (row, column)
        for row in range(math.ceil(height / cell))
        for column in range(math.ceil(width / cell))
        if differing[row * cell : (row + 1) * cell, column * cell : (column + 1) * cell].mean() > delta
    ]
    near = {p: [q for q in over if math.dist(p, q) <= eps] for p in over}
    cores = {p for p in over if len(near[p]) >= min_samples}
    clusters, taken = [], set()
    for core in sorted(cores):
        members, waiting = set(), [core]
        while waiting:
            one = waiting.pop()
            if one not in members | taken:
                members.add(one)
                waiting += near[one] if one in cores else []
        taken |= members
        clusters += [members] if members else []
    return clusters


def test_the_difference_ignores_light_and_contrast_and_order() -> None:
    before, after = pair_with_square()
    found = difference(before, after)
    np.testing.assert_allclose(found, slow_difference(before, after), rtol=1e-3, atol=1e-2)
    np.testing.assert_allclose(found, difference(after, before), rtol=1e-4, atol=1e-3)
    lighter = (before * 0.5 + 60).astype(np.uint8)
    assert difference(before, lighter).max() < 3
    assert np.abs(before.astype(int) - lighter).mean() > 5


@pytest.mark.parametrize("seed", range(3))
def test_clusters_are_those_of_dbscan(seed) -> None:
    """Equation 2, also where height and width are no multiples of the squares."""
    rng = np.random.default_rng(seed)
    differing = rng.uniform(0, 70, (23, 37))
    settings = Extraction(delta=40, cell=3, eps=1.5, min_samples=4)
    expected = slow_clusters(differing, 40, 3, 1.5, 4)
    clusters = find_clusters(differing, settings)
    assert clusters.regions.shape == (len(expected), 23, 37) and len(expected) > 1
    regions = []
    for region, box, (x, y) in zip(*clusters, strict=True):
        rows, columns = np.nonzero(region)
        regions.append({(r // 3, c // 3) for r, c in zip(rows.tolist(), columns.tolist(), strict=True)})
        assert tuple(box) == (columns.min(), rows.min(), columns.max() + 1, rows.max() + 1)
        assert region[int(y), int(x)]
    for region in regions:  # a square at the border of two clusters may be either's
        assert max(len(region & other) / len(region | other) for other in expected) > 0.8


def test_what_agrees_is_merged() -> None:
    """Equation 3, pixel by pixel."""
    rng = np.random.default_rng(1)
    regions, masks = rng.random((4, 9, 7)) > 0.5, rng.random((4, 9, 7)) > 0.5
    masks[2] = regions[2]
    for tau in (0.0, 0.35, 0.9):
        expected = np.zeros((9, 7), bool)
        for region, mask in zip(regions, masks, strict=True):
            pairs = list(zip(region.flat, mask.flat, strict=True))
            if sum(bool(a and b) for a, b in pairs) / sum(bool(a or b) for a, b in pairs) >= tau:
                expected |= mask
        assert (merge_agreeing(regions, masks, tau) == expected).all()
    assert (merge_agreeing(regions, masks, 0.9) == masks[2]).all()


class BoxSegmenter:
    """Gives back the boxes as masks, but the first as the whole image; remembers what it was asked."""

    def segment(self, image, boxes, points):
        self.image, self.boxes, self.points = image, boxes, points
        masks = np.zeros((len(boxes), *image.shape[1:]), bool)
        for mask, (left, top, right, bottom) in zip(masks, boxes.astype(int), strict=True):
            mask[top:bottom, left:right] = True
        masks[0] = True
        return masks


def test_a_segmenter_is_asked_for_the_second_date_and_checked() -> None:
    before, after = pair_with_square()
    after[:, 30:46, 44:60] = 5
    plain = extract_change(before, after)
    assert plain.shape == (48, 64)
    assert plain[8:24, 20:36].all() and plain[32:44, 44:60].all()
    assert plain.mean() < 0.25
    segmenter = BoxSegmenter()
    found = extract_change(before, after, segmenter=segmenter)
    assert segmenter.image is after
    assert segmenter.boxes.shape == (2, 4) and segmenter.points.shape == (2, 2)
    assert not found[8:24, 20:36].any(), "the whole image does not agree with its cluster"
    assert found[32:44, 44:60].all()
