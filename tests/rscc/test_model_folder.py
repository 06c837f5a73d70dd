"""Model folders: what is saved is loaded, and damage is refused."""

import os

import pytest
import torch
from saved_models import edit, saved, tiny_facts
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
    assert reloaded.vocabulary.words == model.vocabulary.words
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


def write(member, content):
    """Return what writes a text or bytes in the place of a member."""
    content = content.encode() if isinstance(content, str) else content
    return lambda folder: (folder / member).write_bytes(content)


def remove(member):
    return lambda folder: (folder / member).unlink()


def assert_refused(folder, words) -> None:
    """A folder is refused in one line."""
    with pytest.raises(ModelFolderInvalid) as caught:
        load_model(open_model_folder(folder, check_hashes=True))
    assert "\n" not in str(caught.value)


DAMAGE = {
    "a changed byte": damage_weights,
    "no weights": remove("model.safetensors"),
    "no vocabulary": remove("vocabulary.json"),
    "no card": remove("CARD.md"),
    "no description": remove("model.json"),
    "no JSON": write("model.json", "{"),
    "no text": write("model.json", b"\xff\xfe\x00"),
    "a list": write("model.json", "[]"),
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
    "card is a word": edit(card="good"),
}


@pytest.mark.parametrize("damage", DAMAGE)
def test_a_damaged_folder_is_refused(damage, tmp_path, tiny_registered) -> None:
    saved(tmp_path / "model")
    DAMAGE[damage](tmp_path / "model")
    assert_refused(tmp_path / "model", str(tmp_path / "model"))


@pytest.mark.parametrize(
    ("change", "value", "words"),
    [
        # What does not fit the weights.
        *(("model__width", 32, r"model\."), ("model__decoder_layers", 3, r"model\.")),
        *(("model__decoder_layers", 1, r"model\."), ("model__paper", "unknown", r"model\.")),
        *(("model__backbone", "unknown", r"model\."), ("model__head_width", 12, r"model\.")),
        ("model__backbone", "timm/hf-hub:someone/something", r"model\."),
        *(("model__options", {name: 3}, r"model\.") for name in ("object_vectors", "vectors")),
        # What no model's card has.
        *(("card__tile_size", pixels, r"model\.json") for pixels in (10**9, 0, 250)),
        *(("card__gsd", metres, r"model\.json") for metres in (0.0, float("inf"))),
        *(("card__gsd_range", metres, r"model\.json") for metres in ([2.0, 1.0], [1.0])),
        *(("card__threshold", 2.0, r"model\.json"), ("card__changed_threshold", -1.0, r"model\.json")),
        *(("card__search_size", 520, r"model\.json"), ("card__position_size", 0, r"model\.json")),
        ("card__support", 21, r"model\.json: .*card\.support"),
        ("card__limits", [1], r"card\.limits"),
        # What are no lists of words.
        *(
            (key, words, key)
            for key in ("no_change_prefixes", "no_change_runs")
            for words in (3, [[1]], ["same"], "same", [["same", None]], {"same": 1})
        ),
    ],
)
def test_a_description_with_values_that_no_model_has_is_refused(
    change, value, words, tmp_path, tiny_registered
) -> None:
    saved(tmp_path / "model")
    edit(**{change: value})(tmp_path / "model")
    assert_refused(tmp_path / "model", words)


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
    assert_refused(tmp_path / "model", r"model\.json")
    assert sum(filled) < 2**27


@pytest.mark.parametrize("member", ["model.json", "vocabulary.json"])
@pytest.mark.parametrize("text", ["[" * 100_000, '{"format": NaN}', '{"format": ' + "9" * 5000 + "}"])
def test_a_description_that_no_program_wrote_is_refused(member, text, tmp_path, tiny_registered) -> None:
    folder = saved(tmp_path / "model").path
    (folder / member).write_text(text)
    with pytest.raises(ModelFolderInvalid):
        load_model(open_model_folder(folder))


def test_names_too_long_for_the_system_are_of_no_file(tmp_path, tiny_registered) -> None:
    saved(tmp_path / "model")
    edit(sha256={"model.safetensors": "0", "vocabulary.json": "0", "x" * 5000: "0"})(tmp_path / "model")
    with pytest.raises(ModelFolderInvalid) as caught:
        open_model_folder(tmp_path / "model")
    assert len(str(caught.value)) < 300 + len(str(tmp_path))
    with pytest.raises(ModelNotFound):
        find_model("x" * 5000)


@pytest.mark.parametrize("name", sorted(FACTS))
@pytest.mark.parametrize("content", [b"", b"{", b"[]", b"{}", b"\xff\xfe\x00"])
def test_damaged_facts_are_refused_without_hashes_too(name, content, tmp_path, tiny_registered) -> None:
    folder = saved(tmp_path / "model", facts=tiny_facts())
    (tmp_path / "model" / name).write_bytes(content)
    with pytest.raises(ModelFolderInvalid) as caught:
        load_facts(folder)
    assert "\n" not in str(caught.value)


def test_a_hash_may_not_lead_out_of_the_folder(tmp_path, tiny_registered) -> None:
    saved(tmp_path / "model")
    (tmp_path / "secret").write_text("outside")
    edit(sha256={"model.safetensors": "0", "vocabulary.json": "0", "../secret": "0"})(tmp_path / "model")
    with pytest.raises(ModelFolderInvalid):
        open_model_folder(tmp_path / "model")
