"""Write the option tables of docs/command.md from the commands themselves, as ``rscc COMMAND --help`` shows
them.

Usage: python docs/make_command.py
"""

from __future__ import annotations

import re
from enum import Enum
from pathlib import Path
from typing import Any

import typer

from workflows.cli.commands import app

PAGE = Path(__file__).with_name("command.md")
BLOCK = re.compile(
    r"(<!-- options of rscc ([a-z-]+)(?: but those of rscc ([a-z-]+))? -->\n).*?(<!-- end -->)", re.S
)


def table(name: str, but: str | None = None) -> str:
    """Return a command's options as a Markdown table; of what another command has too, nothing."""
    others = set(_rows(but)) if but else set()
    lines = ["| option | default | meaning |", "|---|---|---|"]
    return "\n".join([*lines, *(row for row in _rows(name) if row not in others)]) + "\n"


def _rows(name: str) -> list[str]:
    commands: Any = typer.main.get_command(app)
    command = commands.commands[name]
    context = command.make_context(name, [], resilient_parsing=True)
    return [_row(option, context) for option in command.params if option.opts[0].startswith("-")]


def _row(option: Any, context: Any) -> str:
    names = ", ".join(f"`{name}`" for name in [*sorted(option.opts, key=len), *option.secondary_opts])
    if not option.is_flag:
        value = option.metavar or _value(option.display_type(context).strip("<>"))
        names = f"{names[:-1]} {value}`"
    meaning, _, stated = option.help.partition("; default: ")
    default = option.default.value if isinstance(option.default, Enum) else option.default
    if stated:
        meaning, default = f"{meaning}.", stated.rstrip(".")
    elif option.secondary_opts:
        default = "on" if default else "off"
    elif default in (None, ()) or option.is_flag:
        default = "required" if option.required else ""
    shown = f"`{default}`" if "<" in str(default) else default
    return f"| {names} | {shown} | {meaning} |"


def _value(kind: str) -> str:
    if "|" in kind:
        return kind.replace("|", " or ")
    return {"path": "PATH", "list[Path]": "PATH", "int": "N", "int range": "N"}.get(
        kind, "X" if "float" in kind else "NAME"
    )


def page(text: str) -> str:
    """Return the page with every table made anew."""
    return BLOCK.sub(lambda block: block[1] + table(block[2], block[3]) + block[4], text)


if __name__ == "__main__":
    PAGE.write_text(page(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
