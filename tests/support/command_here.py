"""The command ``rscc`` in the process of the test."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from workflows.cli.app import main


def exit_code(*words: object, **factories: Callable | None) -> int:
    """Run the command and return its exit code; ``factories`` are those of ``main``."""
    with pytest.raises(SystemExit) as ended:
        main([str(word) for word in words], **factories)
    return int(ended.value.code or 0)


def run_here(
    streams: pytest.CaptureFixture[str], *words: object, **factories: Callable | None
) -> tuple[int, str, str]:
    """Run the command; return its exit code and what it wrote to stdout and stderr."""
    code = exit_code(*words, **factories)
    return code, *streams.readouterr()
