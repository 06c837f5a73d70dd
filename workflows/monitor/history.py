"""States of an event: a pure function of what each scene says about it.

::

    (not seen) -> candidate -> confirmed -> ended
                       |
                       +--> dropped

``N`` usable dates that show it confirm an event; ``N`` usable dates in a row that do not show it end a
confirmed one, and drop a candidate. Hidden scenes count for neither, and scenes of one date count once.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Literal

from workflows.monitor.events import Sighting

State = Literal["candidate", "confirmed", "ended", "dropped"]


@dataclass(frozen=True)
class Turn:
    """A change of state, by the scene that gave the evidence."""

    state: State
    date: str
    scene: str


@dataclass(frozen=True)
class History:
    """State and dates of an event; dates are ISO, as precise as those of the scenes.

    Attributes:
        state: its state now; a candidate where no scene shows it.
        last_absent: date of the last usable scene before it was first seen; None without one.
        first_seen: date of the first scene that shows it.
        confirmed_on: date of the scene that confirmed it; None before.
        last_seen: date of the last scene that shows it.
        ended_on: date of the first scene without it, where it ended.
        seen: usable dates that show it; ``usable`` counts all that show the ground.
        turns: its states in order of time.
    """

    state: State
    last_absent: str | None
    first_seen: str | None
    confirmed_on: str | None
    last_seen: str | None
    ended_on: str | None
    seen: int
    usable: int
    turns: tuple[Turn, ...]


def history_of(sightings: Sequence[Sighting], dates: Mapping[str, str], confirm: int) -> History:
    """Return the history of an event.

    Args:
        sightings: one for each scene, in order of date.
        confirm: usable dates that confirm, end or drop an event, at least 1.
    """
    usable = _one_per_date([one for one in sightings if one.state != "hidden"], dates)
    turns: list[Turn] = []
    run: list[Sighting] = []  # scenes that show it since it became a candidate
    gone: list[Sighting] = []  # scenes without it since it was last seen
    last_absent: str | None = None
    for one in usable:
        if one.state == "seen":
            if not turns or turns[-1].state in ("dropped", "ended"):
                run = []
                last_absent = dates[gone[-1].scene] if gone else None
                turns.append(Turn("candidate", dates[one.scene], one.scene))
            run.append(one)
            gone = []
            if len(run) >= confirm and turns[-1].state == "candidate":
                turns.append(Turn("confirmed", dates[one.scene], one.scene))
            continue
        gone.append(one)
        if len(gone) >= confirm and turns and turns[-1].state in ("candidate", "confirmed"):
            state: State = "ended" if turns[-1].state == "confirmed" else "dropped"
            turns.append(Turn(state, dates[one.scene], one.scene))
    state = turns[-1].state if turns else "candidate"
    confirmed = [turn.date for turn in turns if turn.state == "confirmed"]
    return History(
        state=state,
        last_absent=last_absent,
        first_seen=dates[run[0].scene] if run else None,
        confirmed_on=confirmed[-1] if confirmed and state != "candidate" else None,
        last_seen=dates[run[-1].scene] if run else None,
        ended_on=dates[gone[0].scene] if state == "ended" and gone else None,
        seen=sum(one.state == "seen" for one in usable),
        usable=len(usable),
        turns=tuple(turns),
    )


def _one_per_date(usable: Sequence[Sighting], dates: Mapping[str, str]) -> list[Sighting]:
    """Return one scene of each date, one that shows the event where there is any."""
    days = groupby(usable, key=lambda one: dates[one.scene])
    return [min(day, key=lambda one: one.state != "seen") for _, day in days]
