"""Model folders: what is saved is loaded, and damage is refused."""

import os

import pytest
import torch
from saved_models import edit, saved
from tiny_facts import tiny_facts, tiny_phrasing
from tiny_models import READINGS, TinyTextEncoder, random_images, tiny_model

from rscc.errors import ModelFolderInvalid, ModelNotFound
from rscc.model_folder import FACTS, find_model, load_facts, load_model, open_model_folder


@pytest.mark.parametrize(("paper", "options"), READINGS, ids=str)
def test_a_saved_model_is_the_same_model(paper, options, tmp_path, tiny_registered) -> None:
    model = tiny_model(paper, text_encoder=TinyTextEncoder(), options=options)
    folder = saved(tmp_path / "model", model)
    assert folder == open_model_folder(tmp_path / "model", check_hashes=True)
    assert folder.config == model.config
    assert folder.no_change_prefixes == (("there", "is", "no"),)
    assert len(folder.card.weights_sha256) == 64
    reloaded = load_model(folder)
    assert not reloaded.training
    assert reloaded.vocabulary == model.vocabulary
    state = model.state_dict()
    stored = {name for name in state if not name.startswith(model.training_only)}
    assert set(reloaded.state_dict()) == stored
    assert stored != set(state) or not model.training_only
    for name, value in reloaded.state_dict().items():
        assert value.dtype == state[name].dtype, name
        torch.testing.assert_close(value, state[name], rtol=1e-3, atol=1e-6)
    before, after = random_images(3)
    with torch.no_grad():
        one, two = model.encode(before, after), reloaded.encode(before, after)
    torch.testing.assert_close(one.changed_logits, two.changed_logits, rtol=0.02, atol=0.02)
    torch.testing.assert_close(one.change_logits, two.change_logits, rtol=0.02, atol=0.05)


@pytest.mark.skipif(os.name == "nt", reason="Windows has no such modes")
def test_who_may_read_one_member_may_read_all(tmp_path, tiny_registered) -> None:
    folder = saved(tmp_path / "model", facts=tiny_facts())
    assert len({member.stat().st_mode for member in folder.path.iterdir()}) == 1


def damage_weights(folder) -> None:
    data = bytearray((folder / "model.safetensors").read_bytes())
    data[-1] ^= 1
    (folder / "model.safetensors").write_bytes(bytes(data))


DAMAGE = {
    "a changed byte": damage_weights,
    "no weights": lambda folder: (folder / "model.safetensors").unlink(),
    "no vocabulary": lambda folder: (folder / "vocabulary.json").unlink(),
    "no card": lambda folder: (folder / "CARD.md").unlink(),
    "no description": lambda folder: (folder / "model.json").unlink(),
    "no JSON": lambda folder: (folder / "model.json").write_text("{"),
    "no text": lambda folder: (folder / "model.json").write_bytes(b"\xff\xfe\x00"),
    "a list": lambda folder: (folder / "model.json").write_text("[]"),
    "unknown format": edit(format=99),
    "no hashes": edit(sha256=...),
    "hashes are no table": edit(sha256=[1]),
    "hashes are numbers": edit(sha256={"model.safetensors": 1, "vocabulary.json": 2}),
    "weights not recorded": edit(sha256={"vocabulary.json": "0"}),
    "unknown key of the card": edit(card__colour="red"),
    "card without a name": edit(card__name=...),
    "threshold is a word": edit(card__threshold="high"),
    "unknown size": edit(model__depth=3),
    "impossible size": edit(model__width=17),
    "no heads": edit(model__heads=0),
    "prefixes are a number": edit(no_change_prefixes=3),
    "runs are a number": edit(no_change_runs=3),
    "card is a word": edit(card="good"),
}


@pytest.mark.parametrize("damage", DAMAGE)
def test_a_damaged_folder_is_refused(damage, tmp_path, tiny_registered) -> None:
    saved(tmp_path / "model")
    DAMAGE[damage](tmp_path / "model")
    with pytest.raises(ModelFolderInvalid, match=str(tmp_path / "model")) as caught:
        load_model(open_model_folder(tmp_path / "model", check_hashes=True))
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("key", "value"),
    [
        *(("width", 32), ("decoder_layers", 3), ("decoder_layers", 1), ("paper", "unknown")),
        *(("backbone", "unknown"), ("backbone", "timm/hf-hub:someone/something"), ("head_width", 12)),
        *(("options", {"object_vectors": 3}), ("options", {"vectors": 3})),
    ],
)
def test_a_description_that_does_not_fit_the_weights_is_refused(
    key, value, tmp_path, tiny_registered
) -> None:
    saved(tmp_path / "model")
    edit(**{f"model__{key}": value})(tmp_path / "model")
    with pytest.raises(ModelFolderInvalid, match=r"model\.") as caught:
        load_model(open_model_folder(tmp_path / "model"))
    assert "\n" not in str(caught.value)


HUGE_SIZES = {
    "width": {"width": 16_384, "word_width": 16_384},
    "layers": {"decoder_layers": 128, "width": 16_384},
    "beyond any range": {"width": 2**40, "heads": 2**20},
    "beyond machine numbers": {"width": 10**30},
    "words": {"max_words": 10**9},
    "not a number": {"dropout": float("nan")},
    "head": {"head_width": 8 * 10**6},
    "options": {"options": {"object_vectors": 10**9}},
    "steps": {"options": {"distilling_steps": 10**9}},
    "another trunk": {"backbone": "resnet50"},
}


