"""Scores on the validation split that choose checkpoints and thresholds; the test split is never read."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import groupby

import numpy as np
import torch

from rscc.config import Config
from rscc.data.caches import EMPTY, PairCache
from rscc.data.pairs import PairRecord, add_masks, collate, read_pair, resize_sample, to_device, truly_changed
from rscc.evaluation.metrics import cider
from rscc.models.localisers import Localiser
from rscc.models.shared.blocks import enlarge_maps
from rscc.models.shared.captioner import ChangeCaptioner
from rscc.sequences import batches
from rscc.structures import NO_CHANGE_CAPTION, DifferenceFeatures, PairBatch
from rscc.text.no_change import is_no_change
from rscc.training.training_loop import Validate

_BINS = 200


def image_batches(records: Sequence[PairRecord], *, size: int, batch_size: int = 16) -> Iterator[PairBatch]:
    """Yield the pairs in order, not augmented, images resized to ``size``, masks at their own size.

    A batch ends early where the size of the stored images changes.
    """
    samples = (read_pair(record) for record in records)
    for _, same_size in groupby(samples, key=lambda sample: sample.before.shape):
        for part in batches(same_size, batch_size):
            batch = collate([resize_sample(replace(sample, mask=None), size) for sample in part])
            add_masks(batch, [sample.mask for sample in part])
            yield batch


class MaskCurve:
    """Counts of changed and unchanged pixels by predicted probability: F1 at any threshold."""

    def __init__(self) -> None:
        self.changed = np.zeros(_BINS, dtype=np.int64)
        self.unchanged = np.zeros(_BINS, dtype=np.int64)

    def add(self, probability: np.ndarray, mask: np.ndarray) -> None:
        """Count pixels: probability in 0..1, mask bool, of one shape."""
        bins = np.minimum((probability * _BINS).astype(np.int64), _BINS - 1)
        self.changed += np.bincount(bins[mask], minlength=_BINS)
        self.unchanged += np.bincount(bins[~mask], minlength=_BINS)

    def f1(self) -> np.ndarray:
        """Return F1 for the thresholds 0, 1/200, 2/200, ... (0 where nothing is predicted)."""
        hits = self.changed[::-1].cumsum()[::-1]
        false = self.unchanged[::-1].cumsum()[::-1]
        return 2 * hits / np.maximum(1, hits + false + self.changed.sum())

    def best_threshold(self) -> float:
        """Return the threshold above 0 with the highest F1; at 0 every pixel would be changed."""
        return float((1 + self.f1()[1:].argmax()) / _BINS)


@torch.no_grad()
def mask_curve(
    model: ChangeCaptioner,
    batches: Iterable[PairBatch],
    *,
    bf16: bool = True,
    localiser: Localiser | None = None,
) -> MaskCurve:
    """Run trunk and change head, or a localiser, over batches with masks."""
    curve = MaskCurve()
    device = next(model.parameters()).device
    for batch in batches:
        assert batch.before is not None and batch.after is not None and batch.mask is not None
        before, after = batch.before.to(device), batch.after.to(device)
        shape = (batch.mask.shape[1], batch.mask.shape[2])
        with torch.autocast(device.type, torch.bfloat16, enabled=bf16):
            if localiser is None:  # the captioner does not run: it may not be trained yet
                probability = enlarge_maps(model.change_head(*model.trunk(before, after)), shape).sigmoid()
            else:
                features = model.encode(before, after, head=False)
                probability = localiser.maps(model, features, shape)
        curve.add(probability.cpu().numpy(), batch.mask.numpy() > 0)
    return curve


def mask_validation(records: Sequence[PairRecord], config: Config) -> Validate:
    """Return the validation of a change head: pixel F1 at threshold 0.5 and at the best threshold."""
    masked = [record for record in records if record.mask is not None]
    batches = list(image_batches(masked, size=config.data.size))

    def validate(model: ChangeCaptioner) -> dict[str, float]:
        curve = mask_curve(model, batches, bf16=config.train.bf16)
        f1 = curve.f1()
        return {
            "mask_f1": float(f1.max()),
            "mask_f1_at_half": float(f1[_BINS // 2]),
            "threshold": curve.best_threshold(),
        }

    return validate


@torch.no_grad()
def encoded_batches(
    model: ChangeCaptioner,
    records: Sequence[PairRecord],
    config: Config,
    *,
    cache: PairCache = EMPTY,
    batch_size: int = 32,
) -> Iterator[DifferenceFeatures]:
    """Yield the encoded pairs in order, from cached trunk maps and extracted changes where there are any."""
    device = next(model.parameters()).device
    for batch in _validation_batches(records, config, cache, batch_size):
        with torch.autocast(device.type, torch.bfloat16, enabled=config.train.bf16):
            yield model.encode_batch(to_device(batch, device))


def _validation_batches(
    records: Sequence[PairRecord], config: Config, cache: PairCache, batch_size: int
) -> Iterator[PairBatch]:
    """Yield the pairs in order, unflipped, from the cache or with images."""
    if cache.maps:
        for part in batches(range(len(records)), batch_size):
            batch = PairBatch()
            cache.add(batch, np.array(part), np.zeros(len(part), dtype=np.int64))
            yield batch
        return
    done = 0
    for batch in image_batches(records, size=config.data.size, batch_size=batch_size):
        assert batch.before is not None
        count = len(batch.before)
        cache.add_extracted(batch, np.arange(done, done + count), ["none"] * count)
        done += count
        batch.mask = None  # it may be large, and is not needed
        yield batch


def caption_validation(
    records: Sequence[PairRecord],
    config: Config,
    *,
    no_change_prefixes: Sequence[Sequence[str]] = (),
    cache: PairCache = EMPTY,
    flag_decides: bool = True,
) -> Validate:
    """Return the validation of a captioner: CIDEr in percent of greedy captions, and flag accuracy.

    As in use, P(changed) decides between the "no change" sentence and a decoded caption without the forbidden
    prefixes. (In use, forbidden runs of words are excluded too.)

    Args:
        flag_decides: False for models that never learn P(changed): then the decoder may say anything, and
            its words are the flag.
    """
    references = {record.id: list(record.captions) for record in records}
    flags = {record.id: truly_changed(record) for record in records}

    def validate(model: ChangeCaptioner) -> dict[str, float]:
        rules = model.search_rules(no_change_prefixes if flag_decides else ())
        captions: dict[str, str] = {}
        right: list[bool] = []
        ids = iter(record.id for record in records)
        device = next(model.parameters()).device
        for features in encoded_batches(model, records, config, cache=cache):
            with torch.autocast(device.type, torch.bfloat16, enabled=config.train.bf16):
                hypotheses = model.generate_from(features, rules=rules)
            for logit, beams in zip(features.changed_logits.tolist(), hypotheses, strict=True):
                words = model.vocabulary.decode(beams[0].ids)
                pair, changed = next(ids), logit >= 0 if flag_decides else not is_no_change(words)
                captions[pair] = words if changed or not flag_decides else NO_CHANGE_CAPTION
                right.append(changed == flags[pair])
        scores = {"cider": cider(captions, references), "flag_accuracy": float(np.mean(right))}
        changed_captions = {pair: caption for pair, caption in captions.items() if flags[pair]}
        if changed_captions:
            changed_references = {pair: references[pair] for pair in changed_captions}
            scores["cider_changed"] = cider(changed_captions, changed_references)
        return scores

    return validate
