"""Teaches a model folder to tell facts: heads on its trunk, their calibration, and what people say.

    python benchmarks/fit_facts.py MODEL --data DATA/levir_cc --labelled DATA/change_masks
        --labels benchmarks/labels.csv --roads DATA/single_date --output FOLDER

Reads the training pairs alone, pairs with labels, and the images with road masks. The captioner stays as it
is, and so does what is learnt from a folder that is not given. Prints, for each fact that there are pairs
enough to learn from, how well it is known at places that the heads did not learn from (held out in turn):
area under the ROC curve and F1 among changed pairs; and how well roads are known on images held out.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

from rscc.data.benchmarks.levir_cc import LevirCC
from rscc.data.labels import read_labelled
from rscc.devices import fast_bf16, pick_device
from rscc.freed_memory import keep_freed_memory
from rscc.model_folder import find_model, load_facts, load_model, open_model_folder
from rscc.training.card import facts_text
from rscc.training.facts import fit_facts
from rscc.training.finish import save_with_facts
from rscc.training.roads import fit_roads


def main(words: Sequence[str] | None = None) -> None:
    """Run the script."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("model", help="name or folder")
    parser.add_argument("--data", type=Path, help="folder in LEVIR-CC's layout, to learn facts from")
    parser.add_argument("--labelled", type=Path, help="folder of further pairs to learn facts from")
    parser.add_argument("--labels", type=Path, help="their table; default: labels.csv in that folder")
    parser.add_argument("--roads", type=Path, help="folder of single dates with road masks")
    parser.add_argument("--output", type=Path, required=True, help="model folder to write")
    parser.add_argument("--version", help="of the new model; default: that of MODEL")
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args(words)
    keep_freed_memory()
    report = partial(print, flush=True)
    folder = open_model_folder(find_model(options.model), check_hashes=True)
    model = load_model(folder)
    known = facts = load_facts(folder)
    size, seed = folder.card.tile_size, options.seed
    if options.data is not None:
        facts = fit_facts(
            model,
            LevirCC(options.data, "train").records,
            size=size,
            threshold=folder.card.threshold,
            bf16=fast_bf16(pick_device("cpu")),
            seed=seed,
            labelled=read_labelled(options.labelled, options.labels) if options.labelled else (),
            report=report,
        )
        if facts is not None and known is not None:
            facts = replace(facts, roads=known.roads)
    if facts is None:
        raise SystemExit(
            f"{options.data or options.model}: no facts, and too few changed pairs to learn them from"
        )
    if options.roads is not None:
        gsd = folder.card.gsd
        facts = replace(
            facts, roads=fit_roads(model, options.roads, size=size, gsd=gsd, seed=seed, report=report)
        )
    print(facts_text(facts))
    card = replace(folder.card, version=options.version or folder.card.version)
    save_with_facts(options.output, folder, facts, card)


if __name__ == "__main__":
    main()
