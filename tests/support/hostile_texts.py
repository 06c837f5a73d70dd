"""Texts of somebody who would like a page, a terminal, a table or a database to do more than show them."""

from random import Random

PIECES = (
    "<img src=x onerror=alert(1)>", "<svg/onload=alert(1)>", "</script>", "</title>",
    "<script>alert(1)</script>", "<iframe srcdoc='<b>'>", "<a href=javascript:alert(1)>x</a>", "<!--",
    "-->", "]]>", "<style>*{}</style>", "<b>", "&lt;", "&#60;", "&amp;", "`", "${alert(1)}", "{{7*7}}",
    "%3Cscript%3E", "\\u003cb\\u003e", "\\x3cb\\x3e", "\\", '"', "'", "//x.example/",
    "https://x.example/", "url(x)", "data:text/html,", "__proto__", "constructor", "null", "\x00",
    "\x07", "\x1b[31m", "\r\n", "\t", "\x7f", "\x85", "\u2028", "\u2029", "\ufeff", "\ufffe", "\ue000",
    "\u202e", "\u202d", "\u2066", "\u2067", "\u2069", "\u200f", "\u200b", "\u200d", "\u0301" * 30,
    "\u05d0\u05d1", "\u0645\u0631\u062d\u0628\u0627", "\u5bb6", "\U0001f3e0", "\U000e0041", "[[data]]",
    "=1+1", "x" * 3_000, " " * 50,
)  # fmt: skip


def hostile_texts(count):
    """Different texts of some pieces each."""
    random = Random(11)
    return [f"{n}{''.join(random.choices(PIECES, k=random.randint(1, 6)))}" for n in range(count)]
