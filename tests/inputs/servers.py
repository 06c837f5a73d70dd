"""A web server on this machine that serves a folder as plain files and as the bucket of an object store.

It answers ranges, as every server of large rasters does. What lies under ``private/`` needs the token in the
query, and the bucket wants signed requests.
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import parse_qs, unquote, urlsplit

from local_server import SilentHandler, answering

# The address of a machine for itself; nobody else can reach it.
LOOPBACK = str(ipaddress.ip_network("127.0.0.0/8")[1])
BUCKET = "scenes"
TOKEN = "sesame-5521"
KEY, SECRET = "KEYFORTESTS", "secret-for-tests"


@dataclass(frozen=True)
class Server:
    """Where the folder is served."""

    host: str

    @property
    def settings(self) -> dict[str, str]:
        """The environment under which GDAL takes the server for Amazon's."""
        return {
            "AWS_S3_ENDPOINT": self.host,
            "AWS_HTTPS": "NO",
            "AWS_VIRTUAL_HOSTING": "FALSE",
            "AWS_ACCESS_KEY_ID": KEY,
            "AWS_SECRET_ACCESS_KEY": SECRET,
            "AWS_REGION": "us-east-1",
        }

    def url(self, name: str) -> str:
        """The address of a file in the folder."""
        return f"http://{self.host}/{name}"


@contextmanager
def serving(folder: Path) -> Iterator[Server]:
    """Serve a folder for the length of the ``with`` block."""

    class Handler(_Files):
        root = folder

    with answering(Handler) as port:
        yield Server(f"{LOOPBACK}:{port}")


class _Files(SilentHandler):
    protocol_version = "HTTP/1.1"
    root: Path

    def do_HEAD(self) -> None:
        self._answer(with_body=False)

    def do_GET(self) -> None:
        self._answer(with_body=True)

    def _answer(self, *, with_body: bool) -> None:
        address = urlsplit(self.path)
        name = unquote(address.path).lstrip("/")
        if name.startswith(f"{BUCKET}/"):
            name = name.removeprefix(f"{BUCKET}/")
            if f"AWS4-HMAC-SHA256 Credential={KEY}/" not in self.headers.get("Authorization", ""):
                return self._send(403, b"<Error><Code>AccessDenied</Code></Error>", with_body)
        if name.startswith("private/"):
            name = name.removeprefix("private/")
            if parse_qs(address.query).get("token") != [TOKEN]:
                return self._send(403, b"no", with_body)
        file = self.root / name
        if not name or ".." in name or not file.is_file():
            return self._send(404, b"<Error><Code>NoSuchKey</Code></Error>", with_body)
        content = file.read_bytes()
        part = re.fullmatch(r"bytes=(\d+)-(\d*)", self.headers.get("Range", ""))
        if part is None:
            return self._send(200, content, with_body)
        first, last = int(part[1]), min(int(part[2] or len(content) - 1), len(content) - 1)
        if first > last:
            return self._send(416, b"", with_body)
        place = {"Content-Range": f"bytes {first}-{last}/{len(content)}"}
        return self._send(206, content[first : last + 1], with_body, place)

    def _send(self, code: int, content: bytes, with_body: bool, more: dict[str, str] | None = None) -> None:
        self.send_response(code)
        headers = {"Accept-Ranges": "bytes", "Content-Length": str(len(content)), **(more or {})}
        for header, value in headers.items():
            self.send_header(header, value)
        self.end_headers()
        if with_body:
            self.wfile.write(content)
