"""CHEERS and RDD+ACR by the command with a CLIP of random weights from a file, on a drawn CLEVR-Change."""

import json
import re
import tomllib
from pathlib import Path

import pytest
from clevr_scenes import KINDS, SPLITS, write_clevr_scenes
from command_here import exit_code
from safetensors import safe_open
from tiny_clip import NAME, WIDTH, write_tiny_clip

from rscc.config import CONFIG_FOLDER
from rscc.data.benchmarks.clevr import ClevrChange
from rscc.evaluation.papers import paper_tables
from rscc.model_folder import load_model, open_model_folder
from rscc.models.shared.attributes import AttributeTokens
from rscc.models.shared.retrieval import ClipRetriever

pytest.importorskip("pycocoevalcap")

pytestmark = pytest.mark.slow

SMALL = {
    "model": {
        **{"backbone": "tiny", "width": 16, "heads": 2, "word_width": 8, "decoder_layers": 1},
        **{"max_words": 12, "head_width": 8},
    },
    "data": {"size": 64},
    "train": {"epochs": 2, "batch_size": 8, "warmup_steps": 1, "bf16": False, "cache_features": False},
}
"""What differs from the shipped configs: sizes and time alone."""


@pytest.fixture
def clevr(tmp_path) -> Path:
    return write_clevr_scenes(tmp_path / "CLEVR-Change")


@pytest.fixture
def clip(tmp_path, monkeypatch) -> Path:
    return write_tiny_clip(tmp_path / "clip.safetensors", monkeypatch)


@pytest.fixture(autouse=True)
def no_java(monkeypatch) -> None:
    """METEOR's Java takes longer than the rest together."""
    monkeypatch.setattr("shutil.which", lambda name: None)


def config_file(paper: str, folder: Path, options: dict, **train: object) -> Path:
    """The shipped config of a paper on CLEVR-Change in a small size; its random trunk is trained, too."""
    values = tomllib.loads((CONFIG_FOLDER / f"{paper}_clevr_change.toml").read_text("utf-8"))
    for table, small in SMALL.items():
        values[table] |= small
    options = values["model"].pop("options") | options
    values["train"].pop("frozen")
    values["train"] |= train
    tables = {"model": values.pop("model"), "model.options": options, **values}
    lines = (
        line
        for name, table in tables.items()
        for line in (f"[{name}]", *(f"{key} = {json.dumps(value)}" for key, value in table.items()))
    )
    file = folder / f"{paper}.toml"
    file.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return file


def rscc(*words: object, code: int = 0) -> None:
    assert exit_code(*words) == code


def test_the_drawn_folder_has_forty_pairs_of_all_kinds(clevr) -> None:
    pairs = [record for split in SPLITS for record in ClevrChange(clevr, split).records]
    assert len(pairs) == 40
    assert {record.kind for record in pairs if record.changed} == set(KINDS)
    assert sum(record.changed for record in pairs) == 20
    assert all(record.before.is_file() and record.after.is_file() for record in pairs)


def test_cheers_retrieves_by_clip_from_training_to_the_papers_tables(
    clevr, clip, tmp_path, tiny_registered, capsys
) -> None:
    config = config_file(
        "cheers", tmp_path, {"retriever": f"open_clip:{NAME}:{clip}", "least_count": 1, "layers": 1}
    )
    words = ("--data", clevr, "--config", config, "--text-encoder", f"open_clip:{NAME}:{clip}")
    rscc("train", *words, "--output", tmp_path / "run")
    folder = open_model_folder(tmp_path / "run" / "model")
    model = load_model(folder)
    assert isinstance(model.retriever, ClipRetriever)
    assert model.retriever.entity_features.shape == (len(model.retriever.names), WIDTH)
    subjects = {word for name in model.retriever.names for word in name.split()}
    assert {"metal", "rubber"} & subjects and {"cube", "ball", "cylinder"} & subjects
    with safe_open(folder.path / "model.safetensors", "pt") as weights:
        assert not any("visual" in name or "token_embedding" in name for name in weights.keys())  # noqa: SIM118

    capsys.readouterr()
    scores = tmp_path / "scores.json"
    words = ("--model", folder.path, "--data", clevr, "--dataset", "clevr_change", "--beams", 1)
    rscc("evaluate", *words, "--no-baselines", "--compare", "--json", scores, "--device", "cpu")
    said = capsys.readouterr().out
    assert json.loads(scores.read_text())["run"]["counts"]["all"] == 2 * SPLITS["test"]
    compared = [part for part in said.split("\n\n") if part.startswith("| compared: ")]
    assert len(compared) == len({"all", "changed", "unchanged", *KINDS})
    sources = {source for row in paper_tables("clevr_change").rows for source in row.sources}
    assert len(sources) == 7, "of four papers; DAVIR has no table of CLEVR-Change"
    assert [source for source in sources if not any(source in table for table in compared)] == []
    for table in compared:
        rows = [[cell.strip() for cell in line.split("|")[1:-1]] for line in table.splitlines()]
        (ours,) = [row for row in rows if row[0].startswith("> ")]
        assert re.fullmatch(r"\d+\.\d", ours[rows[0].index("BLEU-4")])
        assert ours[rows[0].index("decoding")] == "greedy"

    clip.unlink()
    rscc("evaluate", *words, "--no-baselines", "--device", "cpu", code=2)
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("rscc: error: ") and str(clip) in line


def test_features_are_not_cached_for_a_clip_that_sees_images(
    clevr, clip, tmp_path, tiny_registered, capsys
) -> None:
    options = {"retriever": f"open_clip:{NAME}:{clip}", "least_count": 1}
    config = config_file("cheers", tmp_path, options, cache_features=True, frozen=["backbone"])
    words = ("--data", clevr, "--config", config, "--text-encoder", f"open_clip:{NAME}:{clip}")
    rscc("train", *words, "--output", tmp_path / "run", code=2)
    assert "train.cache_features" in capsys.readouterr().err
    assert not list((tmp_path / "run").rglob("*.npy")), "found out before anything is computed"


def test_rdd_aligns_by_clips_words_and_captions_without_them(
    clevr, clip, tmp_path, tiny_registered, monkeypatch, capsys
) -> None:
    encoded = []
    forward = AttributeTokens.forward
    monkeypatch.setattr(
        AttributeTokens, "forward", lambda self, texts: encoded.append(self.encoder) or forward(self, texts)
    )
    config = config_file("rdd", tmp_path, {"object_vectors": 4, "action_vectors": 2})
    words = ("--data", clevr, "--config", config, "--text-encoder", f"open_clip:{NAME}:{clip}")
    rscc("train", *words, "--output", tmp_path / "run")
    assert encoded and {type(one).__name__ for one in encoded} == {"OpenClipTextEncoder"}
    log = [json.loads(line) for line in (tmp_path / "run" / "log.jsonl").read_text().splitlines()]
    assert len(log) == 2
    assert all(epoch["loss"][term] > 0 for epoch in log for term in ("caption", "n2o", "v2a"))

    clip.unlink()
    capsys.readouterr()
    words = ("--model", tmp_path / "run" / "model", "--data", clevr, "--dataset", "clevr_change")
    rscc("evaluate", *words, "--beams", 1, "--no-baselines", "--compare", "--device", "cpu")
    assert "RDD+ACR (AAAI 2025), Table 1" in capsys.readouterr().out
