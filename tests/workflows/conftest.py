"""The command with a fake model."""

from __future__ import annotations

import pytest
from fakes import BrightnessCaptioner

from workflows.cli.app import main


@pytest.fixture
def rscc_command(capfd):
    """Run the command in this process with a fake model; returns (exit code, stdout, stderr)."""

    def run(*arguments, captioner=None):
        run.chosen = []

        def factory(model, device):
            run.chosen.append((model, device))
            return captioner or BrightnessCaptioner()

        with pytest.raises(SystemExit) as ended:
            main(
                [str(argument) for argument in arguments],
                captioner_factory=factory,
                card_factory=lambda model: BrightnessCaptioner().card,
            )
        return ended.value.code or 0, *capfd.readouterr()

    return run


@pytest.fixture
def core_schemas(monkeypatch):
    """Let pystac validate what STAC itself says: schemas of extensions lie on a server."""
    from pystac.validation import RegisteredValidator

    monkeypatch.setattr(RegisteredValidator.get_validator(), "validate_extension", lambda *_, **__: None)
