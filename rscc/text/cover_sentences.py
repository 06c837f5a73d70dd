"""Sentences about land cover on a map: what grew, was lost or was flooded, on how many hectares, where."""

from __future__ import annotations

from decimal import ROUND_FLOOR, ROUND_HALF_EVEN, Context

from rscc.text.facts import PLANTS, SOMETHING, ChangeFacts

_HECTARE = 10_000.0
# Square metres below which hectares say little; share of the scene that is worth a word.
_SMALL, _LEAST_SHARE = 1000.0, 0.001


def cover_sentences(facts: ChangeFacts) -> list[str]:
    """Return what is true of a change of land cover, the fullest sentence first.

    ``facts.area_m2`` is the area of water where it came or is gone, else of plants; where both are so, that
    is how much came, and ``facts.back_m2`` how much is gone.
    """
    if facts.area_m2 is None:
        return [SOMETHING]
    area, plural = cover_area(facts.area_m2, at_least=facts.at_least)
    be, have = ("are", "have") if plural else ("is", "has")
    place = f" in the {'-'.join(facts.place)}" if facts.place else ""
    plants = next((name for name in PLANTS if name in facts.came or name in facts.gone), "")
    percent = ""
    if facts.share is not None and facts.share >= _LEAST_SHARE:
        percent = f", {_two_digits(100 * facts.share)} percent of the scene"

    if facts.back_m2 is not None:
        lost, several = cover_area(facts.back_m2, at_least=facts.at_least)
        gone = "are gone" if several else "is gone"
        if "water" in facts.came:
            return [
                f"water spread over {area} and retreated from {lost}{place}",
                f"{lost} of water {gone} and {area} {be} under water now{place}",
            ]
        return [
            f"{lost} of {plants} {gone} and {area} {have} grown{place}",
            f"{plants} is gone from {lost} and has grown on {area}{place}",
        ]

    def aside(more: str) -> str:
        """Return the share of the scene, and what follows it."""
        return f"{percent}{',' if percent and more.startswith(' and') else ''}{more}"

    if "water" in facts.came:
        drowned = f", most of it where there was {plants}" if plants else ""
        sentences = [
            f"water spread over {area}{place}{drowned}",
            f"water spread over {area}{place}{aside(drowned)}",
            f"{area} {be} under water now{drowned}",
        ]
    elif "water" in facts.gone:
        grown = f" and {plants} has grown on most of it" if plants else ""
        sentences = [
            f"{area} of water {be} gone{place}{grown}",
            f"water retreated from {area}{place}{aside(grown)}",
            f"{area} of water {be} gone{grown}",
        ]
    elif facts.gone:
        burnt = " and most of it looks burnt" if "burnt ground" in facts.came else ""
        sentences = [
            f"{area} of {plants} {be} gone{place}{burnt}",
            f"{plants} is gone from {area}{place}{aside(burnt)}",
            f"{area} {have} lost {plants}{burnt}",
        ]
    else:
        sentences = [
            f"{area} of {plants} {have} grown{place}",
            f"{plants} has grown on {area}{place}{percent}",
            f"{area} of {plants} {have} grown",
        ]
    return list(dict.fromkeys(sentences))


def cover_area(square_metres: float, *, at_least: bool) -> tuple[str, bool]:
    """Return an area with two digits that count, and whether its verb is in the plural."""
    least = "at least " if at_least else ""
    if square_metres < _SMALL:
        return f"{least}{_two_digits(square_metres, down=at_least)} m2", True
    words = _two_digits(square_metres / _HECTARE, down=at_least)
    return f"{least}{words} ha", words != "1"


def _two_digits(value: float, *, down: bool = False) -> str:
    context = Context(prec=2, rounding=ROUND_FLOOR if down else ROUND_HALF_EVEN)
    return f"{float(context.create_decimal(f'{value:.9g}')):,.10g}"
