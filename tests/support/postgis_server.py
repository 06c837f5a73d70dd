"""A PostgreSQL server with PostGIS, of the system's packages, that runs as long as a test needs it."""

from __future__ import annotations

import os
import pwd
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote

PASSWORD = "s3cret/w@rd?:#"


def _programs() -> Path | None:
    """The folder of the newest server that has PostGIS."""
    found = [
        path.parent
        for path in Path("/usr/lib/postgresql").glob("*/bin/initdb")
        if Path(f"/usr/share/postgresql/{path.parts[-3]}/extension/postgis.control").is_file()
    ]
    return max(found, key=lambda path: int(path.parts[-2]), default=None)


PROGRAMS = _programs()
WHY_NOT = "the system has no PostgreSQL server with PostGIS (postgresql, postgresql-postgis)"


@dataclass(frozen=True)
class Server:
    """A server that listens on a socket in ``folder``; its databases are ``maps`` and ``plain``."""

    folder: Path
    user: str

    def address(self, *, database: str = "maps", password: str | None = PASSWORD, **query: str) -> str:
        """The address of a database, as a user writes it."""
        user = quote(self.user, safe="")
        word = "" if password is None else f":{quote(password, safe='')}"
        more = "".join(f"&{name}={quote(value, safe='')}" for name, value in query.items())
        return f"postgresql://{user}{word}@/{database}?host={quote(str(self.folder), safe='')}{more}"

    def ask(self, sql: str, *, database: str = "maps") -> str:
        """What psql prints of a query: bare values, no line at the end."""
        psql = [PROGRAMS / "psql", "-h", self.folder, "-U", self.user, "-d", database, "-XAtq"]
        environment = {**os.environ, "PGPASSWORD": PASSWORD, "PGCLIENTENCODING": "UTF8"}
        done = subprocess.run(
            [*psql, "-v", "ON_ERROR_STOP=1", "-c", sql], env=environment, capture_output=True, check=False
        )
        assert done.returncode == 0, done.stderr.decode()
        return done.stdout.decode().removesuffix("\n")


@contextmanager
def running() -> Iterator[Server]:
    """Start a server of one's own on a socket alone, with a password; end it and remove it."""
    assert PROGRAMS is not None
    # A server refuses to run as root.
    name = next((n for n in ("postgres", "nobody") if n in {u.pw_name for u in pwd.getpwall()}), None)
    account = {"user": name} if os.geteuid() == 0 else {}
    # Short, since the path of a socket may have 107 bytes.
    folder = Path(tempfile.mkdtemp(prefix="rscc-pg-"))
    try:
        data, word = folder / "data", folder / "word"
        word.write_text(PASSWORD)
        if account:
            for path in (folder, word):
                shutil.chown(path, name)
        me = "me@home"

        def run(*words: object) -> None:
            done = subprocess.run(
                list(map(str, words)), cwd=folder, capture_output=True, text=True, check=False, **account
            )
            assert done.returncode == 0, done.stdout + done.stderr

        run(
            *(PROGRAMS / "initdb", "-D", data, "-U", me, "-E", "UTF8", "--locale=C.UTF-8", "-N"),
            *("-A", "scram-sha-256", "--pwfile", word),
        )
        words = [PROGRAMS / "postgres", "-D", data, "-k", folder, "-c", "listen_addresses=", "-F"]
        with subprocess.Popen(
            list(map(str, words)), cwd=folder, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, **account
        ) as process:
            try:
                server = Server(folder, me)
                _wait(process, folder)
                for database in ("maps", "plain"):
                    server.ask(f"CREATE DATABASE {database}", database="postgres")
                server.ask("CREATE EXTENSION postgis")
                yield server
            finally:
                process.send_signal(signal.SIGINT)  # its fast way: it waits for no connection
                process.wait(60)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _wait(process: subprocess.Popen, folder: Path) -> None:
    for _ in range(600):
        assert process.poll() is None, "the server ended"
        asked = subprocess.run([PROGRAMS / "pg_isready", "-h", folder], capture_output=True, check=False)
        if asked.returncode == 0:
            return
        time.sleep(0.1)
    raise AssertionError("the server does not answer")
