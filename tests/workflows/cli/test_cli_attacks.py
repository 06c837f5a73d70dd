"""What a stranger hides in a VRT, or in a mask beside a scene of any format, no command reads."""

import pytest
from archive_pairs import InlineEngine
from rasters import band, source, textured, write_scene, write_vrt

from workflows.archive.state import read_state
from workflows.cli import batch as cli_batch

HOSTS = {"tif": "GTiff", "png": "PNG", "jpg": "JPEG", "jp2": "JP2OpenJPEG"}
HIDDEN = '<?x a="b"/>' + band(4, source("../secret.tif")) + '<?x a="b"?>'
REASONS = {"vrt": "holds processing instructions", "mask": "beside it is not a TIFF"}
COMMANDS = {
    "caption": (2, "caption {0} {1} -o out.geojson"),
    "inspect": (2, "inspect {0} {1}"),
    "pairs": (2, "pairs pairs.csv -o out.csv"),
    "batch": (3, "batch pairs.csv --out archive"),
}


@pytest.fixture(params=HOSTS)
def host(request, tmp_path, monkeypatch):
    """Two dates in one format, in the current folder; a raster of somebody else lies above it."""
    kind, folder = request.param, tmp_path / "scenes"
    folder.mkdir()
    monkeypatch.chdir(folder)
    write_scene(tmp_path / "secret.tif", textured(64, 64))
    for number, name in enumerate(("a", "b")):
        write_scene(folder / f"{name}.{kind}", textured(64, 64, seed=number), driver=HOSTS[kind])
    return kind


@pytest.mark.parametrize("command", COMMANDS)
@pytest.mark.parametrize("attack", REASONS)
def test_no_command_reads_what_a_stranger_hid(host, tmp_path, monkeypatch, rscc_command, attack, command):
    folder = tmp_path / "scenes"
    if attack == "vrt":
        later = write_vrt(folder / "b.vrt", f"b.{host}", extra=HIDDEN).name
    else:
        later = f"b.{host}"
        write_vrt(folder / f"B.{host.upper()}.Msk", "../secret.tif")
    (folder / "pairs.csv").write_text(f"pair,before,after\none,a.{host},{later}\n")
    monkeypatch.setattr(cli_batch, "_engine", lambda *_: InlineEngine())
    code, words = COMMANDS[command]
    ended, out, err = rscc_command(*words.format(f"a.{host}", later).split())
    told = out + err
    if command == "batch":
        with read_state(folder / "archive") as state:
            told += "".join(str(row.line) for row in state.index.rows("failed"))
    assert ended == code, told
    assert later in told and REASONS[attack] in told and "Traceback" not in told
    assert not list(folder.glob("out.*"))
