"""A file system without locks: GeoPackages need none, archives say what to do."""

import errno
import shutil
import subprocess
import sys

import filelock
import pytest

from workflows.archive.folder import locked
from workflows.errors import OutputNotWritable
from workflows.scene.network import map_folder

ERRORS = [NotImplementedError("no flock"), OSError(errno.ENOLCK, "No locks available")]


@pytest.fixture(params=ERRORS, ids=lambda error: type(error).__name__)
def no_locks(request, monkeypatch):
    def refuse(self, *_, **__):
        raise request.param

    monkeypatch.setattr(filelock.FileLock, "acquire", refuse)


def test_an_archive_says_what_to_do(tmp_path, no_locks):
    with pytest.raises(OutputNotWritable, match="local disk") as caught, locked(tmp_path / "a.lock", "busy"):
        pass
    assert caught.value.exit_code == 1 and str(tmp_path / "a.lock") in str(caught.value)


def test_maps_are_written_without_a_lock(tmp_path, no_locks):
    with map_folder.surveying(tmp_path):
        pass


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("strace") is None, reason="the system has no strace")
def test_a_geopackage_is_written_without_locks(tmp_path):
    code = (
        "import sys; from workflows import Report; from workflows.report.formats import geopackage; "
        "Report([], {}).write(sys.argv[1])"
    )
    path, log = tmp_path / "r.gpkg", tmp_path / "calls"
    words = ["strace", "-f", "-y", "-e", "trace=fcntl,flock", "-o", log, sys.executable, "-c", code, path]
    subprocess.run(words, check=True)
    locks = [line for line in log.read_text().splitlines() if ".gpkg" in line and "LCK" in line]
    assert path.is_file() and locks == []
