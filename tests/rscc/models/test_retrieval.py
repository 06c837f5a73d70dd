"""Entity retrieval: Eq. 1 of CHEERS index by index, the retriever that is fitted here, and CLIP's."""

import math

import numpy as np
import pytest
import torch
from foundation_models import write_tiny_clip
from tiny_models import randoms, values

from rscc.models.cheers import retrieve_entities
from rscc.models.shared.retrieval import ClipRetriever, OfflineRetriever
from rscc.structures import PairView, TrainingMaterial

CHANNELS, WIDTH = 12, 48
NAMES = ("houses", "road", "trees", "scene")


def slow_retrieval(before: np.ndarray, after: np.ndarray, count: int) -> list[int]:
    """Eq. 1 for one pair: entities that pass the constraint, by the size of the difference; then the rest."""
    entities = range(len(before))
    mean_before, mean_after = sum(before) / len(before), sum(after) / len(after)
    passed = [m for m in entities if before[m] > mean_before or after[m] > mean_after]
    rest = [m for m in entities if m not in passed]
    order = [sorted(some, key=lambda m: -abs(before[m] - after[m])) for some in (passed, rest)]
    return (order[0] + order[1])[:count]


def view(before: torch.Tensor, after: torch.Tensor, images=None) -> PairView:
    """A view of two maps (B, C, h, w)."""
    tokens = [maps.flatten(2).transpose(1, 2) for maps in (before, after)]
    return PairView(tokens[0], tokens[1], before, after, (before.shape[2], before.shape[3]), images)


def world(seed: int = 0, pairs: int = 300) -> tuple[TrainingMaterial, np.ndarray]:
    """Pairs in which an entity that changed adds its own direction to the second date's features.

    Trees vanish: they add theirs to the first date. A third of the pairs is unchanged and names "scene".
    """
    generator = np.random.default_rng(seed)
    directions = np.linalg.qr(np.random.default_rng(9).normal(size=(CHANNELS, CHANNELS)))[0][:3]
    pooled = np.repeat(generator.normal(size=(pairs, 1, CHANNELS)), 2, axis=1)
    pooled += 0.1 * generator.normal(size=pooled.shape)
    named = np.zeros((pairs, len(NAMES)), dtype=bool)
    changed: list[bool | None] = []
    for i in range(pairs):
        changed.append(i % 3 != 0)
        if not changed[-1]:
            named[i, 3] = True
            continue
        entity = int(generator.integers(3))
        named[i, entity] = True
        pooled[i, 0 if NAMES[entity] == "trees" else 1] += 4 * directions[entity]
    material = TrainingMaterial(
        captions=[[] for _ in range(pairs)], changed=changed, pooled=pooled.astype(np.float32), seed=seed
    )
    return material, named


def fitted(material: TrainingMaterial, named: np.ndarray, **settings) -> OfflineRetriever:
    features = randoms(len(NAMES), WIDTH, seed=3) * 4
    return OfflineRetriever.fit(material, names=NAMES, entity_features=features, named=named, **settings)


def similarities(retriever, material: TrainingMaterial) -> tuple[torch.Tensor, torch.Tensor]:
    maps = torch.from_numpy(material.pooled)[..., None, None]
    pair = view(maps[:, 0], maps[:, 1])
    return retriever.similarities(pair, date="before"), retriever.similarities(pair, date="after")


@pytest.mark.parametrize("count", [1, 3, 6])
def test_retrieval_is_equation_1_with_its_constraint(count) -> None:
    before, after = randoms(20, 6).tanh(), randoms(20, 6, seed=1).tanh()
    fast = retrieve_entities(before, after, count).tolist()
    assert fast == [slow_retrieval(values(before[b]), values(after[b]), count) for b in range(20)]


def test_the_fitted_map_finds_what_other_pairs_name() -> None:
    retriever = fitted(*world(0))
    material, named = world(1)
    first = retrieve_entities(*similarities(retriever, material), 1)[:, 0].numpy()
    changed = np.array(material.changed)
    assert named[np.arange(len(first)), first][changed].mean() > 0.8
    unfitted = fitted(*world(0), steps=0)
    blind = retrieve_entities(*similarities(unfitted, material), 1)[:, 0].numpy()
    assert named[np.arange(len(blind)), blind][changed].mean() < 0.6


