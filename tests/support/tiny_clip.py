"""A CLIP of open_clip's real classes with a few hundred thousand random weights, in a local file."""

from pathlib import Path

import pytest
import torch

NAME = "tiny-clip"
WIDTH = 8


def write_tiny_clip(file: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Make an architecture known to open_clip and write a checkpoint of it, safetensors by the file's name.

    Skips the test where open_clip is not installed.
    """
    import rscc  # noqa: F401  installs the torchvision compatibility that open_clip's import may need

    open_clip = pytest.importorskip(
        "open_clip", reason="open_clip is not installed: pip install 'rscc[train]'"
    )
    from open_clip import factory
    from safetensors.torch import save_file

    config = {
        "embed_dim": WIDTH,
        "vision_cfg": {"image_size": 32, "layers": 1, "width": 16, "head_width": 8, "patch_size": 16},
        "text_cfg": {"context_length": 16, "vocab_size": 49408, "width": 8, "heads": 2, "layers": 1},
    }
    monkeypatch.setitem(factory._MODEL_CONFIGS, NAME, config)
    torch.manual_seed(0)
    state = open_clip.create_model(NAME).state_dict()
    save_file(state, file) if file.suffix == ".safetensors" else torch.save(state, file)
    return file
