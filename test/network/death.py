#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
# Runs death.c under Hydra, which here does not end the job when a rank dies. usage: death.py PROGRAM WAY
import subprocess
import sys


def main():
    program, way = sys.argv[1:]
    command = ["mpiexec.hydra", "-disable-auto-cleanup", "-n", "4", program, way]
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=50, check=False)
    print(done.stdout)
    wanted = [f"{way}: lost", "later send: lost", "later receive: lost", "others go on", "received"]
    if way == "fresh":
        wanted[0] = "fresh: lost"
    missing = [text for text in wanted if text not in done.stdout]
    if missing or "FAILED" in done.stdout:
        sys.exit("missing: %s" % missing)


if __name__ == "__main__":
    main()
