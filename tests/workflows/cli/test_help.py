"""The help of the commands, and completion by the shell."""

import shlex

import pytest
import typer
from scene_pairs import run_here

from workflows.cli.app import State
from workflows.cli.commands import COMMANDS, app

EXAMPLES = {function: example for panel in COMMANDS.values() for function, example in panel.items()}
BY_NAME = typer.main.get_command(app).commands


@pytest.mark.parametrize("function", EXAMPLES, ids=lambda function: function.__name__)
def test_every_help_ends_with_an_example_that_the_command_takes(function, capsys):
    name, example = function.__name__.replace("_", "-"), EXAMPLES[function]
    code, out, err = run_here(capsys, name, "--help")
    assert (code, err) == (0, "")
    assert " ".join(out.split()).endswith(f"Example: {example}")
    program, called, *words = shlex.split(example)
    assert (program, called) == ("rscc", name)
    # Parsed but not run: an unknown option or a missing argument raises.
    BY_NAME[name].make_context(name, words, obj=State())
