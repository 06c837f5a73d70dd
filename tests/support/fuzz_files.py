"""Run the command on damaged copies of undamaged folders and count failures.

Every kind of folder first runs undamaged. Each case copies it, damages one file and runs the command there in
a worker process. Failures are unexpected errors, tracebacks, ends by a signal, cases over 60 seconds, lines
that steer a terminal, half-written outputs, files that stay, and changed inputs. Number and seed reproduce a
case.
"""

from __future__ import annotations

import contextlib
import io
import json
import multiprocessing
import os
import random
import shutil
import time
import warnings
from collections import Counter
from dataclasses import asdict, dataclass, field
from multiprocessing.connection import Connection
from pathlib import Path

from damage import mutated
from fuzz_bases import Base, all_bases, run

PATIENCE = 60.0
CODES = {0, 1, 2, 3}


@dataclass
class Case:
    """What became of one damaged folder: ``problems`` is empty where all was as it should be."""

    base: str
    number: int
    file: str
    code: int | None = None
    seconds: float = 0.0
    problems: list[str] = field(default_factory=list)
    error: str = ""


@dataclass
class Summary:
    """The sum of all cases."""

    cases: int = 0
    problems: Counter[str] = field(default_factory=Counter)
    codes: dict[str, Counter[str]] = field(default_factory=dict)
    examples: list[dict[str, object]] = field(default_factory=list)

    def add(self, case: Case) -> None:
        """Count a case; keep the first of each kind of problem."""
        self.cases += 1
        self.codes.setdefault(case.base, Counter())[str(case.code)] += 1
        seen = {(one["base"], str(one["error"])[:60], *one["problems"]) for one in self.examples}  # type: ignore[misc]
        if case.problems and (case.base, case.error[:60], *case.problems) not in seen:
            self.examples.append(asdict(case))
        self.problems.update(case.problems)


def fuzz(place: Path, numbers: range, seed: int) -> Summary:
    """Run cases and return their sum; ``place`` is an empty folder for all that is made."""
    (place / "bases").mkdir()
    with contextlib.redirect_stdout(io.StringIO()):
        bases = all_bases(place / "bases")
    summary, folder = Summary(), place / "case"
    with _Worker() as worker:
        for base in bases:
            shutil.copytree(base.folder, folder)
            answer = worker.ask(folder, base.words)
            assert answer is not None and answer["code"] == 0, f"{base.name} is not sound: {answer}"
            shutil.rmtree(folder)
        for number in numbers:
            base = bases[number % len(bases)]
            case, sums = damage(base, folder, number, seed)
            before = time.monotonic()
            answer = worker.ask(folder, base.words)
            case.seconds = round(time.monotonic() - before, 2)
            _judge(case, base, folder, sums, answer)
            summary.add(case)
            shutil.rmtree(folder, ignore_errors=True)
    return summary


def damage(base: Base, folder: Path, number: int, seed: int) -> tuple[Case, dict[str, bytes]]:
    """Copy a base to ``folder`` with one file damaged; also returns what the files then hold."""
    rng = random.Random(f"{seed}:{base.name}:{number}")
    shutil.copytree(base.folder, folder)
    name = rng.choice(base.mutable)
    (folder / name).write_bytes(mutated((folder / name).read_bytes(), rng))
    if base.mend is not None and rng.random() < 0.9:
        base.mend(folder)
    contents = {str(path.relative_to(folder)): path.read_bytes() for path in _files(folder)}
    return Case(base.name, number, name), contents


def _files(folder: Path) -> list[Path]:
    return [path for path in folder.rglob("*") if path.is_file()]


def _judge(case: Case, base: Base, folder: Path, sums: dict[str, bytes], answer: dict | None) -> None:
    if answer is None:
        case.problems.append("hang" if case.seconds >= PATIENCE else "crash")
        return
    case.code, err = answer["code"], answer["err"]
    lines = [line for line in err.splitlines() if not line.startswith("rscc: warning: ")]
    case.error = (lines or [""])[-1][:300]
    checks = {
        "unexpected": "rscc: unexpected" in err or "unexpected " in answer["out"],
        "traceback": "Traceback" in err,
        "exit code": case.code not in CODES,
        "several lines": case.code == 2 and len(lines) != 1,
        "steers the terminal": not all(one.isprintable() for one in (err + answer["out"]).split("\n")),
        "input changed": "archive" not in sums and any(
            (folder / name).read_bytes() != content
            for name, content in sums.items()
            if not name.startswith("archive") and name != base.output
        ),
        "new files": bool(_new_files(folder, sums) - _outputs(base, case.code)),
        "half written": base.output is not None and _half_written(folder / base.output, case.code),
    }  # fmt: skip
    case.problems += [name for name, wrong in checks.items() if wrong]


def _outputs(base: Base, code: int | None) -> set[str]:
    """Return what a command may leave: its output and what belongs to it; nothing where it failed."""
    if not base.output or code != 0:
        return set()
    stem = Path(base.output).stem
    return {base.output, f"{stem}.qml", f"{stem}_footprints.geojson"}


def _new_files(folder: Path, sums: dict[str, bytes]) -> set[str]:
    """Return the names of files that were not there; in an archive, only of those that are never to stay."""
    new = {str(path.relative_to(folder)) for path in _files(folder)} - set(sums)
    return {name for name in new if not name.startswith("archive/") or name.endswith(".tmp")}


def _half_written(output: Path, code: int | None) -> bool:
    """Return whether an output is there though the command failed, or is not whole though it did not."""
    if code != 0:
        return output.exists()
    if output.suffix == ".geojson":
        try:
            json.loads(output.read_bytes())
        except (OSError, ValueError):
            return True
    return not output.exists()


class _Worker(contextlib.AbstractContextManager):
    """A process that runs commands; a new one after a crash or a hang."""

    def __init__(self) -> None:
        self._context = multiprocessing.get_context("spawn")
        self._start()

    def _start(self) -> None:
        self._pipe, other = self._context.Pipe()
        self._process = self._context.Process(target=_serve, args=(other,), daemon=True)
        self._process.start()
        other.close()
        assert self._pipe.recv() == "ready"

    def ask(self, folder: Path, words: tuple[str, ...]) -> dict | None:
        """Return what a command came to; None where it crashed its process, or had to be ended."""
        self._pipe.send((str(folder), words))
        try:
            if self._pipe.poll(PATIENCE):
                answer: dict = self._pipe.recv()
                return answer
        except EOFError:
            pass
        self._process.kill()
        self._process.join()
        self._start()
        return None

    def __exit__(self, *_: object) -> None:
        self._process.kill()
        self._process.join()


def _serve(pipe: Connection) -> None:
    # What a library writes to the terminal past Python is not what is looked for.
    os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
    warnings.simplefilter("ignore")
    pipe.send("ready")
    while True:
        folder, words = pipe.recv()
        os.chdir(folder)
        out, err, code = io.StringIO(), io.StringIO(), 0
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            try:
                run(words)
            except SystemExit as ended:
                code = ended.code if isinstance(ended.code, int) else 0
            except BaseException as error:
                err.write(f"Traceback: {error!r}")
                code = -1
        pipe.send({"code": code, "out": out.getvalue(), "err": err.getvalue()})
