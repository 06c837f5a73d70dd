"""Run the command ``rscc`` of this Python."""

from __future__ import annotations

import subprocess
import sys


def run_rscc(*words: object) -> None:
    """Print and run ``rscc WORDS``.

    Raises:
        CalledProcessError: the command failed.
    """
    texts = [str(word) for word in words]
    print("$ rscc " + " ".join(texts), flush=True)
    subprocess.run([sys.executable, "-m", "rscc", *texts], check=True)
