"""A web server on this machine that serves a folder as plain files and as the bucket of an object store.

What lies under ``private/`` needs the token in the query, and the bucket wants signed requests.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from email.message import Message
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

from servers import FileServer
from servers import serving as serving_files

BUCKET = "scenes"
TOKEN = "sesame-5521"
KEY, SECRET = "KEYFORTESTS", "secret-for-tests"


@contextmanager
def serving(folder: Path) -> Iterator[FileServer]:
    """Serve what is in a folder now for the length of the ``with`` block."""
    with serving_files() as server:
        for file in folder.rglob("*"):
            if file.is_file():
                name = file.relative_to(folder).as_posix()
                server.files |= dict.fromkeys(
                    (f"/{name}", f"/private/{name}", f"/{BUCKET}/{name}"), file.read_bytes()
                )
        server.forbids = _forbids
        codes = {403: "AccessDenied", 404: "NoSuchKey"}
        server.errors = {status: f"<Error><Code>{c}</Code></Error>".encode() for status, c in codes.items()}
        yield server


def _forbids(address: str, headers: Message) -> bool:
    parts = urlsplit(address)
    if parts.path.startswith(f"/{BUCKET}/"):
        return f"AWS4-HMAC-SHA256 Credential={KEY}/" not in headers.get("Authorization", "")
    return parts.path.startswith("/private/") and parse_qs(parts.query).get("token") != [TOKEN]


def settings(server: FileServer) -> dict[str, str]:
    """Return the environment under which GDAL takes a server for Amazon's."""
    return {
        "AWS_S3_ENDPOINT": server.address.removeprefix("http://"),
        "AWS_HTTPS": "NO",
        "AWS_VIRTUAL_HOSTING": "FALSE",
        "AWS_ACCESS_KEY_ID": KEY,
        "AWS_SECRET_ACCESS_KEY": SECRET,
        "AWS_REGION": "us-east-1",
    }