@pytest.mark.parametrize("sizes", HUGE_SIZES)
def test_sizes_far_beyond_the_weights_that_are_there_take_no_memory(
    sizes, tmp_path, tiny_registered, monkeypatch
) -> None:
    """The address space of a child would be a limit too, but a test needs none: no tensor is filled."""
    filled = []

    def count(tensor, *arguments, **options):
        filled.append(tensor.numel())
        return tensor

    saved(tmp_path / "model")
    edit(**{f"model__{key}": value for key, value in HUGE_SIZES[sizes].items()})(tmp_path / "model")
    for name in ("kaiming_uniform_", "uniform_", "xavier_uniform_", "normal_", "kaiming_normal_"):
        monkeypatch.setattr(torch.nn.init, name, count)
    with pytest.raises(ModelFolderInvalid, match=r"model\.json") as caught:
        load_model(open_model_folder(tmp_path / "model"))
    assert "\n" not in str(caught.value)
    assert sum(filled) < 2**27


@pytest.mark.parametrize("member", ["model.json", "vocabulary.json"])
@pytest.mark.parametrize("text", ["[" * 100_000, '{"format": NaN}', '{"format": ' + "9" * 5000 + "}"])
def test_a_description_that_no_program_wrote_is_refused(member, text, tmp_path, tiny_registered) -> None:
    folder = saved(tmp_path / "model").path
    (folder / member).write_text(text)
    with pytest.raises(ModelFolderInvalid, match=member):
        load_model(open_model_folder(folder))


@pytest.mark.parametrize(
    "values",
    [
        {"tile_size": 10**9}, {"tile_size": 0}, {"gsd": 0.0}, {"gsd": float("inf")}, {"threshold": 2.0},
        {"gsd_range": [2.0, 1.0]}, {"gsd_range": [1.0]}, {"changed_threshold": -1.0}, {"draws": 10**9},
        {"tile_size": 250}, {"search_size": 520}, {"position_size": 0},
    ],
)  # fmt: skip
def test_a_card_with_values_that_no_model_has_is_refused(values, tmp_path, tiny_registered) -> None:
    folder = saved(tmp_path / "model").path
    edit(**{f"card__{key}": value for key, value in values.items()})(folder)
    with pytest.raises(ModelFolderInvalid, match=r"model\.json"):
        open_model_folder(folder)


def test_a_hash_may_not_lead_out_of_the_folder(tmp_path, tiny_registered) -> None:
    saved(tmp_path / "model")
    (tmp_path / "secret").write_text("outside")
    edit(sha256={"model.safetensors": "0", "vocabulary.json": "0", "../secret": "0"})(tmp_path / "model")
    with pytest.raises(ModelFolderInvalid, match="secret is missing"):
        open_model_folder(tmp_path / "model")


def test_names_too_long_for_the_system_are_of_no_file(tmp_path, tiny_registered) -> None:
    saved(tmp_path / "model")
    edit(sha256={"model.safetensors": "0", "vocabulary.json": "0", "x" * 5000: "0"})(tmp_path / "model")
    with pytest.raises(ModelFolderInvalid, match="x is missing") as caught:
        open_model_folder(tmp_path / "model")
    assert len(str(caught.value)) < 300 + len(str(tmp_path))
    with pytest.raises(ModelNotFound, match="no such model"):
        find_model("x" * 5000)


def test_a_folder_may_tell_facts(tmp_path, tiny_registered) -> None:
    assert load_facts(saved(tmp_path / "plain")) is None
    facts = tiny_facts(tiny_phrasing(), sure=(0.7,) * 15)
    folder = saved(tmp_path / "model", facts=facts)
    assert folder.tells_facts and folder == open_model_folder(tmp_path / "model", check_hashes=True)
    loaded = load_facts(folder)
    assert loaded is not None and loaded.rules == facts.rules
    assert loaded.phrasing is not None and loaded.phrasing.rarity == tiny_phrasing().rarity
    again = saved(tmp_path / "model")
    assert not again.tells_facts and not any((again.path / name).exists() for name in FACTS)


def tampered(folder) -> None:
    content = (folder / "facts.json").read_text()
    (folder / "facts.json").write_text(content.replace('"sure"', '"Sure"'))


FACTS_DAMAGE = {
    "tampered": tampered,
    "no rules": lambda folder: (folder / "facts.json").unlink(),
    "no weights": lambda folder: (folder / "facts.safetensors").unlink(),
}


@pytest.mark.parametrize("damage", FACTS_DAMAGE)
def test_damaged_facts_are_refused_by_their_hash(damage, tmp_path, tiny_registered) -> None:
    saved(tmp_path / "model", facts=tiny_facts())
    FACTS_DAMAGE[damage](tmp_path / "model")
    with pytest.raises(ModelFolderInvalid, match=r"model.*facts\.") as caught:
        open_model_folder(tmp_path / "model", check_hashes=True)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("name", sorted(FACTS))
@pytest.mark.parametrize("content", [b"", b"{", b"[]", b"{}", b"\xff\xfe\x00"])
def test_damaged_facts_are_refused_without_hashes_too(name, content, tmp_path, tiny_registered) -> None:
    folder = saved(tmp_path / "model", facts=tiny_facts())
    (tmp_path / "model" / name).write_bytes(content)
    with pytest.raises(ModelFolderInvalid, match=r"facts\.json: not facts that fit \([^\[]") as caught:
        load_facts(folder)
    assert "\n" not in str(caught.value)
