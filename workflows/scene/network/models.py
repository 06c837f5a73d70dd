"""What the models answer for tiles: change probability and the evidence for facts.

With ``--fast`` a small model, the scout, looks at every tile, and the model asked for only at those that it
does not rule out.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache
from itertools import groupby
from math import lcm
from typing import TYPE_CHECKING, Any

import numpy as np

from rscc.errors import NonFiniteOutput
from rscc.facts.answers import ANSWERS
from rscc.facts.ground_after import MEASURES, ground_after
from rscc.model_folder import ModelCard, load_card
from tiling import BandValues, PairTile, ScenePair, Window
from workflows.errors import OptionInvalid
from workflows.options import SceneOptions
from workflows.progress import device_of
from workflows.scene.network.memory import Batches, MemoryPlan

if TYPE_CHECKING:
    from rscc.captioner import Captioner

SCOUT = "rscc-small"
RULED_OUT = 0.1
"""Change probability that no pixel of a tile reaches that the scout rules out; chosen on training scenes."""


@dataclass(frozen=True)
class TileAnswers:
    """What the network says of one tile.

    Attributes:
        probability: of change, (h, w) float32.
        facts: logits of the fact heads and of the road head, (answers, h, w) float16 by position; None
            without such heads, or where only the scout looked.
        evidence: all bands that the maps keep, (answers, h, w): these, the measures of
            :func:`rscc.facts.ground_after.ground_after`, NaN where no building is gone, and the logit of
            familiar ground; None without any.
        ruled_out: whether only the scout looked.
    """

    probability: np.ndarray
    facts: np.ndarray | None = None
    evidence: np.ndarray | None = None
    ruled_out: bool = False


class Network:
    """The models of a run and the size of their batches.

    Args:
        memory: how many tiles or crops go through the model at once.

    Raises:
        OptionInvalid: ``options.fast`` is set, and there is no scout for this model.
    """

    def __init__(
        self, captioner: Captioner, pair: ScenePair, options: SceneOptions, memory: MemoryPlan
    ) -> None:
        self.captioner, self._pair, self.memory = captioner, pair, memory
        self.batches = Batches(memory.batch_size)
        self._has_facts, self._has_familiarity = tells_facts(captioner, options), has_familiarity(captioner)
        self._threshold = min(RULED_OUT, options.threshold_for(captioner.card))
        self._scout = open_scout(captioner) if options.fast else None
        detector = captioner.card.detector  # of another project, it may see other bands
        self._values = BandValues(pair, detector.bands) if detector and detector.bands else None

    def look(
        self, tiles: Sequence[PairTile], weight: int
    ) -> tuple[Sequence[PairTile], dict[int, TileAnswers]]:
        """Return tiles, and by their index the answers for those whose dates differ.

        Args:
            weight: as how many crops of the model a tile counts.
        """
        # A tile without data is 0 on both dates.
        differing = [tile for tile in tiles if not np.array_equal(tile.before, tile.after)]
        if self._scout is None:
            return tiles, self._answers(self.captioner, differing, weight)
        scouted = self._answers(self._scout, differing, weight)
        kept = [
            tile
            for tile in differing
            if (scouted[tile.tile.index].probability[tile.valid] >= self._threshold).any()
        ]
        found = self._answers(self.captioner, kept, weight)
        rest = {
            number: TileAnswers(answers.probability, ruled_out=True)
            for number, answers in scouted.items()
            if number not in found
        }
        return tiles, rest | found

    def _answers(self, model: Captioner, tiles: Sequence[PairTile], weight: int) -> dict[int, TileAnswers]:
        """Show tiles to a model, those of one size together."""
        is_own = model is self.captioner
        surveys = (self._has_facts or self._has_familiarity) and is_own

        def call(part: Sequence[PairTile]) -> list[TileAnswers]:
            dates = [np.stack([tile.before for tile in part]), np.stack([tile.after for tile in part])]
            if self._values is not None and is_own:
                dates.append(np.stack([self._values.read(tile.tile.window) for tile in part]))
            with self.naming([tile.tile.window for tile in part]):
                if surveys:
                    return [self._answers_of(*each) for each in zip(part, *model.survey(*dates), strict=True)]
                return list(map(TileAnswers, model.search(*dates)))

        return {
            tile.tile.index: answers
            for _, same in groupby(sorted(tiles, key=_shape_of), key=_shape_of)
            for part, found in self.batches.run(list(same), call, weight)
            for tile, answers in zip(part, found, strict=True)
        }

    def _answers_of(self, tile: PairTile, probability: np.ndarray, answers: np.ndarray) -> TileAnswers:
        """Part what a survey gives for one tile; facts that no sentence states are left out."""
        if not self._has_facts:
            return TileAnswers(probability, evidence=answers[-1:])  # familiarity
        facts, familiarity = np.split(answers, [len(answers) - self._has_familiarity])
        evidence = np.concatenate([facts, self._surface(tile, facts), familiarity])
        return TileAnswers(probability, facts, evidence)

    def _surface(self, tile: PairTile, facts: np.ndarray) -> np.ndarray:
        """Measure the ground after where a building may be gone, which is seldom."""
        if facts[ANSWERS.index("gone building")].max() < 0:
            return np.full((len(MEASURES), *facts.shape[1:]), np.nan, np.float32)
        return ground_after(tile.before, tile.after, self.captioner.card.position_size)

    @contextmanager
    def naming(self, windows: Sequence[Window]) -> Iterator[None]:
        """Name the scenes and the window in an error of the network about one of ``windows``."""
        try:
            yield
        except NonFiniteOutput as error:
            broken = [windows[number] for number in error.pairs]
            if not broken:
                raise
            at, more = broken[0], f" and {len(broken) - 1} more" if len(broken) > 1 else ""
            raise NonFiniteOutput(
                f"{self._pair.before.path} and {self._pair.after.path}: for the tile at column {at.col_off}, "
                f"row {at.row_off} ({at.width} x {at.height} pixels of the working grid){more} "
                f"{self.captioner.card.name} answers NaN or infinity; get a sound copy of the model, or try "
                "another --device",
                error.pairs,
            ) from error


def tells_facts(captioner: Captioner, options: SceneOptions) -> bool:
    """Return whether sentences are made of the answers of fact heads."""
    return options.ground and getattr(captioner, "facts", None) is not None


def has_familiarity(captioner: Captioner) -> bool:
    """Return whether a captioner measures how like its training data some ground is."""
    return getattr(captioner, "familiarity", None) is not None


def _shape_of(tile: PairTile) -> tuple[int, ...]:
    return tile.valid.shape


def open_scout(captioner: Captioner) -> Any:
    """Load the small model that looks first.

    Raises:
        OptionInvalid: it is not faster, or does not see the same, as the model asked for.
    """
    card = captioner.card
    if card.name == SCOUT:
        raise OptionInvalid(f"fast: {card.name} is the fast model; leave the option out")
    scout = _load(SCOUT, device_of(captioner))
    if card.detector is not None:
        raise OptionInvalid(
            f"fast: {scout.card.name} cannot rule out what {card.detector.file} looks for; leave the option "
            "out"
        )
    if card.localiser != "change_head" or card.gsd != scout.card.gsd:
        raise OptionInvalid(
            f"fast: {scout.card.name} looks at buildings at {scout.card.gsd:g} m per pixel and cannot "
            f"rule out what {card.name} looks for; leave the option out"
        )
    side = max(card.search_size, card.tile_size)
    if side % scout.card.position_size:
        raise OptionInvalid(
            f"fast: {card.name} looks at tiles of {side} pixels, {scout.card.name} only at multiples of "
            f"{scout.card.position_size}; leave the option out"
        )
    return scout


def common_side(card: ModelCard) -> int:
    """Return of how many pixels the sides of tiles are multiples that the scout and a model can look at."""
    return lcm(card.position_size, load_card(SCOUT).position_size)


@lru_cache(maxsize=1)
def _load(name: str, device: str) -> Captioner:
    from rscc.captioner import Captioner

    return Captioner.load(name, device=device, ground=False)
