"""The benchmarks as data sets of TorchGeo, and the five papers' models as a task; needs the extra torchgeo.

Nothing is read or computed in another way here: the data sets read with :mod:`rscc.data.benchmarks`, the task
computes the losses of :mod:`rscc.models`.
"""

from rscc.data.torchgeo.datamodules import (
    CaptionedDataModule,
    CLEVRChangeDataModule,
    CLEVRDCDataModule,
    DubaiCCDataModule,
    ForestChangeDataModule,
    ImageEditingRequestDataModule,
    LEVIRCCDataModule,
    LEVIRCDCDataModule,
    SECONDCCDataModule,
    SpotTheDiffDataModule,
    WHUCDCDataModule,
)
from rscc.data.torchgeo.datasets import (
    CLEVRDC,
    LEVIRCC,
    LEVIRCDC,
    SECONDCC,
    WHUCDC,
    CaptionedPairs,
    CLEVRChange,
    DubaiCC,
    ForestChange,
    ImageEditingRequest,
    SpotTheDiff,
    collate_pairs,
)
from rscc.data.torchgeo.task import ChangeCaptioningTask

__all__ = [
    "CLEVRDC",
    "LEVIRCC",
    "LEVIRCDC",
    "SECONDCC",
    "WHUCDC",
    "CLEVRChange",
    "CLEVRChangeDataModule",
    "CLEVRDCDataModule",
    "CaptionedDataModule",
    "CaptionedPairs",
    "ChangeCaptioningTask",
    "DubaiCC",
    "DubaiCCDataModule",
    "ForestChange",
    "ForestChangeDataModule",
    "ImageEditingRequest",
    "ImageEditingRequestDataModule",
    "LEVIRCCDataModule",
    "LEVIRCDCDataModule",
    "SECONDCCDataModule",
    "SpotTheDiff",
    "SpotTheDiffDataModule",
    "WHUCDCDataModule",
    "collate_pairs",
]
