import pytest
import torch
from tiny_models import TinyTextEncoder, fill_retriever, full_batch, random_images, tiny_model

from rscc.models.papers import MODELS

SENTENCES = (
    "a house appears near the road",
    "there is no difference",
    "many trees are removed on the left side of the scene",
    "a road appears on the top of the scene",
)
MOST_STEPS = 400


@pytest.mark.slow
@pytest.mark.parametrize("paper", MODELS)
def test_four_pairs_are_memorised_exactly(paper) -> None:
    """Images, tokens, masks and flags reach the right loss: captions, flags and masks come back as given."""
    torch.manual_seed(0)
    model = MODELS[paper](
        config=tiny_model(paper, width=32, max_words=14).config,
        backbone=tiny_model(paper, seed=5).backbone,
        vocabulary=tiny_model(paper).vocabulary,
        text_encoder=TinyTextEncoder(),
    ).train()
    fill_retriever(model, 0)
    batch = full_batch(model, SENTENCES)
    # Random pixels do not tell where; coarse squares do.
    batch.mask[:] = 0
    for i in range(len(SENTENCES)):
        batch.after[i, :, 16 : 16 + 8 * i, 16:48] = 255
        batch.mask[i, 16 : 16 + 8 * i, 16:48] = 1
    batch.extracted = None  # DAVIR extracts from the images then, as when it is used
    weights = {"caption": 1.0, "change_mask": 0.5, "changed": 0.5}
    weights |= {name: 0.1 for name in model.loss_terms() if name not in weights}
    optimizer = torch.optim.Adam(model.parameters(), lr=6e-3)
    for step in range(MOST_STEPS):
        terms = model.losses(batch, weights)
        optimizer.zero_grad()
        sum(weights[name] * value for name, value in terms.items()).backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        if step % 10 == 9 and terms["caption"].item() < 0.02 and terms["change_mask"].item() < 0.15:
            break
    model.eval()
    with torch.no_grad():
        features = model.encode(batch.before, batch.after)
        for beams in (1, 3):
            found = model.generate_from(features, beams=beams)
            assert tuple(model.vocabulary.decode(one[0].ids) for one in found) == SENTENCES
            assert all(one[0].score > 0.8 for one in found)
        assert ((features.changed_logits > 0).float() == batch.changed).all()
        enlarged = torch.nn.functional.interpolate(features.change_logits[:, None], scale_factor=4)[:, 0] > 0
        agree = (enlarged & (batch.mask > 0)).sum() / (enlarged | (batch.mask > 0)).sum()
        assert agree > 0.8
        other = model.generate_from(model.encode(*random_images(len(SENTENCES), seed=77)))
        assert tuple(model.vocabulary.decode(one[0].ids) for one in other) != SENTENCES
