"""A server on this machine that hands out files in parts, as the servers of clouds do."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from email.message import Message

from local_server import SilentHandler, answering


@dataclass
class FileServer:
    """What is served and what was asked for, by path, such as "/a.tif".

    No parts are given of ``whole``, and no header alone of ``get_only``, as of addresses that are signed for
    one method; ``redirects`` lead to other addresses; ``delays`` are seconds; ``forbids`` is asked of path
    with query and headers; ``errors`` are answers by status; ``asked`` has (method, path with query) of every
    request.
    """

    port: int
    files: dict[str, bytes] = field(default_factory=dict)
    statuses: dict[str, int] = field(default_factory=dict)
    redirects: dict[str, str] = field(default_factory=dict)
    delays: dict[str, float] = field(default_factory=dict)
    whole: set[str] = field(default_factory=set)
    get_only: set[str] = field(default_factory=set)
    errors: dict[int, bytes] = field(default_factory=dict)
    forbids: Callable[[str, Message], bool] = lambda address, headers: False
    asked: list[tuple[str, str]] = field(default_factory=list)

    @property
    def address(self) -> str:
        """Scheme, host and port."""
        return f"http://127.0.0.1:{self.port}"


@contextmanager
def serving() -> Iterator[FileServer]:
    """Serve until the block ends."""

    class Handler(SilentHandler):
        def do_GET(self) -> None:
            path = self.path.partition("?")[0]
            served.asked.append((self.command, self.path))
            time.sleep(served.delays.get(path, 0))
            content = served.files.get(path, b"")
            status = served.statuses.get(path, 200 if path in served.files else 404)
            if self.command == "HEAD" and path in served.get_only:
                status = 403
            if served.forbids(self.path, self.headers):
                status = 403
            content = served.errors.get(status, content)
            part = re.fullmatch(r"bytes=(\d+)-(\d*)", self.headers.get("Range", ""))
            headers = {}
            if path in served.redirects:
                status, content = 302, b""
                headers["Location"] = served.redirects[path]
            if status == 200 and part and path not in served.whole:
                first, last = int(part[1]), min(int(part[2] or len(content)), len(content) - 1)
                headers["Content-Range"] = f"bytes {first}-{last}/{len(content)}"
                status = 206 if first <= last else 416
                content = content[first : last + 1]
            self.send_response(status)
            for name, value in headers.items():
                self.send_header(name, value)
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            # Who has seen enough hangs up.
            with suppress(ConnectionError):
                if self.command == "GET":
                    self.wfile.write(content)

        do_HEAD = do_GET

    with answering(Handler) as port:
        served = FileServer(port)
        yield served
