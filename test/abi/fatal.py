# SPDX-License-Identifier: BSD-3-Clause
"""Errors are fatal by default: checks message, exit status, and that earlier output is not lost. Handles of another MPI are
reported once even if errors return."""

import os
import subprocess
import sys

CASES = {
    "": (0, ""),
    "rank": (6, "weft[0]: MPI_Send failed: dest = 7 (communicator has 1 rank): use 0, or MPI_PROC_NULL (MPI_ERR_RANK)"),
    "comm": (5, "weft[0]: MPI_Barrier failed: comm is MPI_COMM_NULL"),
    "end": (3, "MPI_Abort"),
    "abort": (2, "weft[0]: MPI_Recv failed: count = -1"),
    "before": (16, "weft: MPI_Comm_rank was called before MPI_Init"),
    "after": (16, "weft: MPI_Barrier was called after MPI_Finalize"),
    "foreign": (
        0,
        "MPI_Comm_size: comm = 0x44000000 is a communicator of MPICH's ABI, but this is a call of the standard ABI",
    ),
    "info": (34, "weft: MPI_Info_set failed: info is MPI_INFO_NULL"),
}


def main():
    program = sys.argv[1]
    mpiexec = os.path.join(os.environ["MPI_PREFIX"], "bin", "mpiexec")
    problems = []
    for starter in ([mpiexec, "-n", "1"], []):
        for mistake, (code, message) in CASES.items():
            result = subprocess.run(
                [*starter, program, mistake],
                capture_output=True,
                text=True,
                timeout=30,
                check=False,
                stdin=subprocess.DEVNULL,
            )
            label = f"{'mpiexec ' if starter else ''}{mistake or 'nothing'}"
            if result.returncode != code:
                problems.append(f"{label}: exit status {result.returncode}, not {code}: {result.stderr}")
            if message not in result.stderr:
                problems.append(f'{label}: stderr has no "{message}": {result.stderr}')
            if mistake == "foreign" and len(result.stderr.splitlines()) != 1:
                problems.append(f"{label}: not one message: {result.stderr}")
            if mistake in ("rank", "comm", "abort", "end", "after") and "output of the program" not in result.stdout:
                problems.append(f"{label}: the program's output is lost")
    print("\n".join(problems) or "good")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
