"""Run commands one after another and tell what Python asked of the network.

Usage: python tests/support/quiet_commands.py '[["inspect", "a.tif", "b.tif"], ...]'

Those that name no ``--model`` have that of :mod:`archive_fakes`. Prints JSON: the exit code of each command,
and what was asked for in this process.
"""

from __future__ import annotations

import contextlib
import io
import json
import socket
import sys

asked: list[str] = []


def _hear(event: str, values: tuple) -> None:
    network = event == "socket.__new__" and values[1] in (socket.AF_INET, socket.AF_INET6)
    # Between processes of this machine, a file.
    if event == "socket.connect" and values[0].family == socket.AF_UNIX:
        return
    if network or event in ("socket.getaddrinfo", "socket.gethostbyname", "socket.connect", "socket.sendto"):
        asked.append(f"{event}{values[1:]}")


def main() -> None:
    """Run what the command line says."""
    from archive_fakes import fake_card, load_fake

    from workflows.cli.app import main as rscc

    codes = []
    for words in json.loads(sys.argv[1]):
        with contextlib.redirect_stdout(io.StringIO()):
            fake = {} if "--model" in words else {"captioner_factory": load_fake, "card_factory": fake_card}
            try:
                rscc(words, **fake)
            except SystemExit as ended:
                codes.append(ended.code or 0)
    print(json.dumps({"codes": codes, "asked": asked}))


if __name__ == "__main__":
    sys.addaudithook(_hear)
    main()
