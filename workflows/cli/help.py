"""How the help looks: panels of options and of commands, and no type beside a flag."""

import inspect
from collections.abc import Iterable
from typing import Any

from typer.core import TyperCommand, TyperGroup


class Command(TyperCommand):
    """A command whose help has panels if one of its options belongs to the panel Input."""

    def get_params(self, ctx: Any) -> list[Any]:
        """Return the arguments and options."""
        parameters = super().get_params(ctx)
        options: list[Any] = [each for each in parameters if each.param_type_name == "option"]
        has_panels = any(each.rich_help_panel == "Input" for each in options)
        for each in options:
            each.rich_help_panel = (each.rich_help_panel or "Advanced") if has_panels else None
        _hide_types_of_flags(options)
        return parameters


class Group(TyperGroup):
    """The command ``rscc`` itself."""

    def get_params(self, ctx: Any) -> list[Any]:
        """Return the options."""
        options = super().get_params(ctx)
        _hide_types_of_flags(options)
        return options


def joined_paragraphs(docstring: str | None) -> str:
    """Return the text of a docstring with each paragraph on one line, for the width of the terminal."""
    paragraphs = inspect.cleandoc(docstring or "").split("\n\n")
    return "\n\n".join(" ".join(paragraph.split()) for paragraph in paragraphs)


def _hide_types_of_flags(options: Iterable[Any]) -> None:
    for each in options:
        if each.is_flag:
            each.metavar = ""
