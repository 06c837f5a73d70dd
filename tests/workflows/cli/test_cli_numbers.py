"""Absurd numbers in every option that takes one: one line, exit code 2, no work begun."""

from typing import Any

import pytest
import typer
from scene_pairs import make_pair

from workflows.cli.commands import app

HUGE = "9" * 400
DIGITS = "9" * 5000  # more than Python reads as a number
ABSURD = ("nan", "inf", "-inf", "1e308", "-1e308", "-1", HUGE, DIGITS, "", "0x10", "1_", "--1")
# What numbers stand in, by the options whose values are texts of numbers.
TEXTS = {
    "--bands": "1,2,{}", "--bbox": "1,2,3,{}", "--scale": "{},{}", "--memory": "{}GB", "--at": "10,{}",
    "--window": "3,{}", "--shard": "{}/7",
}  # fmt: skip
# Values of ABSURD that are right: names of bands, a latitude, a north that is refused only where it is used.
RIGHT = {("--bands", text) for text in ABSURD if not text.isdecimal() and text} | {
    ("--at", "-1"), ("--bbox", "-1"),
}  # fmt: skip
NEEDED = {
    "caption": ["before.tif", "after.tif"], "inspect": ["before.tif", "after.tif"],
    "explain": ["before.tif", "after.tif", "-o", "p.png"], "pairs": ["."],
    "batch": ["pairs.csv", "--out", "archive"], "status": ["archive"],
    "train": ["--data", ".", "-o", "run"], "evaluate": ["--data", "."],
    "monitor": ["before.tif", "--out", "places"],
    "review": ["report.geojson"], "convert": ["report.geojson", "other.geojson"],
    "synthesize": ["--data", ".", "-o", "made"], "synthesize-medium": ["--cities", ".", "-o", "made"],
}  # fmt: skip


def numeric_options() -> list[tuple[str, str]]:
    """Return (command, option) of all that take numbers."""
    commands: Any = typer.main.get_command(app)
    found = []
    for name, command in commands.commands.items():
        context = command.make_context(name, [], resilient_parsing=True)
        for option in command.params:
            flag = max(option.opts, key=len)
            kind = str(option.display_type(context)) if flag.startswith("-") and not option.is_flag else ""
            if flag in TEXTS or "int" in kind or "float" in kind:
                found.append((name, flag))
    return found


OPTIONS = numeric_options()


@pytest.mark.slow
@pytest.mark.parametrize(("command", "option"), OPTIONS)
def test_an_absurd_number_is_one_line(tmp_path, monkeypatch, rscc_command, command, option):
    monkeypatch.chdir(tmp_path)
    make_pair(tmp_path, [])
    (tmp_path / "pairs.csv").write_text("before,after\nbefore.tif,after.tif\n")
    files = sorted(path.name for path in tmp_path.iterdir())
    for text in ABSURD:
        if (option, text) in RIGHT:
            continue
        value = TEXTS.get(option, "{}").format(*[text] * 2)
        code, out, err = rscc_command(command, *NEEDED[command], f"{option}={value}")
        assert code == 2 and err.startswith("rscc: error: "), (text, err[:300])
        assert err.count("\n") == 1 and len(err) < 1000
        assert option.strip("-") in err.replace("_", "-") or text in err, err
        # An inspection says first what it can.
        assert out == "" or command == "inspect"
    assert sorted(path.name for path in tmp_path.iterdir()) == files
