"""Extracted changes on their way from the images to DAVIR, stored and in batches."""

from functools import partial

import numpy as np
import pytest
import torch
from levir_cc_fixture import write_levir_cc
from tiny_models import tiny_backbone, tiny_model

from rscc.data.benchmarks.levir_cc import LevirCC
from rscc.data.caches import build_extraction_cache, build_feature_cache, trunk_grid
from rscc.data.pairs import FLIPS, flip_array, flip_words, read_pair, resize_sample
from rscc.data.sources import CaptionText, FeatureCaptionSource, ImageCaptionSource, all_forms
from rscc.models.shared.extraction import ChangeExtractor, Extraction
from rscc.text.vocabulary import Vocabulary
from rscc.training.caching import Caches
from rscc.training.validation import encoded_batches


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    return write_levir_cc(tmp_path_factory.mktemp("levir_cc"), train=5, val=3)


EXTRACTOR = ChangeExtractor(Extraction(min_samples=2))


def test_extracted_changes_are_kept_once_and_turned_with_the_pair(data, tmp_path) -> None:
    records = LevirCC(data, "train").records
    seen: list[tuple[int, int]] = []
    build = partial(build_extraction_cache, records=records, folder=tmp_path, size=64, grid=(4, 4))
    cache = build(EXTRACTOR, progress=lambda done, total: seen.append((done, total)))
    assert seen[-1] == (5, 5)
    build(EXTRACTOR, progress=lambda done, total: pytest.fail("computed again"))
    assert len(list(tmp_path.glob("*.npy"))) == 1
    build(ChangeExtractor(Extraction(delta=1)))
    assert len(list(tmp_path.glob("*.npy"))) == 2
    found = cache.read(np.array([2, 2, 0]), ["none", "horizontal", "vertical"])
    for row, (index, flip) in enumerate([(2, "none"), (2, "horizontal"), (0, "vertical")]):
        sample = read_pair(records[index])
        mask = flip_array(EXTRACTOR(sample.before, sample.after), flip)
        np.testing.assert_allclose(found[row], mask.reshape(4, 16, 4, 16).mean((1, 3)), atol=1e-3)
    assert found[0].any() and not torch.equal(found[0], found[1])


@pytest.mark.parametrize("kind", ["images", "features"])
def test_batches_carry_what_was_extracted_turned_as_their_pairs(data, tmp_path, kind) -> None:
    records = LevirCC(data, "train").records
    extracted = build_extraction_cache(EXTRACTOR, records, tmp_path, size=64, grid=(4, 4))
    text = CaptionText(Vocabulary.build(all_forms(records), min_count=1), max_words=14)
    trunk = tiny_backbone().eval()
    cache = build_feature_cache(trunk, records, tmp_path, size=64, bf16=False)
    shares = {
        (i, flip): extracted.read(np.array([i]), [flip])[0] for i in range(len(records)) for flip in FLIPS
    }
    if kind == "features":
        source = FeatureCaptionSource(records, text, cache, batch_size=5, seed=1, extracted=extracted)
        known = {
            key: torch.from_numpy(cache.read(np.array([key[0]]), np.array([FLIPS.index(key[1])]))[0])
            for key in shares
        }
    else:
        source = ImageCaptionSource(
            records, text, batch_size=5, size=64, augment=True, seed=1, extracted=extracted
        )
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


@pytest.mark.parametrize("cached", [True, False])
def test_validation_sees_what_inference_sees(data, tmp_path, cached) -> None:
    """Kept changes, read with images or with features, give what a pair of images gives."""
    model = tiny_model("davir", options={"queries": 3, "min_samples": 2})
    records = LevirCC(data, "val").records
    assert trunk_grid(model.backbone, 64) == (4, 4)
    extracted = build_extraction_cache(model.extractor, records, tmp_path, size=64, grid=(4, 4))
    cache = None
    if cached:
        cache = build_feature_cache(model.backbone, records, tmp_path, size=64, flips=("none",), bf16=False)
    caches = Caches(cache, extracted)
    batches = encoded_batches(model, records, size=64, caches=caches, bf16=False, batch_size=2)
    memory = torch.cat([model.memory(features) for features in batches])
    samples = [read_pair(record) for record in records]
    before = torch.from_numpy(np.stack([sample.before for sample in samples]))
    after = torch.from_numpy(np.stack([sample.after for sample in samples]))
    with torch.no_grad():
        expected = model.memory(model.encode(before, after))
    torch.testing.assert_close(memory, expected, atol=5e-3, rtol=5e-3)
