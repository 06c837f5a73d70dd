"""Extracted changes on their way from the images to DAVIR, stored and in batches."""

from types import SimpleNamespace

import numpy as np
import pytest
import torch
from datasets import write_levir_cc
from tiny_models import tiny_backbone
from training_runs import quick_config

from rscc.data.benchmarks.levir_cc import LevirCC
from rscc.data.caches import PairCache, store_extracted
from rscc.data.pairs import FLIPS, flip_array, flip_words, read_pair, resize_sample
from rscc.data.sources import CaptionText, FeatureCaptionSource, ImageCaptionSource, all_forms
from rscc.data.trunk_maps import store_trunk_maps
from rscc.models.shared.extraction import ChangeExtractor, Extraction
from rscc.structures import PairBatch
from rscc.text.vocabulary import Vocabulary
from rscc.training.train_model import training_material


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    return write_levir_cc(tmp_path_factory.mktemp("levir_cc"), train=5, val=3)


EXTRACTOR = ChangeExtractor(Extraction(min_samples=2))


def extracted_of(cache: PairCache, indices, flips) -> torch.Tensor:
    batch = PairBatch()
    cache.add_extracted(batch, np.array(indices), flips)
    return batch.extracted


def test_what_another_extractor_found_is_not_taken_from_the_cache(data, tmp_path) -> None:
    other, records = ChangeExtractor(Extraction(min_samples=40)), LevirCC(data, "train")
    one, again, alone = (
        store_extracted(extractor, records, tmp_path / folder, size=64, grid=(4, 4))
        for extractor, folder in ((EXTRACTOR, "shared"), (other, "shared"), (other, "alone"))
    )
    assert np.array_equal(again, alone) and not np.array_equal(one, again)


@pytest.mark.parametrize("kind", ["images", "features"])
def test_batches_carry_what_was_extracted_turned_as_their_pairs(data, tmp_path, kind) -> None:
    records = LevirCC(data, "train")
    extracted = store_extracted(EXTRACTOR, records, tmp_path, size=64, grid=(4, 4))
    text = CaptionText(Vocabulary.build(all_forms(records), min_count=1), max_words=14)
    trunk = tiny_backbone().eval()
    maps = store_trunk_maps(trunk, records, tmp_path, quick_config())
    cache = PairCache(*maps, extracted=extracted, flips=FLIPS)
    shares = {(i, flip): extracted_of(cache, [i], [flip])[0] for i in range(len(records)) for flip in FLIPS}
    if kind == "features":
        source = FeatureCaptionSource(records, text, quick_config(batch_size=5), cache)
        known = {key: cache.read(np.array([key[0]]), np.array([FLIPS.index(key[1])]))[0] for key in shares}
    else:
        source = ImageCaptionSource(records, text, quick_config(batch_size=5), cache)
        known = {
            (i, flip): torch.from_numpy(flip_array(resize_sample(read_pair(records[i]), 64).before, flip))
            for i, flip in shares
        }
    flips = set()
    for number in range(3):
        (batch,) = source.epoch(number)
        pictures = batch.features if kind == "features" else batch.before
        for picture, share, ids in zip(pictures, batch.extracted, batch.tokens, strict=True):
            distance = {
                key: (picture.float() - one.float()).abs().mean().item() for key, one in known.items()
            }
            index, flip = min(distance, key=distance.get)
            torch.testing.assert_close(share, shares[index, flip])
            forms = {flip_words(caption, flip) for caption in records[index].captions}
            assert text.vocabulary.decode(ids[1:].tolist()) in forms
            flips.add(flip)
    assert len(flips) > 2


def test_a_model_is_prepared_from_the_same_with_and_without_stored_features(data, tmp_path) -> None:
    records, config, trunk = LevirCC(data, "train"), quick_config(), tiny_backbone().eval()
    extracted = store_extracted(EXTRACTOR, records, tmp_path, size=64, grid=(4, 4))
    model = SimpleNamespace(
        prepares_from_features=True, eval=lambda: None, backbone=trunk, preparation_weights=lambda one: one
    )
    stored = PairCache(*store_trunk_maps(trunk, records, tmp_path, config), extracted=extracted, flips=FLIPS)
    pooled, direct = (
        training_material(model, config, records, cache).pooled
        for cache in (stored, PairCache(extracted=extracted))
    )
    np.testing.assert_allclose(pooled, direct, rtol=0.02, atol=0.02)
    assert not np.allclose(pooled, stored.pooled(None), rtol=0.02, atol=0.02)
