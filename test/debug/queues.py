# SPDX-License-Identifier: BSD-3-Clause
# libweft_msgq.so with a small debugger (msgq.cpp): queues of ranks that wait, of a blocking send, of a process before
# MPI_Init, and of memory that is damaged. usage: queues.py MSGQ
import os
import re
import subprocess
import sys
import tempfile
import time

PREFIX = os.environ["MPI_PREFIX"]
HERE = os.path.dirname(os.path.abspath(__file__))
LIBRARY = os.path.realpath(os.path.join(PREFIX, "lib", "libmpi_abi.so.1"))
EXPECTED = {
    "communicator MPI_COMM_WORLD rank 0 size 2: 0 1",
    "communicator halo rank 1 size 2: 1 0",
    "MPI_COMM_WORLD receive rank -1 global -1 tag 66 length 4 actual -1 0 0 (posted receive)",
    "halo receive rank 0 global 1 tag 77 length 4 actual -1 0 0 (posted receive)",
    "halo send rank 0 global 1 tag 55 length 1048576 actual -1 0 0 (request of a send)",
    "halo unexpected rank 0 global 1 tag 88 length 4 actual 0 88 4 (unexpected message)",
}
BLOCKED_SEND = re.compile(r"^MPI_COMM_WORLD send rank 1 global 1 tag 44 length 1048576 .*\(MPI_Send\)$", re.MULTILINE)


def queues(pid, *words):
    command = [sys.argv[1], str(pid), LIBRARY, *words]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, timeout=60, check=False)
    if done.returncode != 0:
        sys.exit("msgq ended with %d:\n%s" % (done.returncode, done.stdout))
    return done.stdout


def wait_for(pid, shows):
    """The queues as soon as they show what is expected."""
    deadline = time.time() + 20
    while True:
        said = queues(pid)
        if shows(said):
            return said
        assert time.time() < deadline, said
        time.sleep(0.05)


def main():
    with tempfile.TemporaryDirectory() as folder:
        program = os.path.join(folder, "stuck")
        subprocess.run([PREFIX + "/bin/mpicc", os.path.join(HERE, "stuck.c"), "-o", program], check=True)
        for mode in ("", "blocking"):
            command = [PREFIX + "/bin/mpiexec", "-n", "2", program, *mode.split()]
            job = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
            try:
                pid = int(job.stdout.readline().split()[1])
                # The rank names itself before its last call; a blocking send is published after 2 ms.
                if mode:
                    wait_for(pid, BLOCKED_SEND.search)
                    continue
                said = wait_for(pid, lambda said: EXPECTED <= set(said.splitlines()))
                assert said.startswith("Weft, interface 2, 8 bytes\n"), said
                queues(pid, "damaged")
            finally:
                job.kill()
                job.communicate()
        with subprocess.Popen([program, "early"], stdout=subprocess.PIPE, text=True) as early:
            pid = int(early.stdout.readline().split()[1])
            said = queues(pid)
            early.kill()
        assert "has not called MPI_Init" in said, said
    print("message queues are right")


if __name__ == "__main__":
    main()
