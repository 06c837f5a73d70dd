"""How a file is named on the command line."""

from __future__ import annotations

from pathlib import Path

from buckets import BUCKET, TOKEN
from servers import FileServer, serving

# Of a file of the current folder; "inner" is that of a zip that holds one file.
LOCAL = {
    "path": "{0.name}",
    "absolute": "{0}",
    "inner": "{0.name}/{0.stem}.tif",
    "/vsizip/": "/vsizip/{0.name}/{0.stem}.tif",
    # These must fail.
    "ftp": "ftp://example.org/{0.name}",
    "/vsisubfile/": "/vsisubfile/0_100,{0.name}",
}
# Through a server; "token": in the query.
REMOTE = {
    "http": "{server}/{name}",
    "/vsicurl/": "/vsicurl/{server}/{name}",
    "token": f"{{server}}/private/{{name}}?token={TOKEN}",
    "s3": f"s3://{BUCKET}/{{name}}",
    "/vsis3/": f"/vsis3/{BUCKET}/{{name}}",
    # These must fail.
    "missing": "{server}/nowhere/{name}",
    "wrong token": f"{{server}}/private/{{name}}?token=not-{TOKEN}",
    "missing key": f"s3://{BUCKET}/nowhere/{{name}}",
}


def named(path: Path, how: str, server: FileServer | None) -> str:
    """Return the words for a file: ``how`` is of LOCAL, of REMOTE, or "nobody": where no server listens."""
    if how in LOCAL:
        return LOCAL[how].format(path)
    if how == "nobody":
        with serving() as closed:
            return f"{closed.address}/{path.name}?token={TOKEN}"
    assert server is not None
    return REMOTE[how].format(server=server.address, name=path.name)
