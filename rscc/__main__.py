"""``python -m rscc``: the command for those whose PATH does not hold ``rscc``."""

from rscc.cli import main

if __name__ == "__main__":
    main()
