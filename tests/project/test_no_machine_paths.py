"""What is committed works on any machine: it names no path or host of the one it was written on."""

import re
import subprocess

import pytest

SUFFIXES = {".py", ".toml", ".md", ".txt", ".json", ".qml", ".yaml", ".yml", ".cfg", ""}
MACHINE_PATH = re.compile(
    r"(?<![\w.~/:-])/(?:home|root|work|opt|mnt|data|Users|workspace|scratch|srv)/\w"
    r"|\b[A-Z]:\\\\?\w"
    r"|file:///\w"
    r"|\b(?:(?<!==)10\.\d+\.\d+\.\d+|192\.168\.\d+\.\d+)\b"
)
# What tests serve to themselves, and what every machine has and nobody may read.
OF_EVERY_MACHINE = re.compile(
    r"127\.0\.0\.1|localhost|\b10\.0\.0\.\d\b|\b192\.168\.1\.1\b|file:///etc/passwd", re.IGNORECASE
)


@pytest.mark.slow
def test_no_file_names_a_path_of_a_machine(repository):
    words = ["git", "ls-files", "-z"]
    listed = subprocess.run(words, cwd=repository, capture_output=True, text=True, check=False)
    if listed.returncode != 0:
        pytest.skip("not a git checkout")
    wrong = []
    for name in filter(None, listed.stdout.split("\0")):
        file = repository / name
        if not file.is_file() or file.suffix not in SUFFIXES or file.name == "test_no_machine_paths.py":
            continue
        text = file.read_text(encoding="utf-8")
        text = OF_EVERY_MACHINE.sub("", text) if name.startswith("tests/") else text
        wrong += [f"{name}: {line.strip()[:80]}" for line in text.splitlines() if MACHINE_PATH.search(line)]
    assert wrong == []
