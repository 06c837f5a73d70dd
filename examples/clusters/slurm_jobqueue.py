"""Work through an archive with Dask workers that are Slurm jobs, as many as there is work for.

Runs on a login node or in a small job of its own; every worker is a job of one process. Needs
``pip install rscc[distributed] dask-jobqueue`` in an environment that all nodes see.

Usage: python slurm_jobqueue.py PAIRS ARCHIVE --most 16 [--gpu] [--show] [-- OPTIONS OF rscc batch...]
"""

from __future__ import annotations

import argparse
import subprocess
import sys


def parse(words: list[str] | None) -> argparse.Namespace:
    """Read the command line; what stands behind ``--`` is for rscc."""
    words = list(sys.argv[1:] if words is None else words)
    own, rest = (words[: words.index("--")], words[words.index("--") + 1 :]) if "--" in words else (words, [])
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("pairs")
    parser.add_argument("archive")
    parser.add_argument("--most", type=int, default=8, help="jobs at a time")
    parser.add_argument("--partition", help="queue of the jobs")
    parser.add_argument("--cores", type=int, default=4, help="of each job; one pair at a time uses them all")
    parser.add_argument("--memory", default="8GB", help="of each job")
    parser.add_argument("--walltime", default="04:00:00", help="of each job; others take up what it leaves")
    parser.add_argument("--gpu", action="store_true", help="one GPU for each job")
    parser.add_argument("--show", action="store_true", help="print the job script and end")
    parsed = parser.parse_args(own)
    parsed.rscc = rest
    return parsed


def cluster_of(options: argparse.Namespace):
    """Describe the jobs; none is submitted yet."""
    from dask_jobqueue import SLURMCluster

    return SLURMCluster(
        queue=options.partition,
        # One thread for tasks, so that a job does one pair at a time; the pair computes with all cores.
        cores=1,
        processes=1,
        job_cpu=options.cores,
        memory=options.memory,
        walltime=options.walltime,
        job_extra_directives=["--gpus=1"] if options.gpu else [],
        job_script_prologue=[
            f"export OMP_NUM_THREADS={options.cores}",
            # dask-jobqueue gives workers as much memory as the job has; Dask must not pause them near it.
            "export DASK_DISTRIBUTED__WORKER__MEMORY__PAUSE=False",
            "export DASK_DISTRIBUTED__WORKER__MEMORY__TERMINATE=False",
        ],
        worker_extra_args=["--resources", "GPU=1"] if options.gpu else [],
        scheduler_options={"dashboard_address": ":0"},
    )


def main(words: list[str] | None = None) -> int:
    """Start the scheduler here, let jobs come and go, and run ``rscc batch``; returns its exit code."""
    options = parse(words)
    with cluster_of(options) as cluster:
        if options.show:
            print(cluster.job_script())
            return 0
        cluster.adapt(minimum_jobs=1, maximum_jobs=options.most, target_duration="60s")
        command = ["rscc", "batch", options.pairs, "--out", options.archive]
        command += ["--scheduler", cluster.scheduler_address, *(["--gpu-workers"] if options.gpu else [])]
        return subprocess.run([*command, *options.rscc], check=False).returncode


if __name__ == "__main__":
    raise SystemExit(main())
