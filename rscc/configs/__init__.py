"""Shipped training configs, and reading of config files."""

import tomllib
from pathlib import Path
from typing import Any

from rscc.config import Config
from rscc.errors import ConfigInvalid
from rscc.files import read_file
from rscc.settings import build

CONFIG_FOLDER = Path(__file__).parent
"""Folder of the shipped configs."""


def load_config(path: str | Path) -> Config:
    """Read a TOML file, or a shipped config by its bare name (``rdd_levir_cc``).

    Raises:
        ConfigInvalid: no such file or shipped config, no valid TOML, or values the schema refuses.
    """
    return build(Config, _read_toml(path), Path(path).name)


def describes_model(path: str | Path) -> bool:
    """Return whether a config has a table ``model``; without it, the start is trained further."""
    return "model" in _read_toml(path)


def _read_toml(path: str | Path) -> dict[str, Any]:
    path = Path(path)
    shipped = CONFIG_FOLDER / f"{path.name}.toml"
    if not path.suffix and shipped.is_file():
        path = shipped
    if not path.is_file():
        names = ", ".join(sorted(p.stem for p in CONFIG_FOLDER.glob("*.toml")))
        raise ConfigInvalid(f"{path}: no such config file; shipped configs are {names}")
    try:
        return tomllib.loads(read_file(path).decode("utf-8-sig"))
    # Not text, not TOML, a number with thousands of digits, or unlimited nesting.
    except (OSError, ValueError, RecursionError) as error:
        raise ConfigInvalid(f"{path}: not a TOML file ({error})") from error
