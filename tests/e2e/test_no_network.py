"""Commands use no network by default: by Python's audit events, by strace, and without a network."""

import json
import os
import shutil
import subprocess
import sys
from dataclasses import dataclass

import pytest
from scene_pairs import make_pair

pytestmark = pytest.mark.slow
COMMANDS = [
    ["inspect", "a_2019.tif", "b_2020.tif"],
    ["caption", "a_2019.tif", "b_2020.tif", "--model", "rscc-small", "-o", "report.geojson", "-q"],
    ["pairs", ".", "-o", "pairs.csv", "-q"],
    ["batch", "pairs.csv", "--out", "archive", "--workers", "1", "-q"],
    ["inspect", "https://192.0.2.1/a.tif", "b_2020.tif", "--offline"],
]
CODES = [0, 0, 0, 0, 2]
TRACER = ["strace", "-f", "--seccomp-bpf", "-qq", "-e", "trace=socket,connect,sendto,sendmsg"]
TRACER += ["-o", "calls.txt"]
NAMESPACE = ["unshare", "--map-root-user", "--net"]


def works(*words: str) -> bool:
    """Whether a program is installed and may run here."""
    return shutil.which(words[0]) is not None and subprocess.run(words, capture_output=True).returncode == 0


@dataclass(frozen=True)
class Heard:
    """What became of the commands, run once one after another.

    Attributes:
        codes: their exit codes.
        asked: what Python asked of the network.
        calls: what strace saw of all processes; None where it is not installed, or may not look.
    """

    codes: list[int]
    asked: list[str]
    calls: str | None


@pytest.fixture(scope="module")
def heard(tmp_path_factory, child_environment, repository) -> Heard:
    place = tmp_path_factory.mktemp("quiet")
    make_pair(place, [(20, 30, 25, 30, 220)], names=("a_2019.tif", "b_2020.tif"))
    # Without a network, where that can be had, the commands must work all the same.
    namespace = NAMESPACE if works(*NAMESPACE, "true") else []
    traced = works(*namespace, "strace", "-qq", "-o", os.devnull, "true")
    stand_in = str(repository / "tests/support/rscc_stand_in.py")
    script = [sys.executable, stand_in, "quiet", json.dumps(COMMANDS)]
    words = [*namespace, *(TRACER if traced else []), *script]
    environment = {**child_environment, "OMP_NUM_THREADS": "1"}
    done = subprocess.run(words, cwd=place, env=environment, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    calls = (place / "calls.txt").read_text() if traced else None
    return Heard(**json.loads(done.stdout), calls=calls)


def test_no_command_asks_the_network_by_default(heard):
    assert heard.codes == CODES and heard.asked == []


def test_no_system_call_of_a_command_is_of_the_network(heard):
    """Also none of GDAL's, and none of a worker process."""
    if heard.calls is None:
        pytest.skip("strace is not installed, or may not look here")
    # Making a UUID reads the address of the network card through such a socket, and sends nothing.
    local = ("AF_UNIX", "socket(AF_INET, SOCK_DGRAM, IPPROTO_IP)")
    calls = [line for line in heard.calls.splitlines() if "AF_" in line]
    assert [line for line in calls if not any(kind in line for kind in local)] == []
