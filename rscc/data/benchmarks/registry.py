"""The captioned data sets by name."""

from rscc.data.benchmarks.annotations import Benchmark
from rscc.data.benchmarks.clevr import ClevrChange, ClevrDC
from rscc.data.benchmarks.dubai_cc import DubaiCC
from rscc.data.benchmarks.image_editing_request import ImageEditingRequest
from rscc.data.benchmarks.levir_cc import LevirCC
from rscc.data.benchmarks.spot_the_diff import SpotTheDiff, SpotTheDiffMulti

DATASETS: dict[str, Benchmark] = {
    "levir_cc": LevirCC,
    "dubai_cc": DubaiCC,
    "clevr_change": ClevrChange,
    "clevr_dc": ClevrDC,
    "spot_the_diff": SpotTheDiff,
    "spot_the_diff_multi": SpotTheDiffMulti,
    "image_editing_request": ImageEditingRequest,
}
