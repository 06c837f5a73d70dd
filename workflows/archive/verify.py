"""Check by hashes whether the scenes, the model and the settings of a report are still the same.

No server is contacted and no scene is decoded: files are only read and hashed, because a report may come from
anybody.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from rscc.errors import ConfigInvalid, DetectorInvalid, ModelFolderInvalid, ModelNotFound
from rscc.model_card import DetectorCard, ModelCard, with_detector
from rscc.model_folder import ModelFolder, find_model, hashes_of, open_model_folder, sha256_of
from rscc.settings import build
from tiling import TilingError, is_address
from workflows.archive.folder import REPORT, ArchiveFolder
from workflows.doctor import Finding
from workflows.errors import ReportInvalid
from workflows.identity import SceneIdentities
from workflows.printable import printable
from workflows.report.formats.layers import LAYER_FORMATS
from workflows.report.reading import layer_record, report_content
from workflows.report.record import decisive, hash_of, of_scenes, versions

SAME, CHANGED, MISSING, UNCHECKED = "same", "changed", "missing", "unchecked"
"""States of ``before``, ``after``, ``weights``, ``facts``, ``card``, ``detector``, ``settings`` and
``versions``, and of ``report`` where a report of an archive is damaged."""
VERSIONS = "versions"
"""The finding that the exit code ignores: another version may draw the same outlines."""
_ROLES = ("before", "after")
_MEMBERS = ("model", "settings", "inputs", "versions")
# The member of the record that each finding needs.
_NEEDED = {"weights": "model", "card": "model", "settings": "settings", VERSIONS: VERSIONS}
_SEVERAL = "not the same in all pairs; give the archive, whose reports are checked one by one"


@dataclass(frozen=True)
class Verification:
    """The findings on one file."""

    path: Path
    findings: tuple[Finding, ...]

    @property
    def state(self) -> str:
        """``changed`` where any finding is changed or missing, else ``unchecked`` or ``same``."""
        states = {finding.state for finding in self.findings if finding.subject != VERSIONS}
        return CHANGED if states & {CHANGED, MISSING} else UNCHECKED if UNCHECKED in states else SAME

    def as_dict(self) -> dict[str, Any]:
        """Return plain values."""
        return {"path": str(self.path), "state": self.state, "findings": list(map(vars, self.findings))}


@dataclass
class Verifier:
    """Checks one report, or all of an archive; no file is hashed twice.

    Attributes:
        before, after: where the scenes are now; None: where the report says, or beside it.
    """

    before: str | None = None
    after: str | None = None
    model: str | None = None
    scenes: SceneIdentities = field(default_factory=lambda: SceneIdentities({}, full=True))
    _folders: dict[str, tuple[ModelFolder, tuple[str, str]]] = field(default_factory=dict)

    def verify(self, path: Path) -> Iterator[Verification]:
        """Yield the findings on a report, on a layer of an archive, or on each report of an archive."""
        folder = ArchiveFolder(path)
        if not folder.pairs.is_dir():
            yield self._file(path)
            return
        reports = [
            report
            for report in sorted(folder.pairs.glob(f"*/{REPORT}"))
            if not (report.is_symlink() or report.parent.is_symlink())
        ]
        layers = [layer for layer in (folder.parquet, folder.geopackage) if layer.is_file()]
        if not reports:
            raise ReportInvalid(f"{printable(path)}: this archive has no report; run rscc batch first")
        for one in (*reports, *layers):
            try:
                yield self._file(one, in_archive=True)
            except ReportInvalid as error:
                yield Verification(one, (Finding("report", CHANGED, str(error)),))

    def _file(self, path: Path, *, in_archive: bool = False) -> Verification:
        record = read_record(path)
        inputs: Mapping[str, Any] = record.get("inputs", {})
        findings = [self._scene(path, role, inputs[role]) for role in _ROLES if role in inputs]
        if "model" in record:
            findings += self._model(record["model"])
        if "settings" in record:
            findings.append(_settings(record))
        if VERSIONS in record or inputs:
            findings.append(_versions(record))
        # A layer alone lacks what differs from pair to pair; in its archive the reports have it.
        if not inputs and not in_archive:
            missing = [subject for subject, member in _NEEDED.items() if member not in record]
            findings += [Finding(subject, UNCHECKED, _SEVERAL) for subject in missing]
        return Verification(path, tuple(findings))

    def _scene(self, report: Path, role: str, recorded: Mapping[str, Any]) -> Finding:
        given = self.before if role == "before" else self.after
        name = recorded["path"] if given is None else given
        if is_address(name):
            return Finding(role, UNCHECKED, f"{printable(name)}: it is on a server")
        if recorded.get("identity") is None:
            return Finding(role, UNCHECKED, f"{printable(name)}: the report is of a part of it (--bbox)")
        places = (name,) if given is not None else (name, str(report.parent / name))
        found = [digest for digest in map(self._identity, places) if digest is not None]
        if not found:
            return Finding(role, MISSING, f"{printable(name)}: it cannot be read; name it with --{role}")
        if recorded["identity"] in found:
            return Finding(role, SAME, printable(name))
        return Finding(role, CHANGED, f"{printable(name)}: its bytes, its name or files beside it differ")

    def _identity(self, place: str) -> str | None:
        try:
            return self.scenes.on_disk(place)
        except (OSError, ValueError, TilingError):  # no valid name of a file
            return None

    def _model(self, recorded: Mapping[str, Any]) -> Iterator[Finding]:
        subjects = ("weights", *(("facts",) if recorded.get("facts_sha256") else ()), "card")
        name = self.model or str(recorded.get("name"))
        try:
            folder, (weights, facts) = self._folder(name)
        except (ModelNotFound, OSError, ValueError):
            text = f"{printable(name)}: no such model here; give --model, a name or a folder"
            yield from (Finding(subject, MISSING, text) for subject in subjects)
            return
        except ModelFolderInvalid as error:
            yield from (Finding(subject, CHANGED, printable(str(error))) for subject in subjects)
            return
        present = {"weights": weights, "facts": facts, "card": hash_of(decisive(_card(folder, recorded)))}
        called = printable(f"{name} {folder.card.version}")
        for subject in subjects:
            yield _compared(subject, called, recorded.get(f"{subject}_sha256"), present[subject])

        if isinstance(recorded.get("detector"), Mapping):
            yield _detector_finding(folder, recorded["detector"])

    def _folder(self, name: str) -> tuple[ModelFolder, tuple[str, str]]:
        if name not in self._folders:
            path = find_model(name)
            self._folders[name] = open_model_folder(path, check_hashes=True), hashes_of(path)
        return self._folders[name]


def _card(folder: ModelFolder, recorded: Mapping[str, Any]) -> ModelCard:
    """Return the card of a model as it was with the detector of the record, if there is one."""
    if recorded.get("detector") is None:
        return folder.card
    try:
        return with_detector(folder.card, build(DetectorCard, dict(recorded["detector"]), "detector"))
    except (DetectorInvalid, ConfigInvalid, TypeError, ValueError):
        return folder.card


def _detector_finding(folder: ModelFolder, recorded: Mapping[str, Any]) -> Finding:
    """Compare the weights of a detector with those of the record, where the model folder holds them."""
    was = recorded.get("sha256")
    if folder.detector is None:
        text = f"{recorded.get('file')}: SHA-256 was {was}"
        return Finding("detector", UNCHECKED, printable(text))
    return _compared("detector", folder.detector.name, was, sha256_of(folder.detector))


def _compared(subject: str, name: str, was: Any, now: str | None) -> Finding:
    """Compare the hash of a record with the one of today; what has none in the record is unchecked."""
    if was is None:
        return Finding(subject, UNCHECKED, f"{name}: the report has no hash of it")
    if was == now:
        return Finding(subject, SAME, f"{name}, SHA-256 {now}")
    return Finding(subject, CHANGED, f"{name}: SHA-256 {now or 'of none'}, was {printable(str(was))}")


def read_record(path: Path) -> dict[str, Any]:
    """Return the run record of a report (``.geojson``), or of a layer or a sample of an archive.

    Layers (``.gpkg``, ``.parquet``) and samples are of many pairs, and their record has no inputs.

    Raises:
        ReportInvalid: it has none, or one that no run wrote.
    """
    is_layer = path.suffix.lower() in LAYER_FORMATS and path.is_file()
    record: Any = layer_record(path) if is_layer else report_content(path).get("rscc")
    members = [record, *(record.get(name, {}) for name in _MEMBERS)] if isinstance(record, dict) else [None]
    if all(isinstance(member, dict) for member in members):
        scenes = of_scenes(record, "path").values()
        is_named = all(name and name.isprintable() for name in scenes)
        is_of_many = (is_layer or "sample" in record) and not record.get("inputs")
        if (is_named and {"model", "settings"} <= record.keys()) or is_of_many:
            return dict(record)
    raise ReportInvalid(
        f"{printable(path)}: it has no run record of rscc; give a report or a layer of an archive"
    )


def _versions(record: Mapping[str, Any]) -> Finding:
    now, then = versions(), record.get("versions", {})
    changed = [f"{name} was {then.get(name)}, is {now[name]}" for name in now if now[name] != then.get(name)]
    text = "; ".join(changed) or ", ".join(f"{name} {number}" for name, number in now.items())
    return Finding(VERSIONS, CHANGED if changed else SAME, printable(text))


def _settings(record: Mapping[str, Any]) -> Finding:
    was, now = record.get("settings_sha256"), hash_of(record["settings"])
    if was is None:
        return Finding("settings", UNCHECKED, "the report has no hash of them")
    if was != now:
        return Finding("settings", CHANGED, "they were edited in the report: their hash differs")
    return Finding("settings", SAME, f"SHA-256 {now}")
