"""``python -m rscc``, for those whose PATH does not hold the ``rscc`` command: hands over to it."""

import runpy

if __name__ == "__main__":
    runpy.run_module("workflows.cli.app", run_name="__main__", alter_sys=True)
