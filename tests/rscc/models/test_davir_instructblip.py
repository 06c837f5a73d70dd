"""DAVIR in the size of the paper, from images to captions, as every captioner is used."""

import dataclasses

import pytest
import torch
from safetensors.torch import load_file
from saved_models import saved
from tiny_instructblip import check_gradients, save_tiny_folder, tiny_instructblip
from tiny_models import (
    attention_losses,
    fill_retriever,
    full_batch,
    random_images,
    tiny_backbone,
    tiny_config,
    tiny_vocabulary,
)

from rscc.config import load_config
from rscc.errors import ConfigInvalid, WeightsNotFound
from rscc.model_folder import load_model, open_model_folder
from rscc.models.davir import Davir
from rscc.models.instructblip import load_instructblip
from rscc.training.loop import build_optimizer, freeze

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


def test_each_date_keeps_its_place(davir) -> None:
    before, after = random_images(2)
    with torch.no_grad():
        forth, back = davir.encode(before, after), davir.encode(after, before)
    # One pass encodes both dates: sums over a batch of another size may round otherwise.
    torch.testing.assert_close(forth.encoded.before, davir.backbone.encode(before)[0])
    torch.testing.assert_close(forth.encoded.attention_after, davir.backbone.encode(after)[1])
    assert not torch.allclose(forth.encoded.before, back.encoded.before, atol=0.01)
    assert not torch.allclose(davir.memory(forth)[:, :10], davir.memory(back)[:, :10])


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


def test_the_papers_loss_trains_adapters_only() -> None:
    """What this project adds (its heads) is left out by the weights of its losses."""
    model = tiny_davir()
    terms = model.losses(
        full_batch(model, CAPTIONS), {"caption": 1, "attention": 0.1, "changed": 0, "change_mask": 0}
    )
    (terms["caption"] + 0.1 * terms["attention"]).backward()
    learning = {name for name, p in model.named_parameters() if p.grad is not None}
    assert learning == {name for name, _ in model.named_parameters() if "lora_" in name}


def test_attention_alone_moves_the_vits_adapters_to_the_mask() -> None:
    model = tiny_davir()
    batch = dataclasses.replace(full_batch(model, CAPTIONS), extracted=torch.eye(4).repeat(3, 1, 1))
    losses = attention_losses(model, batch, steps=25)
    assert losses[-1] < 0.6 * losses[0]


@pytest.mark.parametrize("beams", [1, 3])
def test_batches_are_single_samples(davir, beams) -> None:
    before, after = random_images(3)
    together = davir.generate_from(davir.encode(before, after), beams=beams)
    for row in range(3):
        (alone,) = davir.generate_from(davir.encode(before[row : row + 1], after[row : row + 1]), beams=beams)
        assert [one.ids for one in alone] == [one.ids for one in together[row]]


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
    assert loaded.vocabulary == model.vocabulary
    with torch.autocast("cpu", torch.bfloat16):
        one, two = (m.generate_from(m.encode(*random_images(2)), beams=2) for m in (model, loaded))
    assert [[h.ids for h in some] for some in one] == [[h.ids for h in some] for some in two]
    (folder / "config.json").unlink()
    with pytest.raises(WeightsNotFound, match="blip"):
        load_model(open_model_folder(tmp_path / "model"))


def test_the_size_needs_its_trunk_and_the_trunk_its_size() -> None:
    config = tiny_config("davir", options={"size": "instructblip"})
    with pytest.raises(ConfigInvalid, match="instructblip/<folder"):
        Davir(config=config, backbone=tiny_backbone(), vocabulary=tiny_vocabulary())
    with pytest.raises(ConfigInvalid, match="size is 'compact'"):
        tiny_davir(size="compact")


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
