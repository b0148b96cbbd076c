# SPDX-License-Identifier: BSD-3-Clause
# mpifort: modules are compiled once for a compiler, into the prefix or the user's cache, and belong to its version.
import os
import shutil
import subprocess
import sys
import tempfile

from commands import run

PROGRAM = "program p\n use mpi\n integer :: e\n call MPI_Init(e)\n call MPI_Finalize(e)\nend program\n"


def compiler(path, version):
    """A compiler that says another version and else is gfortran."""
    with open(path, "w", encoding="utf-8") as file:
        file.write(f'#!/bin/sh\ncase $1 in --version) echo "{version}" ;; *) exec gfortran "$@" ;; esac\n')
    os.chmod(path, 0o755)
    return path


def modules(words):
    return [word[2:] for word in words.split() if word.startswith("-I") and "/weft/fortran/" in word]


def main():
    if not shutil.which("gfortran"):
        print("skipped: there is no gfortran")
        return 77
    prefix = os.environ["MPI_PREFIX"]
    with tempfile.TemporaryDirectory() as folder:
        # A prefix of its own that refuses new folders, by a file in the place of the folder (root may write anywhere).
        copy = os.path.join(folder, "prefix")
        for part in ("bin/mpifort", "include/mpif.h", "share/weft/fortran/mpi.F90", "share/weft/fortran/mpi_f08.F90"):
            os.makedirs(os.path.dirname(os.path.join(copy, part)), exist_ok=True)
            shutil.copy(os.path.join(prefix, part), os.path.join(copy, part))
        os.symlink(os.path.join(prefix, "lib"), os.path.join(copy, "lib"))
        for name in ("p.f90",):
            with open(os.path.join(folder, name), "w", encoding="utf-8") as file:
                file.write(PROGRAM)
        mpifort = os.path.join(prefix, "bin", "mpifort")
        run([mpifort, "p.f90", "-o", "p"], folder)
        run([os.path.join(prefix, "bin", "mpiexec"), "-n", "2", "./p"], folder, WEFT_FC="gfortran")

        # The modules keep to the standard: many programs are compiled with -std=f2008.
        for module in ("mpi", "mpi_f08"):
            with open(os.path.join(folder, "strict.f90"), "w", encoding="utf-8") as file:
                file.write(PROGRAM.replace("use mpi", "use " + module))
            for standard in ("f2008", "f2018"):
                run([mpifort, "-std=" + standard, "-pedantic-errors", "-c", "strict.f90"], folder, WEFT_FC="gfortran")

        os.unlink(os.path.join(copy, "lib"))
        os.makedirs(os.path.join(copy, "lib", "weft"))
        with open(os.path.join(copy, "lib", "weft", "fortran"), "w", encoding="utf-8"):
            pass
        cache = os.path.join(folder, "cache")
        mpifort = os.path.join(copy, "bin", "mpifort")
        one, two = (compiler(os.path.join(folder, "fc" + n), "GNU Fortran (test) " + n) for n in ("1.0", "2.0"))
        made = [
            modules(run([mpifort, "-showme:compile"], folder, XDG_CACHE_HOME=cache, WEFT_FC=program))
            for program in (one, two, one)
        ]
        assert all(len(found) == 1 and found[0].startswith(cache + "/weft/fortran/") for found in made), made
        assert made[0] == made[2] != made[1], made
        assert sorted(os.listdir(made[0][0])) == ["compiler", "mpi.mod", "mpi_f08.mod", "mpi_types.mod"], os.listdir(
            made[0][0]
        )
        assert sorted(os.listdir(os.path.join(cache, "weft", "fortran"))) == sorted(
            os.path.basename(m[0]) for m in made[:2]
        )
        # Processes that start at once agree on one folder.
        cache = os.path.join(folder, "race")
        environment = dict(os.environ, XDG_CACHE_HOME=cache, WEFT_FC=one)
        racing = [
            subprocess.Popen([mpifort, "-c", "../p.f90", "-o", "%d.o" % n], cwd=copy, env=environment) for n in range(4)
        ]
        assert [process.wait() for process in racing] == [0] * 4
        assert len(os.listdir(os.path.join(cache, "weft", "fortran"))) == 1, os.listdir(
            os.path.join(cache, "weft", "fortran")
        )
        # Without modules mpif.h remains, and the reason is printed.
        text = run([mpifort, "-showme:compile"], folder, XDG_CACHE_HOME="/proc/none", WEFT_FC=two)
        assert "no Fortran modules: cannot write" in text, text
    return 0


if __name__ == "__main__":
    sys.exit(main())
