"""The command ``rscc`` with stand-ins for the model, to be run and killed by tests.

    python rscc_stand_in.py fake ARGUMENTS...           with the model of :mod:`archive_fakes`
    python rscc_stand_in.py slow SECONDS ARGUMENTS...   with a captioner that sleeps before every batch
    python rscc_stand_in.py quiet COMMANDS              prints as JSON exit codes and network requests

COMMANDS is JSON; those without ``--model`` have the model of :mod:`archive_fakes`.
"""

from __future__ import annotations

import contextlib
import io
import json
import socket
import sys
import time
from pathlib import Path

from captioners import BrightnessCaptioner

from workflows import SceneOptions
from workflows.cli.app import main
from workflows.scene.parts import find_part


class SlowCaptioner(BrightnessCaptioner):
    """Takes its time over every batch; says in how far a tile lies from its neighbours in the batch."""

    def __init__(self, seconds: float, **values) -> None:
        super().__init__(**values)
        self.seconds = seconds

    def predict_change(self, before, after):
        time.sleep(self.seconds)
        found = super().predict_change(before, after)
        # As of a real network, the last bits depend on where in which batch a tile is.
        found.change_probability[:] *= 1 - 1e-6 * len(before)
        found.change_probability[:] *= 1 - 1e-6 * float(before.mean())
        return found

    def caption(self, *arguments, **options):
        time.sleep(self.seconds)
        return super().caption(*arguments, **options)


def do_parts(seconds: float, before: Path, after: Path, folder: Path, parts: list[tuple[int, int]]) -> None:
    """Do parts of a pair, each from a row to another, one after the other."""
    captioner, options = SlowCaptioner(seconds), SceneOptions(keep_maps=folder)
    for rows in parts:
        find_part(before, after, captioner, options, rows)


asked: list[str] = []


def _hear(event: str, values: tuple) -> None:
    network = event == "socket.__new__" and values[1] in (socket.AF_INET, socket.AF_INET6)
    # Between processes of this machine, a file.
    if event == "socket.connect" and values[0].family == socket.AF_UNIX:
        return
    if network or event in ("socket.getaddrinfo", "socket.gethostbyname", "socket.connect", "socket.sendto"):
        asked.append(f"{event}{values[1:]}")


def quiet(commands: list[list[str]]) -> None:
    """Run commands one after another and print what they asked of the network."""
    from archive_fakes import fake_card, load_fake

    codes = []
    for words in commands:
        with contextlib.redirect_stdout(io.StringIO()):
            fake = {} if "--model" in words else {"captioner_factory": load_fake, "card_factory": fake_card}
            try:
                main(words, **fake)
            except SystemExit as ended:
                codes.append(ended.code or 0)
    print(json.dumps({"codes": codes, "asked": asked}))


if __name__ == "__main__":
    mode, *words = sys.argv[1:]
    if mode == "quiet":
        sys.addaudithook(_hear)
        quiet(json.loads(words[0]))
    elif mode == "slow":
        main(words[1:], captioner_factory=lambda model, device: SlowCaptioner(float(words[0])))
    else:
        from archive_fakes import fake_card, load_fake

        main(words, captioner_factory=load_fake, card_factory=fake_card)
