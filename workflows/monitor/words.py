"""Sentences of events, and the stories of sites; they state what the evidence holds, and nothing else."""

from collections.abc import Sequence
from typing import NamedTuple

from rscc.text.map_sentences import sentence_case
from rscc.text.wording import listed, number_words
from workflows.dates import PartialDate
from workflows.monitor.events import FoundEvent
from workflows.monitor.history import History
from workflows.report.looked_at import area_in_words


class _Clause(NamedTuple):
    """Words for a kind of event: without a number, perhaps with its area, for one object, and for several."""

    none: str
    one: str = ""
    several: str = ""


# By kind and direction; both verbs are in the past tense.
_CLAUSES = {
    ("building", "appeared"): _Clause("houses were built", "a house was built", "{} houses were built"),
    ("building", "disappeared"): _Clause(
        "houses were removed", "a house was removed", "{} houses were removed"
    ),
    ("road", "appeared"): _Clause("a road was built", "a road was built", "{} roads were built"),
    ("road", "disappeared"): _Clause("a road was removed", "a road was removed", "{} roads were removed"),
    ("trees", "appeared"): _Clause("trees grew on {}"),
    ("trees", "disappeared"): _Clause("trees were cleared on {}"),
    ("vegetation", "appeared"): _Clause("vegetation grew on {}"),
    ("vegetation", "disappeared"): _Clause("vegetation was cleared on {}"),
    ("bare_ground", "appeared"): _Clause("{} of ground were cleared"),
    ("bare_ground", "disappeared"): _Clause("{} of bare ground were covered"),
    ("built_up", "appeared"): _Clause("{} of ground were built up"),
    ("built_up", "disappeared"): _Clause("{} of built-up ground were cleared"),
    ("water", "appeared"): _Clause("water covered {} of ground"),
    ("water", "disappeared"): _Clause("water gave way to land on {}"),
    ("other_object", "appeared"): _Clause("something was built", "an object appeared", "{} objects appeared"),
    ("other_object", "disappeared"): _Clause(
        "something was removed", "an object disappeared", "{} objects disappeared"
    ),
}
# What can come with houses.
_OTHERS = {"road": "a road", "parking lot": "a parking lot"}
_CHANGED = _Clause("{} of ground changed")
_MONTHS = (
    "January", "February", "March", "April", "May", "June", "July", "August", "September", "October",
    "November", "December",
)  # fmt: skip
_TIMES = ("", "once", "twice")


def sentence_of(found: FoundEvent, history: History, *, withdrawn: bool = False, inside: str = "") -> str:
    """Return the sentence of an event.

    Args:
        withdrawn: later scenes do not hold it any more.
    """
    when = _between(history.last_absent, history.first_seen)
    where = f"inside {inside}" if inside else ""
    words = [clause_of(found), where, when]
    if told := found.facts.get("sentence"):
        # A finder's own sentence ends with what was there before, so the dates come first.
        words = [when, told[:1].lower() + told[1:].removesuffix("."), where]
    text = " ".join(word for word in words if word)
    return f"{sentence_case(text)}{_status(history, withdrawn)}."


def story_words(events: Sequence[tuple[FoundEvent, History]]) -> str:
    """Return the story of a site: what happened, in order of time."""
    parts = []
    for found, history in events:
        date = "" if history.first_seen is None else f" by {date_words(history.first_seen)}"
        gone = f" (gone by {date_words(history.ended_on)})" if history.ended_on else ""
        parts.append(f"{clause_of(found)}{date}{gone}")
    text = ", then ".join(parts)
    return f"{sentence_case(text)}." if text else ""


def clause_of(found: FoundEvent) -> str:
    """Return what happened, without dates: ``about 40 houses were built``."""
    clause = _CLAUSES.get((found.kind, found.direction), _CHANGED)
    sure = found.facts.get("count_sure")
    if found.count == 1 and clause.one:
        return f"perhaps {clause.one}" if sure == 0 else clause.one
    if found.count and clause.several:
        return _with_others(clause.several.format(number_words(found.count, sure)), found)
    return clause.none.format(area_in_words(found.area_m2))


def _with_others(clause: str, found: FoundEvent) -> str:
    """Return a clause about houses with what came with them: ``10 houses and a road were built``."""
    came = found.facts.get("came") or ()
    others = [_OTHERS[name] for name in came if name in _OTHERS]
    if (found.kind, found.direction) != ("building", "appeared") or not others:
        return clause
    head, _, verb = clause.rpartition(" were ")
    return f"{listed([head, *others])} were {verb}"


def date_words(date: str) -> str:
    """Return an ISO date in words: ``12 March 2018``, ``March 2018`` or ``2018``.

    >>> date_words("2018-03-12"), date_words("2018-03")
    ('12 March 2018', 'March 2018')
    """
    year, *rest = date.split("-")
    words = [str(int(day)) for day in rest[1:]] + [_MONTHS[int(month) - 1] for month in rest[:1]]
    return " ".join([*words, year])


def _between(last_absent: str | None, first_seen: str | None) -> str:
    if first_seen is None:
        return ""
    if last_absent is None:
        return f"by {date_words(first_seen)}"
    if last_absent == first_seen:
        return f"in {date_words(first_seen)}"
    one, other = PartialDate(last_absent), PartialDate(first_seen)
    # The year is said once where both are months or days of it.
    same_year = one.first.year == other.first.year and min(len(last_absent), len(first_seen)) > 4
    first = date_words(last_absent).rpartition(" ")[0] if same_year else date_words(last_absent)
    return f"between {first} and {date_words(first_seen)}"


def _status(history: History, withdrawn: bool) -> str:
    if withdrawn:
        return "; later scenes do not show it"
    if history.state == "ended" and history.ended_on:
        return f"; gone by {date_words(history.ended_on)}"
    if history.state == "dropped":
        return "; not seen again"
    if history.state == "candidate":
        return "; not confirmed yet"
    later = history.seen - 1
    if later < 1:
        return ""
    times = _TIMES[later] if later < len(_TIMES) else f"{later} times"
    return f"; confirmed {times} since"
