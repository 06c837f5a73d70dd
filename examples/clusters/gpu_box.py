"""Work through an archive with one Dask worker for each GPU of this machine, by dask-cuda.

``rscc batch`` alone does the same without Dask: one process for each GPU is its default. This is for those
who have a dask-cuda cluster anyway, or want its pinning of GPUs to the nearest cores.

Usage: python gpu_box.py PAIRS ARCHIVE [OPTIONS OF rscc batch...]
"""

from __future__ import annotations

import subprocess
import sys


def main(words: list[str]) -> int:
    """Start the workers, and run ``rscc batch`` on them; returns its exit code."""
    from dask_cuda import LocalCUDACluster

    pairs, archive, *rest = words
    # Each worker sees its own GPU first, so that --device auto takes it.
    with LocalCUDACluster(threads_per_worker=1, resources={"GPU": 1}, memory_limit=0) as cluster:
        command = ["rscc", "batch", pairs, "--out", archive]
        command += ["--scheduler", cluster.scheduler_address, "--gpu-workers", *rest]
        return subprocess.run(command, check=False).returncode


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
