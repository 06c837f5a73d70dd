"""The models that come with the package; cheap to import."""

from pathlib import Path

SHIPPED = Path(__file__).parent / "folders"
"""Where their folders lie."""
DEFAULT_MODEL = "rscc-base"
"""Name of the one that is used where none is asked for."""
