"""Draw the same place of the generated scene as several models see it, one picture per model.

Usage: python examples/explain_demo.py MODEL ... [-o docs/images] [--scene demo]

MODEL is the name of a shipped model or a model folder. The picture of a model is called
``explain_<paper>.png`` after the paper that its card names.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
from pathlib import Path

from make_demo_scene import make_scene

from rscc.model_folder import find_model, open_model_folder

# Of the seed that the demo has by default: a street of new houses, its trees felled.
PLACE = "-97.82625,30.47297"
SEED = 7


def explain(model: str, scene: Path, folder: Path) -> Path:
    """Write the picture of one model and return its path.

    Args:
        model: name or folder.
        scene: folder with the rendered pair.
        folder: where the picture goes; a picture of that name is replaced.

    Raises:
        CalledProcessError: ``rscc explain`` failed; it has said why.
    """
    paper = open_model_folder(find_model(model)).card.paper
    picture = folder / f"explain_{paper}.png"
    words = ["explain", scene / "before_2016.tif", scene / "after_2019.tif", "-o", picture]
    words += ["--model", model, "--at", PLACE, "--overwrite"]
    subprocess.run([sys.executable, "-m", "rscc", *map(str, words)], check=True)
    return picture


def main() -> int:
    """Draw every model named on the command line; returns the exit code of the first that fails."""
    parser = argparse.ArgumentParser(description="Explain the generated scene by several models.")
    parser.add_argument("models", nargs="+", help="names or folders")
    parser.add_argument("-o", "--output", default="docs/images", type=Path)
    parser.add_argument("--scene", default="demo", type=Path, help="folder of the rendered scene")
    options = parser.parse_args()
    make_scene(options.scene, seed=SEED)
    options.output.mkdir(parents=True, exist_ok=True)
    for model in options.models:
        try:
            print(explain(model, options.scene, options.output))
        except subprocess.CalledProcessError as error:
            return error.returncode
    return 0


if __name__ == "__main__":
    sys.exit(main())
