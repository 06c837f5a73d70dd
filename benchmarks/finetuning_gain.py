"""Measure the gain of fine-tuning on unseen places with 40, 100 and 400 pairs and three seeds.

    python benchmarks/finetuning_gain.py --data DATA/levir_cc --output runs/gain

The places (tiles) of the training and validation pairs are split once: test places, places to tune on, and
the others, from which the start (trunk and change head of rscc-small) learns captions and facts. Test and
tuning places differ from all others: they are the smallest sufficient one of four clusters of places, by the
mean features of rscc-small's trunk. A random split would have places that the start knows. Pairs are
drawn place by place and given to ``rscc train --from START`` as a user's folder: no validation split,
default options. The result is compared with the start on the test pairs with the most reliable captions;
the interval is that of the gain over the pairs. Trunk and change head saw the masks of most places, the
start no captions of these. Finished trainings are not repeated.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from collections.abc import Collection, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from scipy.cluster.vq import kmeans2

from rscc.data.benchmarks.levir_cc import LevirCC
from rscc.data.pairs import PairRecord, truly_changed
from rscc.data.trunk_maps import pooled_features
from rscc.evaluation.bootstrap import Resamples, percentile_interval
from rscc.evaluation.evaluate import score_model
from rscc.evaluation.markdown import table
from rscc.model_folder import find_model, load_model, open_model_folder, save_model_folder

ANNOTATIONS = "LevirCCcaptions.json"
SUREST = "pattern"
"""Value of ``trust`` of the pairs with the most reliable captions."""
SIZES, SEEDS = (40, 100, 400), (1, 2, 3)
MODEL, CONFIG = "rscc-small", "rscc_small"
KINDS = 4
FOR_TEST = 150
"""Least number of pairs of the test places."""
Entries = Sequence[dict[str, Any]]
Scores = dict[str, tuple[float, list[float]]]


def place_of(entry: dict[str, Any]) -> str:
    """Return the tile that a pair was cut from, or its own name if that is unknown."""
    return str((entry.get("levir_cd") or {}).get("image") or entry["filename"])


def dealt(entries: Entries, data: Path, device: str) -> tuple[set[str], set[str]]:
    """Return the test places, each with reliable captions, and the places to tune on, all of one kind."""
    records = {record.id: record for split in ("train", "val") for record in LevirCC(data, split)}
    backbone = load_model(open_model_folder(find_model(MODEL))).backbone.eval().to(device)
    seen = pooled_features(backbone, [records[entry["filename"]] for entry in entries], size=256, bf16=False)
    place_of_each = np.array([place_of(entry) for entry in entries])
    places, number = np.unique(place_of_each, return_inverse=True)
    means = np.stack([seen[number == place].mean((0, 1)) for place in range(len(places))])
    kind_of_each = kmeans2(means, KINDS, minit="++", seed=1)[1][number]
    enough = FOR_TEST + max(SIZES)
    count, kind = min((n, kind) for kind, n in enumerate(np.bincount(kind_of_each)) if n >= enough)
    print(f"{count} of {len(entries)} pairs are of this kind", file=sys.stderr)
    of_kind = [entry for entry, one in zip(entries, kind_of_each, strict=True) if one == kind]
    tuning = sorted({place_of(entry) for entry in of_kind})
    surest = {place_of(entry) for entry in of_kind if entry.get("trust") == SUREST}
    order = [place for place in np.random.default_rng(0).permutation(tuning).tolist() if place in surest]
    test: set[str] = set()
    while sum(place_of(entry) in test for entry in of_kind) < FOR_TEST:
        test.add(order[len(test)])
    return test, set(tuning) - test


def write_folder(data: Path, folder: Path, entries: Entries, validation: Collection[str] = ()) -> None:
    """Write pairs in the layout of the data, images linked; ``validation`` places are the split ``val``."""
    folder.mkdir(parents=True)
    (folder / "images").symlink_to((data / "images").resolve())
    images = [entry | {"split": "val" if place_of(entry) in validation else "train"} for entry in entries]
    (folder / ANNOTATIONS).write_text(json.dumps({"images": images}), encoding="utf-8")


def without_facts(path: Path) -> Path:
    """Write a model without fact heads: those of a shipped one have seen the captions of all places."""
    if not path.exists():
        folder = open_model_folder(find_model(MODEL))
        save_model_folder(
            path,
            load_model(folder),
            card=folder.card,
            card_text="",
            no_change_prefixes=folder.no_change_prefixes,
            no_change_runs=folder.no_change_runs,
        )
    return path


def train(output: Path, device: str, *words: object) -> Path:
    """Run ``rscc train`` unless it is finished; return the model folder."""
    if not (output / "model" / "model.json").is_file():
        command = [sys.executable, "-m", "rscc", "train", "--output", output, "--overwrite"]
        command += ["--device", device, *words]
        if subprocess.run([str(word) for word in command], stdout=sys.stderr, check=False).returncode:
            raise SystemExit(f"{output}: the training failed")
    return output / "model"


def delivered(made: Path, start: Path) -> str:
    """Return which model a training returned."""
    new, old = (open_model_folder(path).card for path in (made, start))
    if new.weights_sha256 != old.weights_sha256:
        return "the tuned model"
    return "the start" if new.facts_sha256 == old.facts_sha256 else "the start, facts learnt on"


def scored(model: Path, records: Sequence[PairRecord], device: str) -> dict[str, tuple[float, list[float]]]:
    """Return CIDEr of all and of the changed pairs: its value, and that of each pair."""
    rows = {row.subset: row for row in score_model(model, records, device=device)}
    return {
        name: (rows[name].as_dict()["cider"], list(rows[name].captions.per_pair["cider"].values()))
        for name in ("all", "changed")
    }


def gains(before: Scores, after: Scores) -> Iterator[str]:
    """Yield the CIDEr of all pairs and of the changed ones, before and after, and the gain's interval."""
    for name, (score, pairs) in before.items():
        gain = percentile_interval(Resamples(len(pairs)).means(np.subtract(after[name][1], pairs)))
        assert gain is not None
        yield from (f"{score:.1f}", f"{after[name][0]:.1f}", f"{gain[0]:+.1f} to {gain[1]:+.1f}")


