# SPDX-License-Identifier: BSD-3-Clause
"""mpi.h, weft.h and mpi-ext.h compile without a warning as C99 to C17 and as C++11 to C++20."""

import os
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


def main():
    source = sys.argv[1]
    good = [compiles(os.environ["CC"], source, "c", s) for s in ("c99", "c11", "c17")]
    good += [compiles(os.environ["CXX"], source, "c++", s) for s in ("c++11", "c++17", "c++20")]
    return 0 if all(good) else 1


if __name__ == "__main__":
    sys.exit(main())
