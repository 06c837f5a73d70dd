"""How a file is named on the command line."""

from __future__ import annotations

import socket
from pathlib import Path

from servers import BUCKET, LOOPBACK, TOKEN, Server


def named(path: Path, how: str, server: Server | None) -> str:
    """Return the words for a file of the current folder.

    ``how``: "path", "absolute", "inner" (of a zip that holds one file), "/vsizip/", or, through ``server``,
    "http", "/vsicurl/", "token" (in the query), "s3", "/vsis3/", and those that must fail: "missing",
    "wrong token", "missing key", "ftp", "/vsisubfile/", "nobody" (an address where no server listens).
    """
    if how == "path":
        return path.name
    if how == "absolute":
        return str(path)
    if how == "inner":
        return f"{path.name}/{path.stem}.tif"
    if how == "ftp":
        return f"ftp://example.org/{path.name}"
    if how == "/vsisubfile/":
        return f"/vsisubfile/0_100,{path.name}"
    if how == "/vsizip/":
        return f"/vsizip/{path.name}/{path.stem}.tif"
    if how == "nobody":
        return f"http://{LOOPBACK}:{_closed_port()}/{path.name}?token={TOKEN}"
    assert server is not None
    return {
        "http": server.url(path.name),
        "/vsicurl/": "/vsicurl/" + server.url(path.name),
        "token": server.url(f"private/{path.name}?token={TOKEN}"),
        "s3": f"s3://{BUCKET}/{path.name}",
        "/vsis3/": f"/vsis3/{BUCKET}/{path.name}",
        "missing": server.url(f"nowhere/{path.name}"),
        "wrong token": server.url(f"private/{path.name}?token=not-{TOKEN}"),
        "missing key": f"s3://{BUCKET}/nowhere/{path.name}",
    }[how]


def is_remote(how: str) -> bool:
    """Tell whether a way of naming needs the server."""
    return how not in ("path", "absolute", "inner", "/vsizip/", "nobody", "ftp", "/vsisubfile/")


def _closed_port() -> int:
    with socket.socket() as taken:
        taken.bind((LOOPBACK, 0))
        return int(taken.getsockname()[1])
