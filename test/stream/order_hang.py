#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
# `weft top` and `weft hang` name the stream that waits, its call and the peer. usage: order_hang.py PROGRAM: that of
# order_limit.cpp
import json
import os
import subprocess
import sys
import time

PREFIX = os.environ["MPI_PREFIX"]


def weft(*words):
    """Returns the output of a command, whose exit status may tell of a hang."""
    done = subprocess.run([PREFIX + "/bin/weft", *words], capture_output=True, text=True, check=False, timeout=100)
    assert done.stdout, done.stderr
    return done.stdout


def main():
    command = [PREFIX + "/bin/mpiexec", "-n", "2", sys.argv[1], "hang"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as job:
        try:
            process, stream = job.stdout.readline().split()
            time.sleep(1)  # readers call it a wait then
            sample = json.loads(weft("top", process, "-i", "0.5", "-c", "1", "--json"))
            table = weft("top", process, "-i", "0.5", "-c", "1")
            report = weft("hang", process)
            states = json.loads(weft("hang", process, "--json"))
        finally:
            job.kill()
    ranks = {rank["rank"]: rank for rank in sample["ranks"]}
    (waiting,) = ranks[0]["streams"]
    assert ranks[1]["streams"] == [], ranks[1]
    assert (waiting["stream"], waiting["call"], waiting["peer"]) == (f"stream {stream}", "MPI_Recv", 1), waiting
    assert waiting["seconds"] > 0.5, waiting
    assert f"stream {stream}: MPI_Recv with rank 1" in table, table
    assert f'in stream {stream}: MPI_Recv on "in order" (2 ranks)' in report, report
    found = json.dumps(states)
    assert f'"stream": "stream {stream}"' in found, found


if __name__ == "__main__":
    main()
