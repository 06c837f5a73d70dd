"""Whether what a report was made of is still the same: scenes, model and settings, by their hashes.

Nothing is asked of a server, and nothing of a scene is decoded: files are read and hashed. The report may
come from anybody; what it names is only ever hashed.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from rscc.errors import ModelFolderInvalid, ModelNotFound
from rscc.model_folder import ModelFolder, find_model, hashes_of, open_model_folder
from tiling import TilingError, is_address
from workflows.errors import ReportInvalid
from workflows.inspection.doctor import Finding
from workflows.report.reading import LAYER_FORMATS, layer_record, report_content
from workflows.report.record import decisive, hash_of, of_scenes, versions
from workflows.store.folder import REPORT, ArchiveFolder
from workflows.store.identity import SceneIdentities
from workflows.texts import shown

SAME, CHANGED, MISSING, UNCHECKED = "same", "changed", "missing", "unchecked"
"""What became of one thing that a report rests on: ``before``, ``after``, ``weights``, ``facts``, ``card``,
``settings`` or ``versions``; ``report`` where a report of an archive is damaged itself."""
VERSIONS = "versions"
"""The one finding that the exit code leaves out: another version may well draw the same outlines."""
_ROLES = ("before", "after")
_EARLIER = "the report was written by an earlier version, which kept no hash of it"


@dataclass(frozen=True)
class Verification:
    """What became of everything that one file rests on."""

    path: Path
    findings: tuple[Finding, ...]

    @property
    def state(self) -> str:
        """``changed`` (or missing), else ``unchecked``, where any finding is so; else ``same``."""
        states = {finding.state for finding in self.findings if finding.subject != VERSIONS}
        return CHANGED if states & {CHANGED, MISSING} else UNCHECKED if UNCHECKED in states else SAME

    def as_dict(self) -> dict[str, Any]:
        """Return plain values."""
        return {
            "path": str(self.path),
            "state": self.state,
            "findings": [one.as_dict() for one in self.findings],
        }


@dataclass
class Verifier:
    """Looks things up for one report or for many of one archive; what was hashed once is not read again.

    Attributes:
        before, after: where the scenes are now; None takes what the report says, also beside the report.
        model: name or folder of the model; None takes the name in the report.
    """

    before: str | None = None
    after: str | None = None
    model: str | None = None
    scenes: SceneIdentities = field(default_factory=lambda: SceneIdentities({}, full=True))
    _folders: dict[str, tuple[ModelFolder, tuple[str, str]]] = field(default_factory=dict)

    def verify(self, path: Path) -> Iterator[Verification]:
        """Yield what became of a report, of a layer of an archive, or of all reports of an archive.

        Raises:
            ReportInvalid: the file is none of these, or is damaged.
        """
        folder = ArchiveFolder(path)
        if not folder.pairs.is_dir():
            yield self._file(path)
            return
        reports = sorted(folder.pairs.glob(f"*/{REPORT}"))
        layers = [layer for layer in (folder.parquet, folder.geopackage) if layer.is_file()]
        if not reports:
            raise ReportInvalid(f"{shown(path)}: there is no report in this archive; run rscc batch first")
        for one in (*reports, *layers):
            try:
                yield self._file(one, alone=False)
            except ReportInvalid as error:
                yield Verification(one, (Finding("report", CHANGED, str(error)),))

    def _file(self, path: Path, *, alone: bool = True) -> Verification:
        """Verify one file, ``alone`` or with all reports that it is of."""
        record = read_record(path)
        inputs: Mapping[str, Any] = record.get("inputs", {})
        findings = [self._scene(path, role, inputs[role]) for role in _ROLES if role in inputs]
        if "model" in record:
            findings += self._model(record["model"])
        if "settings" in record:
            findings.append(_settings(record))
        if VERSIONS in record or inputs:
            findings.append(_versions(record))
        others = {"weights": "model", "card": "model", "settings": "settings", VERSIONS: VERSIONS}
        missing = (
            [] if inputs or not alone else [subject for subject, part in others.items() if part not in record]
        )
        findings += [Finding(subject, UNCHECKED, _SEVERAL) for subject in missing]
        return Verification(path, tuple(findings))

    def _scene(self, report: Path, role: str, recorded: Mapping[str, Any]) -> Finding:
        given = self.before if role == "before" else self.after
        name = recorded["path"] if given is None else given
        if is_address(name):
            return Finding(role, UNCHECKED, f"{shown(name)}: it is on a server")
        if recorded.get("identity") is None:
            return Finding(role, UNCHECKED, f"{shown(name)}: {_EARLIER}, or is of a part of it (--bbox)")
        places = (name,) if given is not None else (name, str(report.parent / name))
        there = [digest for digest in map(self._identity, places) if digest is not None]
        if not there:
            return Finding(role, MISSING, f"{shown(name)}: it cannot be read; give --{role}, where it is now")
        if recorded["identity"] in there:
            return Finding(role, SAME, shown(name))
        return Finding(role, CHANGED, f"{shown(name)}: its bytes, its name or files beside it are others")

    def _identity(self, place: str) -> str | None:
        try:
            return self.scenes.on_disk(place)
        except (OSError, ValueError, TilingError):  # no name that a file can have
            return None

    def _model(self, recorded: Mapping[str, Any]) -> Iterator[Finding]:
        subjects = ("weights", *(("facts",) if recorded.get("facts_sha256") else ()), "card")
        name = self.model or str(recorded.get("name"))
        try:
            folder, (weights, facts) = self._folder(name)
        except (ModelNotFound, OSError, ValueError):
            text = f"{shown(name)}: no such model here; give --model, a name or a folder"
            yield from (Finding(subject, MISSING, text) for subject in subjects)
            return
        except ModelFolderInvalid as error:
            yield from (Finding(subject, CHANGED, shown(str(error))) for subject in subjects)
            return
        card = hash_of(decisive(folder.card))
        present = {"weights": weights, "facts": facts, "card": card}
        called = shown(f"{name} {folder.card.version}")
        for subject in subjects:
            was, now = recorded.get(f"{subject}_sha256"), present[subject]
            if was is None:
                yield Finding(subject, UNCHECKED, f"{shown(name)}: {_EARLIER}")
            elif was == now:
                yield Finding(subject, SAME, f"{called}, SHA-256 {now}")
            else:
                text = f"{called}: SHA-256 {now or 'of none'}, was {shown(str(was))}"
                yield Finding(subject, CHANGED, text)

    def _folder(self, name: str) -> tuple[ModelFolder, tuple[str, str]]:
        if name not in self._folders:
            path = find_model(name)
            self._folders[name] = open_model_folder(path, check_hashes=True), hashes_of(path)
        return self._folders[name]


def read_record(path: Path) -> dict[str, Any]:
    """Return the run record of a report (``.geojson``), or that of a layer or a sample of an archive.

    Layers (``.gpkg``, ``.parquet``) and samples are of many pairs: theirs has no inputs.

    Raises:
        ReportInvalid: it has none, or one that no run wrote.
    """
    kind = path.suffix.lower()
    is_layer = kind in LAYER_FORMATS and path.is_file()
    record: Any = layer_record(path) if is_layer else report_content(path).get("rscc")
    parts: list[Any] = [record, *(record.get(n, {}) for n in _PARTS)] if isinstance(record, dict) else [None]
    if all(isinstance(part, dict) for part in parts):
        scenes = of_scenes(record, "path").values()
        is_named = all(name and name.isprintable() for name in scenes)
        is_of_many = (is_layer or "sample" in record) and not record.get("inputs")
        if (is_named and {"model", "settings"} <= record.keys()) or is_of_many:
            return dict(record)
    raise ReportInvalid(
        f"{shown(path)}: it has no run record of rscc; give a report or a layer of an archive"
    )


_SEVERAL = "of several kinds in the pairs that this is of; give the archive, whose reports are all looked at"
_PARTS = ("model", "settings", "inputs", "versions")


def _versions(record: Mapping[str, Any]) -> Finding:
    now, then = versions(), record.get("versions", {})
    other = [f"{name} was {then.get(name)}, is {now[name]}" for name in now if now[name] != then.get(name)]
    told = shown("; ".join(other) or ", ".join(f"{name} {number}" for name, number in now.items()))
    return Finding(VERSIONS, CHANGED if other else SAME, told)


def _settings(record: Mapping[str, Any]) -> Finding:
    was, now = record.get("settings_sha256"), hash_of(record["settings"])
    if was is None:
        return Finding("settings", UNCHECKED, _EARLIER)
    if was != now:
        return Finding("settings", CHANGED, "somebody edited them in the report: their hash is another")
    refine = record["settings"].get("refine")
    if refine is not None:
        return Finding(
            "settings", UNCHECKED, f"the weights of the segmenter {shown(str(refine))} are not hashed"
        )
    return Finding("settings", SAME, f"SHA-256 {now}")
