"""Captions of unchanged pairs."""

from rscc.text.vocabulary import tokenize

NO_CHANGE_SENTENCES = (
    "there is no difference",
    "the two scenes seem identical",
    "the scene is the same as before",
    "no change has occurred",
    "almost nothing has changed",
)
"""The five captions of every unchanged pair of LEVIR-CC."""

# Further words of such sentences in Dubai-CC, CLEVR-Change and Spot-the-Diff.
_MORE_NO_CHANGE_WORDS = "all everything area image images this in to are was were mention made modified \
occurred appears remains remained changes differences seen"
_NO_CHANGE_WORDS = frozenset(
    word for text in (*NO_CHANGE_SENTENCES, _MORE_NO_CHANGE_WORDS) for word in tokenize(text)
)
_NO_CHANGE_KEYS = frozenset({"no", "identical", "same", "nothing"})


def is_no_change(caption: str) -> bool:
    """Return whether a caption states that nothing changed.

    True for :data:`NO_CHANGE_SENTENCES`, for those of the other data sets, and for any combination of their
    words that contains no, nothing, same or identical, such as "there is no change".
    """
    words = set(tokenize(caption))
    return words <= _NO_CHANGE_WORDS and not words.isdisjoint(_NO_CHANGE_KEYS)
