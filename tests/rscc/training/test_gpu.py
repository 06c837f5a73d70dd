"""On a GPU the models say and learn what they do on the processor; for machines that have one."""

import numpy as np
import pytest
import torch
from saved_models import saved, tiny_facts
from tiny_models import CAPTIONS, TinyTextEncoder, full_batch, random_arrays, randomise, tiny_model
from training_runs import LOSS, small_config, trained

from rscc.captioner import Captioner
from rscc.data.pairs import to_device
from rscc.models.papers import MODELS
from rscc.training.training_run import RunPaths

pytestmark = [
    pytest.mark.usefixtures("tiny_registered"),
    pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU of CUDA here"),
]
DEVICES = ("cpu", "cuda")


@pytest.fixture(autouse=True)
def whole_floats(monkeypatch) -> None:
    """Random weights are sharp: TF32, which convolutions take there by default, says other words."""
    monkeypatch.setattr(torch.backends.cudnn, "allow_tf32", False)


def both(folder, **how) -> list[Captioner]:
    """The same model on the processor and on the GPU, both in float32."""
    captioners = [Captioner.load(folder, device=device, **how) for device in DEVICES]
    for captioner in captioners:
        captioner.bf16 = False
    return captioners


@pytest.mark.parametrize("paper", MODELS)
def test_a_gpu_says_what_the_processor_says(paper, tmp_path) -> None:
    folder = saved(tmp_path / "tiny", tiny_model(paper, seed=2), threshold=0.4).path
    pair = random_arrays(4)
    here, there = ([c.predict_change(*pair), c.caption(*pair), c.describe(*pair)] for c in both(folder))
    np.testing.assert_allclose(there[0].change_probability, here[0].change_probability, atol=5e-3)
    np.testing.assert_allclose(there[0].changed_probability, here[0].changed_probability, atol=5e-3)
    assert [one.text for one in there[1]] == [one.text for one in here[1]]
    assert [one.text for one in there[2][1]] == [one.text for one in here[2][1]]


def test_facts_and_explanations_are_the_same(tmp_path) -> None:
    folder = saved(tmp_path / "tiny", tiny_model(seed=2), threshold=0.4, facts=tiny_facts()).path
    pair = random_arrays(4)
    here, there = (
        [*c.survey(*pair), [one.text for one in c.caption(*pair, assume_changed=True)]] for c in both(folder)
    )
    np.testing.assert_allclose(there[0], here[0], atol=5e-3)
    np.testing.assert_allclose(there[1], here[1], atol=5e-2)
    assert there[2] == here[2]
    here, there = (c.explain(pair[0][0], pair[1][0]).caption.text for c in both(folder, ground=False))
    assert there == here


@pytest.mark.parametrize("paper", MODELS)
def test_losses_and_gradients_are_the_same(paper) -> None:
    found = []
    for device in DEVICES:
        torch.manual_seed(1)
        model = tiny_model(paper, text_encoder=TinyTextEncoder())
        randomise(model, seed=1, scale=0.1)
        model.to(device)
        batch = to_device(full_batch(model, CAPTIONS), torch.device(device))
        losses = model.losses(batch, dict.fromkeys(model.loss_terms(), 1.0))
        sum(losses.values()).backward()
        gradients = [p.grad.norm().item() for p in model.parameters() if p.grad is not None]
        found.append(({name: loss.item() for name, loss in losses.items()}, gradients))
    (here, slopes), (there, others) = found
    assert there == pytest.approx(here, rel=1e-3)
    # Biases that a softmax takes away have slopes of rounding errors alone.
    assert others == pytest.approx(slopes, rel=0.1, abs=1e-6 * max(slopes))


def test_training_ends_in_a_model(data, tmp_path) -> None:
    config = small_config({"epochs": 2, "batch_size": 4, "ema": 0.9}, LOSS | {"n2o": 0, "v2a": 0})
    made = trained(config, RunPaths(data=data, output=tmp_path / "run"), device="cuda")
    (caption,) = Captioner.load(made.path, device="cuda").caption(*random_arrays(1))
    assert caption.text
