"""The halves of the cross-validation share no place, and its scores are those of what was said."""

import json

import cross_validation
import pytest
from cross_validation import main, place_of
from fakes import card
from levir_cc_fixture import write_levir_cc
from tiny_models import tiny_model

from rscc.data.benchmarks.levir_cc import LevirCC
from rscc.model_folder import save_model_folder


@pytest.fixture
def data(tmp_path):
    """Eighteen pairs of nine tiles; those of the first six tiles are of the surest trust."""
    root = write_levir_cc(tmp_path / "levir", train=12, val=6, test=4)
    file = root / "LevirCCcaptions.json"
    content = json.loads(file.read_text())
    for number, entry in enumerate(content["images"]):
        if entry["split"] != "test":
            entry["levir_cd"] = {"image": f"tile_{number // 2}.png"}
        entry["trust"] = "pattern" if number < 12 else "matched"
    file.write_text(json.dumps(content))
    return root


def entries_of(folder):
    return json.loads((folder / "LevirCCcaptions.json").read_text())["images"]


def test_folds_share_no_place_and_hold_no_test_pair(data, tmp_path, capsys) -> None:
    main(["folds", "--data", str(data), "--output", str(tmp_path / "cv")])
    folders = [tmp_path / "cv" / name for name in ("fold0", "fold1")]
    assert capsys.readouterr().out.split() == [str(folder) for folder in folders]
    learnt, held = [], []
    for folder in folders:
        by_split = {
            split: [e for e in entries_of(folder) if e["split"] == split] for split in ("train", "val")
        }
        assert len(entries_of(folder)) == sum(map(len, by_split.values()))
        assert not any(entry["filename"].startswith("test") for entry in entries_of(folder))
        places = [{place_of(entry) for entry in by_split[split]} for split in by_split]
        assert places[0].isdisjoint(places[1])
        assert {entry["trust"] for entry in by_split["val"]} == {"pattern"}
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
    models = [
        save_model_folder(
            tmp_path / f"model{seed}",
            tiny_model(seed=seed),
            card=card(name="tiny"),
            card_text="# tiny\n",
            no_change_prefixes=[["there", "is", "no"]],
        ).path
        for seed in range(2)
    ]
    asked = []
    folds = [str(tmp_path / "cv" / f"fold{number}") for number in range(2)]
    seen = cross_validation.describe
    monkeypatch.setattr(
        cross_validation,
        "describe",
        lambda captioner, records, beams: (
            asked.append((captioner.card, beams)),
            seen(captioner, records, beams),
        )[1],
    )
    main(["score", "--folds", *folds, "--models", *map(str, models), "--beams", "2", "--support", "5"])
    row = capsys.readouterr().out.splitlines()[-1]
    assert row.split("|")[1].strip() == "6"
    assert {(one.support, beams) for one, beams in asked} == {(5, 2)}
