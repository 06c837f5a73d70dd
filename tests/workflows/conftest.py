"""The command with a fake model."""

import pytest
from captioners import BrightnessCaptioner
from scene_pairs import run_here


@pytest.fixture
def rscc_command(capfd):
    """Run the command in this process with a fake model; returns (exit code, stdout, stderr)."""

    def run(*arguments, captioner=None):
        run.chosen = []

        def factory(model, device):
            run.chosen.append((model, device))
            return captioner or BrightnessCaptioner()

        cards = {"card_factory": lambda model: BrightnessCaptioner().card}
        return run_here(capfd, *arguments, captioner_factory=factory, **cards)

    return run


@pytest.fixture
def core_schemas(monkeypatch):
    """Let pystac validate what STAC itself says: schemas of extensions lie on a server."""
    from pystac.validation import RegisteredValidator

    monkeypatch.setattr(RegisteredValidator.get_validator(), "validate_extension", lambda *_, **__: None)
