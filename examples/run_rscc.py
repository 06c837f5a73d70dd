"""Runs the command ``rscc`` of this Python, as it is typed in a terminal."""

from __future__ import annotations

import subprocess
import sys


def rscc(*words: object) -> None:
    """Run ``rscc WORDS`` and show it.

    Raises:
        CalledProcessError: it failed, and has said why.
    """
    texts = [str(word) for word in words]
    print("$ rscc " + " ".join(texts), flush=True)
    subprocess.run([sys.executable, "-m", "rscc", *texts], check=True)
