"""Damaged model folders: refused in one line that names the folder, or loaded."""

from __future__ import annotations

import json
import struct
from pathlib import Path

import pytest
from damage import damaged_bytes, damaged_json, fuzzed, ours_only
from hypothesis import given
from hypothesis import strategies as st
from saved_models import saved
from tiny_facts import tiny_facts, tiny_phrasing
from tiny_models import tiny_backbone

from rscc.config import config_from_dict, load_config
from rscc.model_folder import load_facts, load_model, open_model_folder
from rscc.models import trunks
from rscc.text.tokenizer import load_vocabulary

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    trunks.BACKBONES["tiny"] = tiny_backbone
    yield saved(tmp_path_factory.mktemp("models") / "model", facts=tiny_facts(tiny_phrasing())).path
    del trunks.BACKBONES["tiny"]


def damaged(data, folder: Path, name: str) -> None:
    """Damage one member; a second call takes the sound one again."""
    sound = folder.parent / f"sound-{name}"
    if not sound.exists():
        sound.write_bytes((folder / name).read_bytes())
    content = sound.read_bytes()
    strategy = damaged_bytes(content)
    if name.endswith(".json"):
        strategy |= damaged_json(json.loads(content))
    (folder / name).write_bytes(data.draw(strategy))


def restored(folder: Path, name: str) -> None:
    (folder / name).write_bytes((folder.parent / f"sound-{name}").read_bytes())


@pytest.mark.parametrize("name", ["model.json", "vocabulary.json", "model.safetensors"])
def test_models(folder, name):
    @fuzzed
    @given(data=st.data())
    def fuzz(data):
        damaged(data, folder, name)
        with ours_only():
            load_model(open_model_folder(folder))

    try:
        fuzz()
    finally:
        restored(folder, name)


@pytest.mark.parametrize("name", ["facts.json", "facts.safetensors"])
def test_facts(folder, name):
    @fuzzed
    @given(data=st.data())
    def fuzz(data):
        damaged(data, folder, name)
        with ours_only():
            load_facts(open_model_folder(folder))

    try:
        fuzz()
    finally:
        restored(folder, name)


def header_of(content: bytes) -> dict:
    (length,) = struct.unpack("<Q", content[:8])
    return json.loads(content[8 : 8 + length])


def test_headers_of_weights(folder):
    """The header's own JSON is damaged, its length is right."""
    file = folder / "model.safetensors"
    sound = file.read_bytes()
    header = header_of(sound)
    body = sound[8 + struct.unpack("<Q", sound[:8])[0] :]

    @fuzzed
    @given(text=damaged_json(header))
    def fuzz(text):
        file.write_bytes(struct.pack("<Q", len(text)) + text + body)
        with ours_only():
            load_model(open_model_folder(folder))

    try:
        fuzz()
    finally:
        file.write_bytes(sound)


def test_vocabularies(tmp_path):
    @fuzzed
    @given(content=damaged_json({"words": ["<pad>", "<bos>", "<eos>", "<unk>", "a", "house"]}) | st.binary())
    def fuzz(content):
        (tmp_path / "vocabulary.json").write_bytes(content)
        with ours_only():
            load_vocabulary(tmp_path / "vocabulary.json")

    fuzz()


def test_configs(tmp_path):
    sound = load_config("rdd_levir_cc")

    @fuzzed
    @given(content=damaged_json(sound.to_dict()))
    def fuzz(content):
        with ours_only():
            config_from_dict(json.loads(content))

    fuzz()
    shipped = (Path(load_config.__code__.co_filename).parent / "configs" / "rdd_levir_cc.toml").read_bytes()

    @fuzzed
    @given(content=damaged_bytes(shipped))
    def read(content):
        (tmp_path / "x.toml").write_bytes(content)
        with ours_only():
            load_config(tmp_path / "x.toml")

    read()