def main() -> None:
    """Train what is not trained yet, score it, and print the table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--data", type=Path, required=True, help="folder in LEVIR-CC's layout")
    parser.add_argument("--output", type=Path, default=Path("runs/gain"))
    parser.add_argument("--device", default="cpu", help="cpu, cuda or cuda:1")
    arguments = parser.parse_args()
    data, output, device = arguments.data, arguments.output, arguments.device
    content = json.loads((data / ANNOTATIONS).read_text(encoding="utf-8"))["images"]
    entries = [entry for entry in content if entry["split"] != "test"]
    test, tuning = dealt(entries, data, device)
    others = [entry for entry in entries if place_of(entry) not in test | tuning]
    surest = [entry for entry in entries if place_of(entry) in test and entry.get("trust") == SUREST]
    if not output.exists():
        own = sorted({place_of(entry) for entry in others})
        write_folder(data, output / "start-data", others, own[:: max(1, len(own) // 8)])
        write_folder(data, output / "test-data", surest)
    shared = ("--trunk", without_facts(output / "trunk"), "--name", "start", "--config", CONFIG)
    start = train(output / "start", device, "--data", output / "start-data", *shared)
    records = LevirCC(output / "test-data", "train")
    before = scored(start, records, device)

    def row_of(run: tuple[int, int]) -> tuple[str, ...]:
        size, seed = run
        mine = output / f"{size}-{seed}-data"
        if not mine.exists():
            order = [sorted(tuning)[i] for i in np.random.default_rng(seed).permutation(len(tuning))]
            pairs = [entry for place in order for entry in entries if place_of(entry) == place]
            write_folder(data, mine, pairs[:size])
        made = train(output / f"{size}-{seed}", device, "--data", mine, "--from", start, "--seed", seed)
        row = str(size), str(seed), delivered(made, start), *gains(before, scored(made, records, device))
        print(*row, sep=" | ", file=sys.stderr, flush=True)
        return row

    rows = [row_of((size, seed)) for size in SIZES for seed in SEEDS]
    changed = sum(map(truly_changed, records))
    print(f"CIDEr of {len(records)} pairs of {len(test)} places, {changed} changed\n")
    each = ("start", "delivered", "gain, 95 %")
    print(table(("pairs", "seed", "delivered", *each, *(f"changed: {cell}" for cell in each)), rows))


if __name__ == "__main__":
    main()
