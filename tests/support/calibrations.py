"""A calibration, and sentences of which no two are alike."""

from rscc.inference.calibration import Calibration, FlagCalibration, Reliability, ScoreCalibration

BINS = Reliability((0.1, 0.8), (0.0, 0.9), (20, 30))
FLAG = FlagCalibration(
    **{"a": 0.6, "b": 0.7, "c": -0.2, "pixels": 20, "threshold": 0.5, "accuracy": 0.94, "precision": 0.95},
    **{"recall": 0.93, "error_before": 0.09, "error_after": 0.04, "brier_before": 0.1, "brier_after": 0.06},
    bins=BINS,
)
SCORE = ScoreCalibration(4.0, 3.0, 21.5, 0.6, 0.1, 0.05, 0.25, 0.2, BINS)
BOTH = Calibration(FLAG, SCORE)

SENTENCES = [
    f"{number} {what} {where}"
    for number in ("two", "several", "many")
    for what in ("houses appear", "trees vanish", "roads cross")
    for where in ("at the river", "on the hill", "beside the field")
]
