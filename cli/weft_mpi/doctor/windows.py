# SPDX-License-Identifier: BSD-3-Clause
# Checks of one-sided communication: small puts and atomic operations between two processes of this host.
from weft_mpi import children, prefix
from weft_mpi.doctor.finding import broken, ok, slow

SECONDS = 60  # timeout of one program
OPERATIONS = {"put": "put_latency", "fetch_and_op": "fop_latency"}
REMEDY = (
    "the cause is in parentheses: let processes read each other's memory (ptrace_scope 0 or 1, in a container "
    "--cap-add SYS_PTRACE, one PID and one IPC namespace for all ranks); `weft explain put` prints the paths"
)


def check_host():
    """Windows in memory of MPI and in that of the program."""
    return evaluate("windows", "host", ("allocate", "create"))


def check_gpu():
    """Windows in memory of cudaMalloc."""
    return evaluate("windows on GPUs", "cuda", ("create",))


def evaluate(name, memory, flavors):
    """Returns the finding of validated operations of 8 bytes."""
    figures, reports = [], []
    for flavor in flavors:
        for operation, program in OPERATIONS.items():
            outcome, time = measure(program, memory, flavor)
            if time is None:
                words = [
                    "mpiexec",
                    "-n",
                    "2",
                    prefix.program("bench/rma"),
                    program,
                    "-w",
                    flavor,
                    *memory_option(memory),
                ]
                return broken(name, f"{operation}, MPI_Win_{flavor}: {outcome.reason()}",
                              f"run `{' '.join(words)}` for its error message")  # fmt: skip
            figures.append(f"{(operation if flavor == flavors[0] else f'{operation} ({flavor})')} {time} us")
            reports += [line for line in outcome.slow_paths() if "slow path rma." in line]
    text = f"8 bytes validated: {', '.join(figures)}"
    return slow(name, f"{text}; {reports[0]}", REMEDY) if reports else ok(name, text)


def memory_option(memory):
    return [] if memory == "host" else ["-d", memory]


def measure(program, memory, flavor):
    """Returns (outcome, us as printed; None: it failed)."""
    words = [prefix.mpiexec(), "-n", "2", prefix.program("bench/rma"), program, "-m", "8:8", "-i", "1000", "-x", "20",
             "-w", flavor, "--validation", *memory_option(memory)]  # fmt: skip
    outcome = children.run(words, SECONDS, children.clean_environment(WEFT_LOG="warn"))
    rows = [line.split() for line in outcome.out.splitlines()]
    times = [row[1] for row in rows if len(row) > 1 and row[0] == "8"]
    return outcome, times[0] if outcome.good and times else None