def test_what_stands_in_either_date_is_found_by_the_larger_similarity() -> None:
    """Entities of unchanged pairs stand in both dates: only the score "either" can learn them."""

    def standing(seed: int) -> tuple[TrainingMaterial, np.ndarray]:
        material, named = world(seed)
        scene = np.random.default_rng(8).normal(size=CHANNELS)
        material.pooled[named[:, 3]] += 4 * (scene / np.linalg.norm(scene)).astype(np.float32)
        return material, named

    def share_found(score: str) -> float:
        retriever = fitted(*standing(0), score=score)
        material, named = standing(1)
        first = torch.maximum(*similarities(retriever, material)).argmax(1).numpy()
        return named[np.arange(len(first)), first].mean()

    assert share_found("either") > 0.8
    assert share_found("gain") < 0.6


def test_the_first_step_follows_the_loss_that_the_docstring_gives() -> None:
    """Adam's first step goes against the sign of the gradient, here of the slow loss."""
    material, named = world(2, pairs=9)
    material.changed[1] = None  # unknown: teaches
    named[2] = False  # without a name: does not
    start, moved = fitted(material, named, steps=0), fitted(material, named, steps=1)
    images = (material.pooled - values(start.mean)) * values(start.scale)
    entities = values(start.entity_features)

    def loss(matrix: np.ndarray) -> float:
        total, count = 0.0, 0
        for i in (1, 4, 5, 7, 8):
            cosines = []
            for date in (0, 1):
                image = matrix @ images[i, date]
                cosines.append([sum(image * e) / math.sqrt(sum(image**2)) for e in entities])
            gains = [math.exp((a - b) / 0.1) for b, a in zip(*cosines, strict=True)]
            for m in np.flatnonzero(named[i]):
                total, count = total - math.log(gains[m] / sum(gains)), count + 1
        return total / count

    matrix = values(start.map)
    for number in range(0, matrix.size, 11):
        row, column = divmod(number, CHANNELS)
        step = np.zeros_like(matrix)
        step[row, column] = 1e-5
        slope = (loss(matrix + step) - loss(matrix - step)) / 2e-5
        expected = -slope / CHANNELS / (abs(slope) + 1e-8)
        assert float(moved.map[row, column]) - matrix[row, column] == pytest.approx(
            expected, rel=0.02, abs=1e-4
        )


# CLIP: a small model of the real classes with random weights


@pytest.fixture
def small_clip(tmp_path, monkeypatch) -> str:
    return str(write_tiny_clip(tmp_path / "tiny.pt", monkeypatch))


def test_clip_compares_images_and_names_in_its_own_space(small_clip) -> None:
    import open_clip

    retriever = ClipRetriever.of(NAMES, architecture="tiny-clip", source=small_clip)
    towers = open_clip.create_model("tiny-clip", pretrained=small_clip, weights_only=True).eval()
    images = (torch.rand(2, 3, 32, 32) * 255, torch.rand(2, 3, 32, 32) * 255)
    maps = torch.zeros(2, CHANNELS, 2, 2)
    pair = view(maps, maps, images)
    mean, std = (torch.tensor(v).view(3, 1, 1) for v in (towers.visual.image_mean, towers.visual.image_std))
    with torch.no_grad():
        text = towers.encode_text(open_clip.get_tokenizer("tiny-clip")(list(NAMES)), normalize=True)
        for image, date in zip(images, ("before", "after"), strict=True):
            seen = towers.encode_image((image / 255 - mean) / std, normalize=True)
            torch.testing.assert_close(retriever.similarities(pair, date=date), seen @ text.T)
        half = torch.tensor([[1.0, 0.0], [1.0, 0.0]]).expand(2, 2, 2)
        other = images[1].clone()
        other[..., 31] = 0
        seen = [
            retriever.similarities(view(maps, maps, (images[0], one)), date="after", weights=half)
            for one in (images[1], other)
        ]
    torch.testing.assert_close(seen[0], seen[1])
    assert not list(retriever.parameters()), "the towers are neither trained nor saved"
    assert set(retriever.state_dict()) == {"entity_features"}
