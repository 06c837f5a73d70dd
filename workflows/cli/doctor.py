"""The command ``rscc doctor``."""

from __future__ import annotations

import typer

from rscc.shipped import DEFAULT_MODEL
from workflows.cli.options import Debug, DeviceOption, JsonOption, ModelOption


def doctor(
    context: typer.Context,
    model: ModelOption = DEFAULT_MODEL,
    device: DeviceOption = "auto",
    as_json: JsonOption = False,
    debug: Debug = False,
) -> None:
    """Say whether this installation is whole: versions, device, formats, weights, Java, QGIS, one tile.

    Exit codes: 0 rscc caption will run; 1 something that it needs is wrong.
    """
    from workflows.cli.terminal import say, say_json
    from workflows.inspection.doctor import WRONG, examine

    findings = []
    for finding in examine(model, device, context.obj.load_captioner):
        findings.append(finding)
        if not as_json:
            say(f"{finding.state:<6}{finding.subject:<10}{finding.detail}")
    code = 1 if any(finding.state == WRONG for finding in findings) else 0
    if as_json:
        say_json({"findings": [finding.as_dict() for finding in findings], "exit_code": code})
    raise typer.Exit(code)
