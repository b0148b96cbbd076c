# SPDX-License-Identifier: BSD-3-Clause
# python3 -m weft_mpi.run PROGRAM, and mpiexec --python PROGRAM: runs a Python program and ends the whole job if it
# raises an exception, as mpi4py.run does. Without this the rank waits in MPI_Finalize, which Python calls at exit, for
# ranks that wait for it. Needs neither mpi4py nor the rest of the package, and may run as a file.
import ctypes
import os
import runpy
import sys
import traceback

USAGE = "usage: python3 -m weft_mpi.run [-m MODULE | -c COMMAND | PROGRAM] [arguments]"
COMM_WORLD = 257  # MPI_COMM_WORLD of the standard ABI


def abort(code):
    """Ends the job if this process has initialized MPI and not finalized it."""
    try:
        library = ctypes.CDLL("libmpi_abi.so.1", mode=os.RTLD_NOLOAD)
    except OSError:  # the program has not loaded MPI
        return
    running, ended = ctypes.c_int(), ctypes.c_int()
    library.MPI_Initialized(ctypes.byref(running))
    library.MPI_Finalized(ctypes.byref(ended))
    if running.value and not ended.value:
        sys.stdout.flush()
        sys.stderr.flush()
        library.MPI_Abort(ctypes.c_void_p(COMM_WORLD), code)


def exit_code(value):
    """Returns the exit code for the argument of sys.exit()."""
    if value is None:
        return 0
    return value if isinstance(value, int) else 1


def execute(words):
    """Runs the program that the command line names as __main__."""
    if words[0] in ("-m", "-c"):
        kind, text = words[:2]
        sys.argv[:] = [kind, *words[2:]]
        sys.path.insert(0, "" if kind == "-c" else os.getcwd())
        if kind == "-m":
            runpy.run_module(text, run_name="__main__", alter_sys=True)
        else:
            exec(compile(text, "<string>", "exec"), {"__name__": "__main__"})  # pylint: disable=exec-used
        return
    sys.argv[:] = words
    sys.path.insert(0, os.path.dirname(os.path.abspath(words[0])))
    runpy.run_path(words[0], run_name="__main__")


def main():
    words = sys.argv[1:]
    if not words or (words[0] in ("-m", "-c") and len(words) < 2) or words[0] in ("-h", "--help"):
        sys.exit(USAGE)
    del sys.path[0]  # of this file, or of `python3 -m`
    try:
        execute(words)
    except SystemExit as end:
        if code := exit_code(end.code):
            if not isinstance(end.code, int):
                print(end.code, file=sys.stderr)
            abort(code)
        raise
    except BaseException:
        traceback.print_exc()
        abort(1)
        sys.exit(1)


if __name__ == "__main__":
    main()
