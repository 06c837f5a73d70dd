"""What the words of a scene cost beside its search: by facts and by the decoder, in turns, in one run.

    python benchmarks/words_cost.py BEFORE AFTER [--model NAME] [--rounds 3]

Prints, as Markdown and medians of the rounds: seconds of the search, of making changes out of what it found,
and of the words, and how many changes there were and crops that the decoder described. "facts" is the
default, "decoder" is ``--no-ground``, and "decoder, every outline" has no grouping either.
"""

from __future__ import annotations

import statistics
import time
from itertools import pairwise
from pathlib import Path

from turns import pair_parser

from rscc import Captioner
from rscc.markdown import table
from workflows import SceneOptions
from workflows.scene.run import SceneRun

WAYS = {
    "facts": SceneOptions(),
    "decoder": SceneOptions(ground=False),
    "decoder, every outline": SceneOptions(ground=False, group_distance=0),
}


def timed(
    before: Path, after: Path, captioner: Captioner, options: SceneOptions
) -> tuple[list[float], int, int]:
    """Return the seconds of search, changes and words, and the numbers of changes and of crops."""
    crops = 0

    def count(stage: str, _done: int, total: int) -> None:
        nonlocal crops
        crops = total if stage == "captions" else crops

    with SceneRun.open(before, after, captioner, options, count) as run:
        clocks = [time.perf_counter()]
        regions = run.regions()
        clocks.append(time.perf_counter())
        events = run.events(regions)
        clocks.append(time.perf_counter())
        run.describe(events)
        clocks.append(time.perf_counter())
        crops = 0 if run.fact_maps is not None else crops
    return [end - start for start, end in pairwise(clocks)], len(events.events), crops


def main() -> None:
    """Time all ways in turns, one more round than asked for first, and print the table."""
    parser = pair_parser(__doc__)
    parser.add_argument("--model", default="rscc-base")
    parser.add_argument("--rounds", type=int, default=3)
    arguments = parser.parse_args()
    captioner = Captioner.load(arguments.model)
    rounds: dict[str, list[list[float]]] = {way: [] for way in WAYS}
    counts = {}
    for number in range(arguments.rounds + 1):
        for way, options in WAYS.items():
            seconds, *counts[way] = timed(arguments.before, arguments.after, captioner, options)
            if number:
                rounds[way].append(seconds)
    rows = []
    for way, times in rounds.items():
        search, changes, words = (statistics.median(column) for column in zip(*times, strict=True))
        share = words / (search + changes + words)
        cells = [f"{value:.2f}" for value in (search, changes, words)]
        rows.append((way, *(str(count) for count in counts[way]), *cells, f"{100 * share:.0f} %"))
    print(table(("words", "changes", "crops", "search, s", "changes, s", "words, s", "share of words"), rows))


if __name__ == "__main__":
    main()
