"""What is shipped or read by people works on any machine: no path or host of the one it was written on."""

import re
import subprocess

import pytest

TEXT_SUFFIXES = {".py", ".toml", ".md", ".txt", ".json", ".qml", ".yaml", ".yml", ".cfg", ""}
MACHINE_PATH = re.compile(
    r"(?<![\w.~/:-])/(?:home|root|work|opt|mnt|data|Users|workspace|scratch|srv)/\w"
    r"|\b[A-Z]:\\\\?\w"
    r"|file:///\w"
    r"|\b(?:localhost|127\.0\.0\.1|(?<!==)10\.\d+\.\d+\.\d+|192\.168\.\d+\.\d+)\b"
)

# Tests serve files to themselves, and ask for what every machine and network has and nobody may get.
OF_EVERY_MACHINE = re.compile(
    r"127\.0\.0\.1|localhost|\b10\.0\.0\.\d\b|\b192\.168\.1\.1\b|file:///etc/passwd", re.IGNORECASE
)


def shipped_files(repository):
    listed = subprocess.run(
        ["git", "ls-files", "-z"], cwd=repository, capture_output=True, text=True, check=False
    )
    if listed.returncode == 0:
        files = [repository / name for name in listed.stdout.split("\0") if name]
    else:  # a source archive has no git
        skipped = {".venv", "demo", "build", "dist", "runs"}
        files = [f for f in repository.rglob("*") if f.relative_to(repository).parts[0] not in skipped]
    return [f for f in files if f.is_file() and f.suffix in TEXT_SUFFIXES and f.name != "LICENSE"]


@pytest.mark.slow
def test_no_file_holds_a_path_of_a_machine(repository):
    wrong = []
    for file in shipped_files(repository):
        if file.name == "test_no_machine_paths.py":
            continue
        for number, line in enumerate(file.read_text(encoding="utf-8").splitlines(), 1):
            foreign = OF_EVERY_MACHINE.sub("", line) if file.is_relative_to(repository / "tests") else line
            if MACHINE_PATH.search(foreign):
                wrong.append(f"{file.relative_to(repository)}:{number}: {line.strip()[:80]}")
    assert wrong == []


MACHINE = (
    *("root = /home/someone/x", '"/work/data"', "C:\\Users\\x"),
    *("file:///opt/x", "at 192.168.1.4", "(/root/a)", "host=10.4.0.35"),
)
RELATIVE = (
    "images/train/A",
    "https://example.org/data/x",
    "~/data/x",
    "../shared/data/x",
    "a/b",
    "n==10.4.0.35",
)


@pytest.mark.parametrize("line", [*MACHINE, *RELATIVE])
def test_the_pattern_sees_machine_paths_and_leaves_relative_ones_alone(line):
    assert bool(MACHINE_PATH.search(line)) is (line in MACHINE)
