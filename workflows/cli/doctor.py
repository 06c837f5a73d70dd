"""The command ``rscc doctor``."""

import typer

from rscc.folders import DEFAULT_MODEL
from workflows.cli.options import DeviceOption, ModelOption, takes_options
from workflows.cli.terminal import Terminal


@takes_options()
def doctor(
    context: typer.Context,
    model: ModelOption = DEFAULT_MODEL,
    device: DeviceOption = "auto",
    *,
    terminal: Terminal,
) -> None:
    """Check the installation: versions, device, formats, weights, Java, QGIS, and one tile.

    Exit codes: 0 rscc caption will run; 1 something that it needs is broken.
    """
    from workflows.doctor import WRONG, examine

    findings = []
    for finding in examine(model, device, context.obj.load_captioner):
        findings.append(finding)
        if not terminal.as_json:
            terminal.notice(f"{finding.state:<6}{finding.subject:<10}{finding.detail}", err=False)
    code = 1 if any(finding.state == WRONG for finding in findings) else 0
    terminal.result("", {"findings": list(map(vars, findings)), "exit_code": code})
    raise typer.Exit(code)
