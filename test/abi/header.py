# SPDX-License-Identifier: BSD-3-Clause
"""mpi.h, weft.h and mpi-ext.h compile without warnings as C99 to C17 and C++11 to C++20."""

import os
import re
import subprocess
import sys
import tempfile

WARNINGS = "-Wall -Wextra -Wpedantic -Wstrict-prototypes -Wshadow -Wundef -Werror".split()


def compiles(command, source, language, standard):
    options = [w for w in WARNINGS if language == "c" or w != "-Wstrict-prototypes"]
    include = os.path.join(os.environ["MPI_PREFIX"], "include")
    with tempfile.TemporaryDirectory() as folder:
        result = subprocess.run(
            [
                *command.split(),
                "-x",
                language,
                f"-std={standard}",
                *options,
                "-I",
                include,
                "-c",
                source,
                "-o",
                os.path.join(folder, "a.o"),
            ],
            capture_output=True,
            text=True,
            check=False,
        )
    print(f"{standard}: {'good' if result.returncode == 0 else result.stderr}")
    return result.returncode == 0


def refuses_missing():
    """With -DWEFT_REFUSE_MISSING, and only then, the compiler refuses a call of a function that is not implemented."""
    include = os.path.join(os.environ["MPI_PREFIX"], "include")
    with open(os.path.join(include, "mpi.h"), encoding="utf-8") as header:
        found = re.search(r"^int (MPI_\w+)\(([^;]*)\) WEFT_MISSING;", header.read(), re.M)
    if not found:
        print("every function is implemented")
        return True
    zeros = ", ".join("0" for _ in found.group(2).split(","))
    program = f"#include <mpi.h>\nint main(void) {{ return {found.group(1)}({zeros}); }}\n"
    command = [*os.environ["CC"].split(), "-w", "-x", "c", "-O1", "-I", include, "-c", "-", "-o", os.devnull]
    for option, good in (([], True), (["-DWEFT_REFUSE_MISSING"], False)):
        done = subprocess.run([*command, *option], input=program, text=True, capture_output=True, check=False)
        if (done.returncode == 0) != good or (not good and "does not implement" not in done.stderr):
            print(f"{found.group(1)} {option}: {done.returncode}\n{done.stderr}")
            return False
    return True


def main():
    source = sys.argv[1]
    good = [compiles(os.environ["CC"], source, "c", s) for s in ("c99", "c11", "c17")]
    good += [compiles(os.environ["CXX"], source, "c++", s) for s in ("c++11", "c++17", "c++20")]
    good.append(refuses_missing())
    return 0 if all(good) else 1


if __name__ == "__main__":
    sys.exit(main())
