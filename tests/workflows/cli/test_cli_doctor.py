"""What rscc doctor says of an installation."""

import json
import shutil

import numpy as np
import pytest
from captioners import BrightnessCaptioner

from rscc.folders import DEFAULT_MODEL
from rscc.model_folder import find_model
from rscc.structures import ChangePrediction
from workflows import doctor


def findings(out):
    told = json.loads(out)
    return told["exit_code"], [(one["subject"], one["state"], one["detail"]) for one in told["findings"]]


def test_a_whole_installation(rscc_command, monkeypatch):
    monkeypatch.setattr(doctor.shutil, "which", lambda name: None)
    code, out, err = rscc_command("doctor", "--device", "cpu")
    lines = [line.split() for line in out.splitlines()]
    assert (code, err) == (0, "")
    assert [line[1] for line in lines] == [
        *("versions", "device", "rasters", "vectors", "weights", "weights", "weights"),
        *("java", "qgis", "self-test"),
    ]
    assert [line[0] for line in lines] == ["ok"] * 7 + ["lacks", "lacks", "ok"]
    assert rscc_command.chosen == [(DEFAULT_MODEL, "cpu")]


class Broken(BrightnessCaptioner):
    """Gives the probability that it is told, whatever it sees."""

    def __init__(self, value):
        super().__init__()
        self.value = value

    def predict_change(self, before, after):
        shape = (len(before), self.card.tile_size, self.card.tile_size)
        return ChangePrediction(np.full(shape, self.value), np.full(len(before), self.value))


@pytest.mark.parametrize(
    ("value", "words"), [(np.nan, "gives no probabilities"), (0.5, "sees no more change")]
)
def test_a_model_that_computes_nonsense_is_wrong(rscc_command, value, words):
    code, out, _ = rscc_command("doctor", "--json", captioner=Broken(value))
    told, found = findings(out)
    subject, state, detail = found[-1]
    assert (code, told, subject, state) == (1, 1, "self-test", "wrong") and words in detail


def test_damaged_weights_are_wrong(rscc_command, tmp_path):
    folder = tmp_path / "mine"
    shutil.copytree(find_model("rscc-small"), folder)
    weights = bytearray((folder / "model.safetensors").read_bytes())
    weights[-1] ^= 1
    (folder / "model.safetensors").write_bytes(weights)
    code, out, _ = rscc_command("doctor", "--json", "--model", folder)
    wrong = [
        detail for subject, state, detail in findings(out)[1] if (subject, state) == ("weights", "wrong")
    ]
    assert code == 1 and len(wrong) == 1 and "not the file that model.json describes" in wrong[0]
