"""Every trip over a pair reads the header of each scene once."""

from __future__ import annotations

from collections import Counter

import pytest
from captioners import BrightnessCaptioner
from scene_pairs import make_pair

import tiling.scene
from workflows.cli.app import main


@pytest.fixture
def pair(tmp_path):
    return make_pair(tmp_path, [(40, 150, 12, 20, 220)], size=(300, 420))


@pytest.fixture
def headers(monkeypatch):
    """How often the header of each file was read."""
    reads = Counter()
    describe = tiling.scene._described

    def counting(location, access, file):
        reads[location.shown] += 1
        return describe(location, access, file)

    monkeypatch.setattr(tiling.scene, "_described", counting)
    return reads


@pytest.mark.parametrize(
    ("command", "options"), [("caption", ["-o", "r.geojson"]), ("inspect", []), ("explain", ["-o", "p.png"])]
)
def test_a_command_reads_each_header_once(pair, tmp_path, headers, monkeypatch, command, options):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(SystemExit) as ended:
        main(
            [command, str(pair.before), str(pair.after), *options],
            captioner_factory=lambda model, device: BrightnessCaptioner(),
            card_factory=lambda model: BrightnessCaptioner().card,
        )
    assert not ended.value.code
    assert headers == {str(pair.before): 1, str(pair.after): 1}
