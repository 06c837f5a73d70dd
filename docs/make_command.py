"""Write the option tables of docs/command.md from the commands.

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
VALUES = {"path": "PATH", "list[Path]": "PATH", "int": "N", "int range": "N"}


def table(name: str, other: str | None = None) -> str:
    """Return the options of a command as a Markdown table, without those that the other command has too."""
    shared = {row for rows in _panels(other).values() for row in rows} if other else set()
    lines = ["| option | default | meaning |", "|---|---|---|"]
    panels = {panel: [row for row in rows if row not in shared] for panel, rows in _panels(name).items()}
    for panel, rows in panels.items():
        lines += [f"| **{panel}** | | |"] if rows and len(panels) > 1 else []
        lines += rows
    if len(lines) == 2:
        return f"Its options are among those of `rscc {other}`.\n"
    return "\n".join(lines) + "\n"


def _panels(name: str) -> dict[str, list[str]]:
    """Return the rows of a command's options by the panel in which its help shows them."""
    commands: Any = typer.main.get_command(app)
    command = commands.commands[name]
    context = command.make_context(name, [], resilient_parsing=True)
    panels: dict[str, list[str]] = {}
    hidden = []
    for option in command.params:
        if option.opts[0].startswith("-"):
            panel = option.rich_help_panel or "Other"
            rows = hidden if option.hidden else panels.setdefault(panel, [])
            rows.append(_row(option, context))
    return {**panels, "Not in --help": hidden} if hidden else panels


def _row(option: Any, context: Any) -> str:
    names = ", ".join(f"`{name}`" for name in [*sorted(option.opts, key=len), *option.secondary_opts])
    if not option.is_flag:
        value = option.metavar or _value(option.display_type(context).strip("<>"))
        names = f"{names[:-1]} {value}`"
    meaning, _, stated = option.help.partition("; default: ")
    default = option.default.value if isinstance(option.default, Enum) else option.default
    if stated:
        default = stated
    elif option.secondary_opts:
        default = "on" if default else "off"
    elif default in (None, ()) or option.is_flag:
        default = "required" if option.required else ""
    shown = f"`{default}`" if "<" in str(default) else default
    return f"| {names} | {shown} | {meaning} |"


def _value(kind: str) -> str:
    if "|" in kind:
        return kind.replace("|", " or ")
    return VALUES.get(kind, "X" if "float" in kind else "NAME")


def page(text: str) -> str:
    """Return the page with current tables."""
    return BLOCK.sub(lambda block: block[1] + table(block[2], block[3]) + block[4], text)


if __name__ == "__main__":
    PAGE.write_text(page(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
