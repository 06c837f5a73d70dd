"""A segmenter without weights: what is bright within a box is the object."""

import numpy as np


class BrightObjects:
    """Draws the pixels brighter than 180 within a box that is grown by ``reach``; keeps what it is given."""

    def __init__(self, reach: int = 5):
        self.reach = reach
        self.images: list[np.ndarray] = []
        self.prompts: list[tuple[np.ndarray, np.ndarray]] = []

    def segment(self, image: np.ndarray, boxes: np.ndarray, points: np.ndarray) -> np.ndarray:
        self.images.append(image)
        self.prompts.append((boxes, points))
        masks = np.zeros((len(boxes), *image.shape[1:]), bool)
        for mask, (left, top, right, bottom) in zip(masks, boxes.astype(int), strict=True):
            rows = slice(max(0, top - self.reach), bottom + self.reach)
            cols = slice(max(0, left - self.reach), right + self.reach)
            mask[rows, cols] = image[0, rows, cols] > 180
        return masks
