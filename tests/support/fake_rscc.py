"""The command ``rscc`` with the model of :mod:`archive_fakes`, to be run, killed and looked at by a test.

Usage: python tests/support/fake_rscc.py ARGUMENTS...
"""

from __future__ import annotations

import sys

from archive_fakes import fake_card, load_fake

from workflows.cli.app import main

if __name__ == "__main__":
    main(sys.argv[1:], captioner_factory=load_fake, card_factory=fake_card)
