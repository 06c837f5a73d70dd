"""Sentences about land cover on a map: what grew, was lost or was flooded, on how many hectares, where."""

from decimal import ROUND_FLOOR, ROUND_HALF_EVEN, Context

from rscc.text.change_facts import PLANTS, SOMETHING, ChangeFacts
from rscc.text.map_sentences import sentence_case

_HECTARE = 10_000.0
_SMALL_M2 = 1000.0  # areas below are given in square metres
_LEAST_SHARE = 0.001  # smaller shares of the scene are not mentioned


def cover_sentences(facts: ChangeFacts) -> list[str]:
    """Return the sentences about a change of land cover, the fullest first.

    ``facts.area_m2`` is the area of water that came or is gone, else of plants; where one class came and is
    gone, it is the area that came, and ``facts.back_m2`` the area that is gone.
    """
    if facts.area_m2 is None:
        return [SOMETHING]
    area, _ = cover_area(facts.area_m2, at_least=facts.at_least)
    if facts.back_m2 is not None:
        lost, _ = cover_area(facts.back_m2, at_least=facts.at_least)
        clauses = _both_ways(facts, area, lost)
    else:
        clauses = _one_way(facts, area)
    return list(dict.fromkeys(map(sentence_case, clauses)))


def _both_ways(facts: ChangeFacts, area: str, lost: str) -> list[str]:
    place, plants = _place(facts), _plants(facts)
    if "water" in facts.came:
        return [
            f"water spread over {area} and retreated from {lost}{place}",
            f"{lost} of water disappeared and {area} came under water{place}",
        ]
    return [
        f"{lost} of {plants} disappeared and {area} grew{place}",
        f"{plants} disappeared from {lost} and grew on {area}{place}",
    ]


def _one_way(facts: ChangeFacts, area: str) -> list[str]:
    place, plants, share = _place(facts), _plants(facts), _share(facts)
    if "water" in facts.came:
        over = f", most of it where there was {plants}" if plants else ""
        return [
            f"water spread over {area}{place}{over}",
            f"water spread over {area}{place}{share}{over}",
            f"{area} came under water{over}",
        ]
    before_and = "," if share else ""
    if "water" in facts.gone:
        grown = f" and {plants} grew on most of it" if plants else ""
        return [
            f"{area} of water disappeared{place}{grown}",
            f"water retreated from {area}{place}{share}{before_and if grown else ''}{grown}",
            f"{area} of water disappeared{grown}",
        ]
    if facts.gone:
        burnt = " and most of it looked burnt" if "burnt ground" in facts.came else ""
        return [
            f"{area} of {plants} disappeared{place}{burnt}",
            f"{plants} disappeared from {area}{place}{share}{before_and if burnt else ''}{burnt}",
            f"{area} lost {plants}{burnt}",
        ]
    return [
        f"{area} of {plants} grew{place}",
        f"{plants} grew on {area}{place}{share}",
        f"{area} of {plants} grew",
    ]


def _place(facts: ChangeFacts) -> str:
    return f" in the {'-'.join(facts.place)}" if facts.place else ""


def _plants(facts: ChangeFacts) -> str:
    return next((name for name in PLANTS if name in facts.came or name in facts.gone), "")


def _share(facts: ChangeFacts) -> str:
    if facts.share is None or facts.share < _LEAST_SHARE:
        return ""
    return f", {_two_digits(100 * facts.share)} percent of the scene"


def cover_area(square_metres: float, *, at_least: bool) -> tuple[str, bool]:
    """Return an area in words, with two significant digits, and whether its verb is plural."""
    least = "at least " if at_least else ""
    if square_metres < _SMALL_M2:
        return f"{least}{_two_digits(square_metres, down=at_least)} m2", True
    words = _two_digits(square_metres / _HECTARE, down=at_least)
    return f"{least}{words} ha", words != "1"


def _two_digits(value: float, *, down: bool = False) -> str:
    context = Context(prec=2, rounding=ROUND_FLOOR if down else ROUND_HALF_EVEN)
    return f"{float(context.create_decimal(f'{value:.9g}')):,.10g}"
