"""The halves of the cross-validation share no place, and its scores are those of what was said."""

import json

import cross_validation
import pytest
from benchmark_fixtures import edit_json
from cross_validation import main, place_of
from levir_cc_fixture import write_levir_cc
from markdown_tables import cells_of
from saved_models import saved
from tiny_models import tiny_model

from rscc.data.benchmarks.levir_cc import LevirCC


@pytest.fixture
def data(tmp_path):
    """Eighteen pairs of nine tiles; those of the first six tiles are of the surest trust."""
    root = write_levir_cc(tmp_path / "levir", train=12, val=6, test=4)

    def change(content):
        for number, entry in enumerate(content["images"]):
            if entry["split"] != "test":
                entry["levir_cd"] = {"image": f"tile_{number // 2}.png"}
            entry["trust"] = "pattern" if number < 12 else "matched"

    edit_json(root / "LevirCCcaptions.json", change)
    return root


def test_folds_share_no_place_and_hold_no_test_pair(data, tmp_path, capsys) -> None:
    main(["folds", "--data", str(data), "--output", str(tmp_path / "cv")])
    folders = [tmp_path / "cv" / name for name in ("fold0", "fold1")]
    assert capsys.readouterr().out.split() == [str(folder) for folder in folders]
    learnt, held = [], []
    for folder in folders:
        entries = json.loads((folder / "LevirCCcaptions.json").read_text())["images"]
        assert {entry["split"] for entry in entries} == {"train", "val"}
        assert not any(entry["filename"].startswith("test") for entry in entries)
        places = [{place_of(e) for e in entries if e["split"] == split} for split in ("train", "val")]
        assert places[0].isdisjoint(places[1])
        assert {entry["trust"] for entry in entries if entry["split"] == "val"} == {"pattern"}
        learnt.append(places[0])
        held.append(places[1])
        # The images are found where they were.
        assert all(record.before.is_file() for record in LevirCC(folder, "val").records)
    assert learnt[0].isdisjoint(learnt[1])
    assert learnt[0] | learnt[1] == {f"tile_{number}.png" for number in range(9)}
    assert held[0] | held[1] == {f"tile_{number}.png" for number in range(6)}


def test_models_are_scored_on_what_they_did_not_learn(
    tiny_registered, data, tmp_path, monkeypatch, capsys
) -> None:
    main(["folds", "--data", str(data), "--output", str(tmp_path / "cv")])
    capsys.readouterr()
    models = [saved(tmp_path / f"model{seed}", tiny_model(seed=seed)).path for seed in range(2)]
    asked = []
    folds = [str(tmp_path / "cv" / f"fold{number}") for number in range(2)]
    describe = cross_validation.describe

    def watched(captioner, records, beams):
        asked.append((captioner.card.support, beams))
        return describe(captioner, records, beams)

    monkeypatch.setattr(cross_validation, "describe", watched)
    main(["score", "--folds", *folds, "--models", *map(str, models), "--beams", "2", "--support", "5"])
    assert cells_of(capsys.readouterr().out)[-1][0] == "6"
    assert set(asked) == {(5, 2)}
