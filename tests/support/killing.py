"""A process that is killed before one of its steps on the disk, played within the process of the tests."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence

import pytest

STEPS = ("rename", "replace", "fsync", "mkdir", "rmdir", "unlink", "link")


class Killed(BaseException):
    """As SIGKILL: no step on the disk is done after it, so what tidies up tries in vain."""


class Steps:
    """Count the calls of ``only`` that change the disk; before the one numbered ``last``, raise ``error``.

    An error is that of one call; after Killed every call of :data:`STEPS` raises it again.
    """

    def __init__(
        self,
        patch: pytest.MonkeyPatch,
        last: int | None = None,
        error: BaseException | None = None,
        only: Sequence[str] = STEPS,
    ) -> None:
        self.count, self.last, self.error, self.is_dead = 0, last, error, False
        for name in dict.fromkeys((*STEPS, *only)):
            patch.setattr(os, name, self._counted(getattr(os, name), counts=name in only))

    def stop(self) -> None:
        """Kill the process here."""
        self.is_dead, self.error = True, Killed()
        raise self.error

    def _counted(self, real: Callable, *, counts: bool) -> Callable:
        def call(*arguments, **options):
            self.count += counts
            is_last = counts and self.count == self.last
            self.is_dead |= is_last and isinstance(self.error, Killed)
            if is_last or self.is_dead:
                raise self.error
            return real(*arguments, **options)

        return call


def kill(last: int, action: Callable[[], object], only: Sequence[str] = STEPS) -> bool:
    """Kill ``action`` before its step ``last`` of ``only``; False where it has fewer."""
    with pytest.MonkeyPatch.context() as patch:
        Steps(patch, last, Killed(), only)
        try:
            action()
        except Killed:
            return True
    return False
