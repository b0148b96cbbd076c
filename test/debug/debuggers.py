# SPDX-License-Identifier: BSD-3-Clause
# Scripted sessions of gdb: process acquisition by MPIR of a running and of a starting job, of a part of its ranks, the
# failure of a job; handles and queues of a rank; --gdb, --xterm. Exit status 77: no gdb, or it may not attach.
import os
import re
import shutil
import subprocess
import sys
import tempfile

PREFIX = os.environ["MPI_PREFIX"]
HERE = os.path.dirname(os.path.abspath(__file__))
SCRIPT = os.path.join(PREFIX, "share", "weft", "gdb", "weft.py")
MPIEXEC = os.path.join(PREFIX, "bin", "mpiexec")


def gdb(*commands, words=()):
    """Returns what a session of gdb prints."""
    command = ["gdb", "-q", "-nx", "-batch", "-iex", "set debuginfod enabled off", "-iex", "set confirm off"]
    command += ["-ex", "set pagination off"]
    for one in commands:
        command += ["-ex", one]
    done = subprocess.run(
        [*command, *words], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
        timeout=100, check=False,
    )  # fmt: skip
    return done.stdout


def expect(text, *patterns):
    for pattern in patterns:
        if re.search(pattern, text, re.MULTILINE) is None:
            sys.exit(f"no match of {pattern!r} in:\n{text}")


def started(program, ranks):
    """Starts the job that waits for ever; returns (mpiexec, pid of rank 0)."""
    job = subprocess.Popen([MPIEXEC, "-n", str(ranks), program], stdout=subprocess.PIPE, text=True)
    return job, int(job.stdout.readline().split()[1])


def attaches_to_all_ranks(program):
    job, first = started(program, 4)
    try:
        text = gdb(
            "source " + SCRIPT, "weft-ranks attach", "info inferiors", "thread apply all backtrace",
            words=("-p", str(job.pid)),
        )  # fmt: skip
        if "ptrace: Operation not permitted" in text:
            print("skipped: gdb may not attach here")
            sys.exit(77)
        expect(text, r"^rank 0: pid %d on \S+, \S*stuck$" % first, r"^rank 3: pid \d+", "^attached to 4 ranks")
        pids = set(re.findall(r"^rank \d+: pid (\d+)", text, re.MULTILINE))
        inferiors = set(re.findall(r"^\*? +\d+ +process (\d+)", text, re.MULTILINE))
        assert len(pids) == 4 and inferiors == pids | {str(job.pid)}
        assert len(re.findall(r"main \(argc=1", text)) == 4, text
        assert job.poll() is None  # detached, the job goes on
    finally:
        job.kill()
        job.communicate()


def attaches_to_spawned_jobs(program):
    """MPIR_proctable has the ranks of all jobs of an mpiexec."""
    job = subprocess.Popen([MPIEXEC, "-n", "2", program, "spawn", "100000"], stdout=subprocess.PIPE, text=True)
    try:
        while job.stdout.readline().strip() != "all":
            pass
        text = gdb(
            "source " + SCRIPT, "weft-ranks attach", "inferior 1", "print MPIR_debug_state", words=("-p", str(job.pid))
        )
        pids = re.findall(r"^rank \d(?: of spawned job 1)?: pid (\d+) on \S+, \S*top$", text, re.MULTILINE)
        assert len(set(pids)) == 4, text
        expect(text, "^rank 1: pid", "^rank 1 of spawned job 1: pid", "^attached to 4 ranks", r"^\$1 = 1$")
        assert job.poll() is None
    finally:
        job.kill()
        job.communicate()


def attaches_to_a_part(program):
    """A tool may attach to one rank only; the others need no release."""
    job, first = started(program, 2)
    try:
        text = gdb("print MPIR_partial_attach_ok", "print MPIR_i_am_starter", words=("-p", str(job.pid)))
        expect(text, r"\$1 = 1", r"\$2 = 1")
        text = gdb(
            "source " + SCRIPT, "frame function main", "print halo", "print posted", "print sent", "print none",
            "print type", "weft-queues", "print (MPI_Comm)0x101", words=("-p", str(first)),
        )  # fmt: skip
        expect(
            text,
            r'^\$1 = "halo": 2 ranks, this is rank 1$',
            r"^\$2 = receive from rank 0, tag 77, 4 bytes at 0x[0-9a-f]+: posted$",
            r"^\$3 = send to rank 0, tag 55, 1048576 bytes at 0x[0-9a-f]+: waits for its receiver$",
            r"^\$4 = MPI_REQUEST_NULL$",
            r"^\$5 = MPI_INT$",
            r'^\$6 = MPI_COMM_WORLD \("MPI_COMM_WORLD": 2 ranks, this is rank 0\)$',
            r'^posted receive from rank 0, tag 77 in "halo": 4 bytes$',
            r'^posted receive from any rank, tag 66 in "MPI_COMM_WORLD": 4 bytes$',
            r'^unexpected message from rank 0, tag 88 in "halo": 4 bytes$',
            r"^send to rank 0, tag 55, 1048576 bytes",
        )
    finally:
        job.kill()
        job.communicate()


