"""The models that come with the package; this module is cheap to import."""

from pathlib import Path

SHIPPED = Path(__file__).parent
"""Folder of the model folders."""
DEFAULT_MODEL = "rscc-base"
"""Name of the default model, for about 0.5 m per pixel."""
MEDIUM_MODEL = "rscc-medium"
"""Name of the model for 10 to 30 m per pixel."""
