"""The start of the ``rscc`` command, and of ``python -m rscc`` for those whose PATH does not hold it."""

from rscc.interrupts import tidy_interrupts


def main() -> None:
    """Run the command and exit; Ctrl-C ends it tidily even before the command is known."""
    with tidy_interrupts():
        from rscc.cli import main as run

        run()


if __name__ == "__main__":
    main()
