"""What the QGIS styles say of a change, as expressions of QGIS.

Captions and names of files come from strangers. They are only ever values that an expression reads from a
field: never part of an expression, and escaped where they become HTML.
"""

from __future__ import annotations

from rscc.text.facts import DIRECTIONS, PLANTS
from rscc.text.object_classes import KINDS, OTHER_KIND

# Letters of a value that are shown.
LONGEST = 300
# First the sign that stands in the others. Bracket and percent sign begin an expression in a template.
_ESCAPES = {"&": "&amp;", "<": "&lt;", ">": "&gt;", '"': "&quot;", "''": "&#39;", "[": "&#91;", "%": "&#37;"}
CHIP_FIELDS = ("chip_before", "chip_after")
"""Pictures of a change, JPEG: columns of a GeoPackage that was written with the scenes at hand."""
_UNKNOWN = "not stated"


def category() -> str:
    """Return the expression of kind and direction, such as ``building appeared``; null where not stated."""
    directions = ", ".join(map(_quoted, DIRECTIONS))
    return f"""if("direction" IN ({directions}), concat({kind()}, ' ', "direction"), NULL)"""


def kind() -> str:
    """Return the expression of the kind of a change: the first that one of its classes belongs to."""
    cases = " ".join(
        "WHEN " + " OR ".join(f"@classes LIKE '%{name}%'" for name in classes) + f" THEN {_quoted(kind)}"
        for kind, classes in {**KINDS, "vegetation": (*KINDS["vegetation"], *PLANTS)}.items()
    )
    classes = f"""if("direction" = 'disappeared', {_listed("gone")}, {_listed("came")})"""
    return f"with_variable('classes', {classes}, CASE {cases} ELSE {_quoted(OTHER_KIND)} END)"


def sentence() -> str:
    """Return the expression of the label near by: the caption on one line, as far as it is shown."""
    return _one_line('"caption"')


def summary() -> str:
    """Return the expression of the label from afar, such as ``113 × building``; the kind alone for others."""
    counted = """if("count" > 1, concat("count", ' × building'), 'building')"""
    return f"""if("direction" IS NULL, NULL, if({kind()} = 'building', {counted}, {kind()}))"""


def map_tip() -> str:
    """Return the HTML that QGIS shows under the mouse, with its expressions in ``[% %]``."""
    rows = {
        "what": f"""coalesce({category()}, {_quoted(_UNKNOWN)})""",
        "objects": """if("count_sure" < "count", concat("count", ', ', "count_sure", ' sure'), "count")""",
        "area": """concat(format_number("area_m2", 0), ' m²')""",
        "largest": """concat(format_number("largest_m2", 0), ' m²')""",
        "dates": """concat(coalesce("date_before", '?'), ' → ', coalesce("date_after", '?'))""",
        "place": '"place"',
        "arrangement": '"arrangement"',
        "ground before": _listed("before_cover"),
        "score": 'round("score", 2)',
        "probability of change": 'round("change_probability", 2)',
        "scenes": """concat("before", ' → ', "after")""",
        "model": """concat("model", ' ', "model_version")""",
    }
    cells = "".join(
        f"<tr><td><i>{name}</i></td><td>{_shown(expression)}</td></tr>" for name, expression in rows.items()
    )
    caption = _shown('"caption"')
    chips = "".join(map(_picture, CHIP_FIELDS))
    return f'<div style="width:22em"><p><b>{caption}</b></p>{chips}<table>{cells}</table></div>'


def _picture(field: str) -> str:
    """Return a part of HTML that shows the picture in a field; nothing where the layer has no such field.

    Letters of base64 end no attribute, whatever the field holds.
    """
    start, end = (_quoted(text) for text in ('<img src="data:image/jpeg;base64,', '"> '))
    return f"[% coalesce({start} || to_base64(attribute({_quoted(field)})) || {end}, '') %]"


def _listed(field: str) -> str:
    """Return the expression of a field with a list, which is JSON as a text in some formats, as words."""
    return f"""regexp_replace(try(array_to_string("{field}", ', '), "{field}"), '[\\\\[\\\\]"]', '')"""


def _one_line(expression: str) -> str:
    """Return the expression of a text without characters that steer, hide or turn around what is shown."""
    text = f"regexp_replace(to_string({expression}), '(\\\\p{{C}}|\\\\s)+', ' ')"
    return f"trim(left({text}, {LONGEST}))"


def _shown(expression: str) -> str:
    """Return a part of HTML that is the value of an expression as text; a dash where there is none."""
    raw, escaped = (f"array({', '.join(map(_quoted, texts))})" for texts in (_ESCAPES, _ESCAPES.values()))
    value = f"replace({_one_line(expression)}, {raw}, {escaped})"
    return f"[% coalesce(nullif({value}, ''), '–') %]"


def _quoted(text: str) -> str:
    return f"'{text}'"
