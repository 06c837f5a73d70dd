"""DAVIR in the size of the paper, from images to captions, as every captioner is used."""

import pytest
import torch
from foundation_models import check_gradients, save_tiny_folder, tiny_instructblip
from safetensors.torch import load_file
from saved_models import saved
from tiny_models import fill_retriever, full_batch, random_images, tiny_config

from rscc.configs import load_config
from rscc.errors import WeightsNotFound
from rscc.model_folder import load_model, open_model_folder
from rscc.models.davir import Davir
from rscc.models.instructblip import load_instructblip
from rscc.training.training_loop import build_optimizer, freeze

pytestmark = pytest.mark.slow

LOSS = {"caption": 1.0, "change_mask": 1.0, "changed": 1.0, "attention": 0.1}
CAPTIONS = ["a house appears near the road", "there is no difference", "villas built"]


def tiny_davir(vision=None, *, backbone: str = "instructblip/tiny", **options) -> Davir:
    vision = tiny_instructblip() if vision is None else vision
    config = tiny_config(
        "davir", backbone=backbone, max_words=14, options={"size": "instructblip", **options}
    )
    torch.manual_seed(4)
    model = Davir(config=config, backbone=vision, vocabulary=vision.vocabulary)
    fill_retriever(model, 3)
    return model.eval()


@pytest.fixture(scope="module")
def davir() -> Davir:
    return tiny_davir()


def test_the_prompt_names_the_retrieved_entities(davir) -> None:
    with torch.no_grad():
        features = davir.encode(*random_images(2))
    for row, names in enumerate(davir.entities(features)):
        assert len(names) == davir.options.entities
        text = f"{davir.options.instruction} Entity: {', '.join(names)}"
        assert davir.parts.prompt(names) == text
        ids = torch.tensor(davir.vocabulary.prompt(text, 128))
        words = davir.decoder.language_model.get_input_embeddings()(ids)
        assert torch.equal(davir.memory(features)[row, 10 : 10 + len(ids)], words)
    plain = tiny_davir(prompt=False)
    assert plain.parts.prompt(plain.entities(plain.encode(*random_images(1)))[0]) == plain.options.instruction


def test_every_trained_parameter_learns_from_the_joint_loss() -> None:
    model = tiny_davir()
    terms = model.losses(full_batch(model, CAPTIONS), LOSS)
    assert set(terms) == set(LOSS)
    assert all(torch.isfinite(value) for value in terms.values())
    torch.stack([LOSS[name] * value for name, value in terms.items()]).sum().backward()
    check_gradients(model)
    trained = {name.split(".")[0] for name, p in model.named_parameters() if p.requires_grad}
    assert trained == {"backbone", "parts", "decoder", "project", "positions", "change_head", "changed_head"}


@pytest.mark.parametrize("beams", [1, 3])
def test_batches_are_single_samples(davir, beams) -> None:
    before, after = random_images(3)
    together = davir.generate_from(davir.encode(before, after), beams=beams)
    for row in range(3):
        (alone,) = davir.generate_from(davir.encode(before[row : row + 1], after[row : row + 1]), beams=beams)
        assert [one.ids for one in alone] == [one.ids for one in together[row]]
        assert [one.score for one in alone] == pytest.approx([one.score for one in together[row]], abs=1e-5)


def test_a_folder_of_adapters_on_a_folder_of_weights(tmp_path) -> None:
    """The saved model holds what was trained; the frozen weights come from where the trunk's name says."""
    folder = save_tiny_folder(tmp_path / "blip")
    vision = load_instructblip(str(folder), dtype=torch.bfloat16)
    model = tiny_davir(vision, backbone=f"instructblip/{folder}")
    generator = torch.Generator().manual_seed(5)
    for name, parameter in model.named_parameters():
        if "lora_" in name:  # values that half precision keeps
            parameter.data = (torch.randn(parameter.shape, generator=generator) * 0.3).half().float()
    saved(tmp_path / "model", model)
    state = load_file(tmp_path / "model" / "model.safetensors")
    frozen = {name for name, parameter in model.named_parameters() if not parameter.requires_grad}
    assert not frozen & set(state)
    assert any("lora_" in name for name in state)
    loaded = load_model(open_model_folder(tmp_path / "model", check_hashes=True))
    assert loaded.vocabulary.words == model.vocabulary.words
    with torch.autocast("cpu", torch.bfloat16):
        one, two = (m.generate_from(m.encode(*random_images(2)), beams=2) for m in (model, loaded))
    assert [[h.ids for h in some] for some in one] == [[h.ids for h in some] for some in two]
    (folder / "config.json").unlink()
    with pytest.raises(WeightsNotFound):
        load_model(open_model_folder(tmp_path / "model"))


def test_the_papers_config_trains_the_adapters_and_nothing_else() -> None:
    config = load_config("davir_instructblip_levir_cc")
    vision = tiny_instructblip()
    model = Davir(config=config.model, backbone=vision, vocabulary=vision.vocabulary)
    freeze(model, config.train.frozen)
    optimizer = build_optimizer(model, config.train)
    trained = {id(p) for group in optimizer.param_groups for p in group["params"]}
    assert trained == {id(p) for name, p in model.named_parameters() if "lora_" in name}
    assert {group["lr"] for group in optimizer.param_groups} == {1e-5}
    assert set(config.loss) == set(model.loss_terms())
