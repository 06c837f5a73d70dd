"""Trainers with everything random in them."""

import torch
from tiny_models import TinyTextEncoder, tiny_backbone, tiny_model
from training_runs import StoppingSource, sum_of_weights

from rscc.data.benchmarks.levir_cc import LevirCC
from rscc.data.sources import CaptionText, ImageCaptionSource, all_forms
from rscc.models import MODELS
from rscc.text.vocabulary import Vocabulary
from rscc.training.loop import Trainer


def make_trainer(data, folder, config, *, seed=1, stop=None, validate=sum_of_weights, source=None) -> Trainer:
    """A trainer with everything random in it: augmentation, dropout, order, average of weights."""
    records = LevirCC(data, "train").records
    if source is None:
        vocabulary = Vocabulary.build(all_forms(records), min_count=1)
        segments = {caption: (caption[:12], caption[-12:]) for caption in all_forms(records)}
        text = CaptionText(vocabulary, max_words=12, segments=segments)
        source = ImageCaptionSource(
            records, text, batch_size=3, size=32, augment=True, seed=config.train.seed
        )
        if stop is not None:
            source = StoppingSource(source, *stop)
    else:
        vocabulary = tiny_model().vocabulary
    torch.manual_seed(seed)
    encoder = TinyTextEncoder()
    for parameter in encoder.parameters():
        torch.nn.init.normal_(parameter, generator=torch.Generator().manual_seed(7))
    model = MODELS["rdd"](
        config=config.model, backbone=tiny_backbone(), vocabulary=vocabulary, text_encoder=encoder
    )
    return Trainer(model, source, validate, config=config, folder=folder, report=lambda line: None)
