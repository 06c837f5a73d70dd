"""The answers that fact heads give: what came, what is gone, and what is around a change."""

CHANGING = ("building", "road", "parking lot", "trees")
"""Object classes that come and go."""
AROUND = ("building", "road", "trees", "grass", "bare ground", "water", "parking lot")
"""Object classes that captions name, as changed objects or as landmarks beside a change."""
COVERS = ("trees", "bare ground", "grass", "water")
"""Classes that cover the ground a change stands on."""
ANSWERS = (
    *(f"came {name}" for name in CHANGING),
    *(f"gone {name}" for name in CHANGING),
    *(f"around {name}" for name in AROUND),
)
"""Names of the logits of a region, in order."""
OF_AROUND = slice(-len(AROUND), None)
"""Positions of the answers about :data:`AROUND`."""
