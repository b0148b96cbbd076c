#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
# Ranks are killed in collective calls and after MPI_File_sync; see killed.c. usage: killed.py PROGRAM MODE
import os
import subprocess
import sys
import tempfile

BLOCK, BLOCKS, HEAD, RANKS = 4096, 512, 3 * 4096 + 100, 3


def synced_bytes():
    """The file after MPI_File_sync. The last block of each tile is nobody's."""
    tile = b"".join(bytes([ord("a") + rank]) * BLOCK for rank in range(RANKS)) + bytes(BLOCK)
    return (bytes(HEAD) + tile * BLOCKS)[:-BLOCK]


def main():
    program, mode = sys.argv[1:]
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "data")
        mpiexec = os.path.join(os.environ["MPI_PREFIX"], "bin", "mpiexec")
        command = [mpiexec, "--continue-on-failure", "-n", str(RANKS), program, mode, path]
        done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False,
                              timeout=50)  # fmt: skip
        left = os.listdir(folder)
        word, count = ("synced", RANKS) if mode == "synced" else ("survived", RANKS - 1)
        if done.stdout.count(word + "\n") != count or left != ["data"]:
            sys.exit(f"{done.stdout}files: {left}")
        if mode == "synced":
            with open(path, "rb") as file:
                if file.read() != synced_bytes():
                    sys.exit("bytes written before MPI_File_sync are lost")


main()
