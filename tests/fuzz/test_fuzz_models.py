"""Damaged model folders: refused in one line that names the folder, or loaded."""

from __future__ import annotations

import json
import struct
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path

import pytest
from damage import damaged_bytes, damaged_json, fuzzed, ours_only
from hypothesis import given
from hypothesis import strategies as st
from saved_models import saved, tiny_facts, tiny_phrasing
from tiny_models import tiny_backbone

from rscc.config import Config
from rscc.configs import load_config
from rscc.model_folder import load_facts, load_model, open_model_folder
from rscc.models import backbones
from rscc.settings import build
from rscc.text.tokenizer import load_vocabulary

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    backbones.BACKBONES["tiny"] = tiny_backbone
    yield saved(tmp_path_factory.mktemp("models") / "model", facts=tiny_facts(tiny_phrasing())).path
    del backbones.BACKBONES["tiny"]


def fuzz(file: Path, contents: st.SearchStrategy[bytes], load: Callable) -> None:
    """Load a folder with one member damaged, again and again."""
    sound = file.read_bytes()

    @fuzzed
    @given(content=contents)
    def loading(content):
        file.write_bytes(content)
        with ours_only():
            load(open_model_folder(file.parent))

    try:
        loading()
    finally:
        file.write_bytes(sound)


@pytest.mark.parametrize(
    ("name", "load"),
    [
        ("model.json", load_model),
        ("vocabulary.json", load_model),
        ("model.safetensors", load_model),
        ("facts.json", load_facts),
        ("facts.safetensors", load_facts),
    ],
)
def test_members(folder, name, load):
    sound = (folder / name).read_bytes()
    contents = damaged_bytes(sound)
    fuzz(folder / name, contents | damaged_json(json.loads(sound)) if ".json" in name else contents, load)


def test_headers_of_weights(folder):
    """The header's own JSON is damaged, its length is right."""
    sound = (folder / "model.safetensors").read_bytes()
    (length,) = struct.unpack("<Q", sound[:8])
    header, body = json.loads(sound[8 : 8 + length]), sound[8 + length :]
    texts = damaged_json(header).map(lambda text: struct.pack("<Q", len(text)) + text + body)
    fuzz(folder / "model.safetensors", texts, load_model)


def test_vocabularies(tmp_path):
    @fuzzed
    @given(content=damaged_json({"words": ["<pad>", "<bos>", "<eos>", "<unk>", "a", "house"]}) | st.binary())
    def loading(content):
        (tmp_path / "vocabulary.json").write_bytes(content)
        with ours_only():
            load_vocabulary(tmp_path / "vocabulary.json")

    loading()


def test_configs(tmp_path):
    sound = load_config("rdd_levir_cc")

    @fuzzed
    @given(content=damaged_json(asdict(sound)))
    def loading(content):
        with ours_only():
            build(Config, json.loads(content), "config")

    loading()
    shipped = Path(load_config.__code__.co_filename).with_name("rdd_levir_cc.toml").read_bytes()

    @fuzzed
    @given(content=damaged_bytes(shipped))
    def read(content):
        (tmp_path / "x.toml").write_bytes(content)
        with ours_only():
            load_config(tmp_path / "x.toml")

    read()