def stops_a_starting_job(program):
    """At MPIR_Breakpoint all processes exist and none has left MPI_Init; then the job runs to its end."""
    text = gdb(
        "source " + SCRIPT, "set breakpoint pending on", "break MPIR_Breakpoint", "set MPIR_being_debugged = 1", "run",
        "print MPIR_debug_state", "weft-ranks", "delete", "continue",
        words=("--args", MPIEXEC, "-n", "3", program, "short"),
    )  # fmt: skip
    expect(text, r"Breakpoint 1, .*MPIR_Breakpoint", r"^\$1 = 1$", r"^rank 2: pid \d+", r"exited normally\]")


def reports_an_abort(program):
    text = gdb(
        "break MPIR_Breakpoint if MPIR_debug_state == 2", "run", "print MPIR_debug_state",
        "print MPIR_debug_abort_string", "continue", words=("--args", MPIEXEC, "-n", "2", "false"),
    )  # fmt: skip
    expect(text, r"^\$1 = 2$", r"^\$2 = 0x[0-9a-f]+ .*rank \d", r"exited with code 01\]")


def runs_under_gdb(program):
    """--gdb: the status is that of the program, and a crash shows its variables. --xterm: in windows of their own."""
    command = [MPIEXEC, "-n", "2", "--gdb", program]
    good = subprocess.run([*command, "short"], capture_output=True, text=True, timeout=100, check=False)
    assert good.returncode == 0 and "exited normally" in good.stdout, good.stderr
    crash = subprocess.run([*command, "crash"], capture_output=True, text=True, timeout=100, check=False)
    expect(crash.stdout, "received signal SIGSEGV", r"#0 .* in main \(argc=2, .*stuck.c")
    assert crash.returncode != 0
    with tempfile.TemporaryDirectory() as folder:
        window = os.path.join(folder, "xterm")
        with open(window, "w", encoding="utf-8") as file:
            file.write('#!/bin/sh\necho "window $1 $2"\nshift 3\nexec "$@"\n')
        os.chmod(window, 0o755)
        environment = dict(os.environ, DISPLAY=":0", PATH=folder + ":" + os.environ["PATH"])
        command = [MPIEXEC, "-n", "2", "--xterm", "1", program, "short"]
        shown = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=100, check=False)
        assert (shown.returncode, shown.stdout) == (0, "window -T rank 1\n"), shown
        del environment["DISPLAY"]
        refused = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=100, check=False)
        assert refused.returncode == 2 and "needs an X display" in refused.stderr, refused


def refuses(program):
    expect(gdb("source " + SCRIPT, "weft-queues", words=(program,)), "has not called MPI_Init")
    expect(gdb("source " + SCRIPT, "weft-ranks", words=(program,)), "no mpiexec with MPIR tables")


def main():
    if shutil.which("gdb") is None:
        print("skipped: needs gdb")
        return 77
    with tempfile.TemporaryDirectory() as folder:
        program = os.path.join(folder, "stuck")
        subprocess.run([PREFIX + "/bin/mpicc", "-g", "-O0", os.path.join(HERE, "stuck.c"), "-o", program], check=True)
        tests = (attaches_to_all_ranks, attaches_to_a_part, stops_a_starting_job, reports_an_abort, runs_under_gdb)
        for test in (*tests, refuses):
            test(program)
            print(f"{test.__name__}: passed")
        top = os.path.join(folder, "top")
        source = os.path.join(HERE, "..", "cli", "top.c")
        subprocess.run([PREFIX + "/bin/mpicc", "-g", "-O0", source, "-o", top], check=True)
        attaches_to_spawned_jobs(top)
    return 0


if __name__ == "__main__":
    sys.exit(main())
