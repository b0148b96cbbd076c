#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
# Builds one package from the unmodified source of the distribution with the prefix's compiler wrappers, runs it under the
# prefix's mpiexec, and compares its output with expected/NAME.txt. Exit status 77: the source is not available.
#
# Usage: run.py NAME WORK_FOLDER [--record]
# An expected line must occur in the output, in order. Words are equal; numbers with a point or an exponent may differ
# by the package's tolerance (absolute plus relative); "*" is any word. Builds and tests use $JOBS processors; $TESTS is
# this folder.
import argparse
import dataclasses
import glob
import os
import re
import shutil
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
MPI_PREFIX = os.environ.get("MPI_PREFIX", "")
SKIPPED = 77

HPL_SETUP = """
sed -e 's/^ARCH .*/ARCH = weft/' -e 's|^TOPdir .*|TOPdir = ../../..|' -e 's/^MPdir.*/MPdir =/' -e 's/^MPinc.*/MPinc =/' \
    -e 's/^MPlib.*/MPlib =/' -e 's/^LAdir.*/LAdir =/' -e 's/^LAlib.*/LAlib = -lblas/' -e 's/^CC .*/CC = mpicc/' \
    -e 's/^LINKER .*/LINKER = mpicc/' -e 's/^CCFLAGS .*/CCFLAGS = $(HPL_DEFS) -O1/' \
    hpl/setup/Make.Linux_PII_FBLAS > hpl/Make.weft
"""


@dataclasses.dataclass
class Package:
    source: str  # name of the source package
    build: str  # shell commands in the source's folder
    run: str  # shell commands whose output is compared
    keep: str  # regular expression of the lines that are compared
    tolerance: float
    seconds: int = 3000  # limit of the build
    run_seconds: int = 900
    needs: tuple = ()  # programs; skipped without them
    section: str = ""  # of the distribution, where the source is not in one of the binary lists
    release: str = ""  # another release of the distribution, where this one's source is missing


# Installed in the folder weft of the source, where h5py_suite.py finds it.
HDF5_LIBRARY = """
./configure --prefix=$PWD/weft --enable-parallel --disable-static --disable-cxx --disable-fortran --disable-tools \
  --enable-build-mode=production CC=mpicc CFLAGS='-O1 -w' &&
for d in src hl/src; do make -j $JOBS -C $d && make -C $d install || exit 1; done &&
"""
# Each program with 2 and 4 ranks, and one line for its outcome. t_cache needs three ranks.
HDF5_RUN = """
cd testpar
for n in 2 4; do
  for t in t_mpi testphdf5 t_shapesame t_filters_parallel t_pread t_init_term t_bigio; do
    mpiexec -n $n ./$t > $t.$n.log 2>&1 && echo "$t $n passed" || { tail -n 20 $t.$n.log; echo "$t $n FAILED"; }
  done
done
"""
# The Fortran tests of HDF5: one program, which ends with an error if one of its tests fails.
HDF5_FORTRAN_RUN = """
cd fortran/testpar
for n in 1 2 4; do
  mpiexec -n $n ./parallel_test > $n.log 2>&1 && echo "parallel_test $n passed" || echo "parallel_test $n FAILED"
  sed -n "s/ *\\(PASSED\\|\\*FAILED\\*\\) *$/ $n \\1/p" $n.log
done
"""
# FFTW has an interface for Fortran, and no tests of it with MPI: fftw.f90 is one.
FFTW_FORTRAN_BUILD = """
./configure --enable-mpi --disable-doc CFLAGS=-O0 && make -j $JOBS &&
mpifort -O1 -Iapi -Impi $TESTS/fftw.f90 -o fftw_fortran mpi/.libs/libfftw3_mpi.a .libs/libfftw3.a
"""
# The programs of test/testcases; an MPI call that fails and a wrong value end in a status other than 0. Then all tests
# with one rank (check) and with 4 ranks (ptest).
PNETCDF_RUN = """
cd test/testcases
for n in 2 4; do
  for t in $(find . -maxdepth 1 -type f -perm -u+x ! -name '*.sh' | sort); do
    mpiexec -n $n $t /tmp/weft_pnetcdf.nc > log 2>&1 && echo "$t $n passed" || { tail -n 20 log; echo "$t $n FAILED"; }
  done
done
rm -f /tmp/weft_pnetcdf.nc*
cd ../..
for t in check ptest; do
  make $t > make.$t.log 2>&1 && echo "make $t passed" || { grep -E "FAIL|rror" make.$t.log | tail -n 40; echo "make $t FAILED"; }
done
"""
# The tests name their source, and the numbers of ranks to run with, in Jamfile.v2: "NAME : SOURCE : OPTIONS : RANKS".
# Without numbers, Boost's build system takes 1 2 3 4 7 8 13 17.
BOOST_BUILD = r"""
I=$(for d in $PWD/libs/*/include $PWD/libs/*/*/include; do [ -d $d ] && printf ' -I%s' $d; done)
export CXX="mpicxx -std=c++14 -O1 -w $I" OUT=$PWD/libs/mpi/weft
mkdir -p $OUT; rm -f $OUT/list.new
ls libs/mpi/src/*.cpp libs/serialization/src/*.cpp |
  xargs -P $JOBS -I{} sh -c '$CXX -c {} -o $OUT/$(echo {} | tr / _).o' && ar rcs $OUT/libboost.a $OUT/*.o && cd libs/mpi/test &&
sed -n 's/^ *\[ *mpi-test *\(.*[^ ]\) *\]/\1/p' Jamfile.v2 | while IFS=: read -r name source options ranks; do
  set -- $source; echo $name ${1:-$name} | sed 's/\.cpp$//'; echo $name ${ranks:-1 2 3 4 7 8 13 17} >> $OUT/list.new
done | xargs -P $JOBS -L 1 sh -c '$CXX $1.cpp $OUT/libboost.a -o $OUT/$0' && mv $OUT/list.new $OUT/list
"""
BOOST_RUN = """
cd libs/mpi/weft
while read -r name ranks; do
  for n in $ranks; do
    mpiexec -n $n ./$name > $name.$n.log 2>&1 < /dev/null && echo "$name $n passed" ||
      { tail -n 20 $name.$n.log; echo "$name $n FAILED"; }
  done
done < list
"""
# hypre compares with its own saved results, the structured drivers beside the unstructured ones. A test of a folder that
# differs leaves a file NAME.err that is not empty.
HYPRE_RUN = """
cd src/test
for d in struct ij; do
  bash ./runtest.sh -mpi 'mpiexec -n' -rtol 1e-3 -atol 1e-6 TEST_$d/*.sh > TEST_$d.log 2>&1 &
done
wait
for f in $(find TEST_struct TEST_ij -name '*.err' -size +0); do echo "== $f"; head -n 40 $f; done
bash ./checktest.sh TEST_struct TEST_ij
"""
PARMETIS_RUN = """
cd Graphs
for n in 2 4; do
  echo "ranks $n"
  mpiexec -n $n ../build/Linux-*/programs/ptest rotor.graph rotor.graph.xyz &&
  mpiexec -n $n ../build/Linux-*/programs/mtest bricks.hex3d || exit 1
done
"""
# PETSc's own tests with 2 to 4 ranks of vectors, matrices, linear and nonlinear solvers, each compared with the output in
# the source. -nox: some draw, and without X they print a warning, which differs.
PETSC_BUILD = """
[ -f weft/lib/petsc/conf/petscvariables ] || ./configure PETSC_ARCH=weft --with-fc=0 --with-cxx=0 --with-cc=mpicc \\
  --with-mpiexec=mpiexec --with-debugging=0 --with-x=0 --with-ssl=0 --with-valgrind=0 COPTFLAGS=-O1 CFLAGS=-w &&
make -f gmakefile -j $JOBS PETSC_DIR=$PWD PETSC_ARCH=weft libs &&
python3 config/gmakegentest.py --petsc-dir=$PWD --petsc-arch=weft --testdir=./weft/tests
"""
PETSC_RUN = """
python3 - > weft/targets <<'END'
import pickle, re
for root, files in pickle.load(open("weft/tests/datatest.pkl", "rb")).items():
    folder = root.split("/src/")[1]
    for name, tests in files.items() if re.match("(ksp|mat|snes|vec)/", folder) else ():
        for test, one in tests.items():
            if name.endswith(".c") and isinstance(one, dict) and one.get("isrun") and one.get("nsize") in ("2", "3", "4"):
                print(folder.replace("/", "_") + "-" + test[3:])
END
export PETSC_OPTIONS=-nox
make -k -j $(((JOBS + 3) / 4)) -f gmakefile.test report_tests TIMEOUT=300 PETSC_DIR=$PWD PETSC_ARCH=weft \\
  TESTTARGETS="$(tr '\\n' ' ' < weft/targets)" > weft/tests.log 2>&1
grep '^#' weft/tests.log
sed -n -e 's/ *#.*//' -e 's/^ *\\(\\(not \\)\\?ok \\)/\\1/p' weft/tests.log | sort
"""
# Runs the tests of a folder; ctest's lines are cut to name and outcome and sorted, after the output of failed tests.
CTEST = (
    "ctest -j $(((JOBS + 3) / 4)) --timeout 300 --output-on-failure 2>&1 | "
    r"sed -e 's/^ *[0-9]*\/[0-9]* Test *#[0-9]*: \([^ ]*\) [. ]*\(.*[^ ]\)  *[0-9.]* sec.*/test \1 \2/' > log; "
    "grep -v '^test ' log; grep '^test ' log | sort"
)
# Each test compares with the output that is in the source. Any outcome is expected of ten tests of stiff problems, which
# take another number of steps than in the source (two were run with MPICH, where it differs, too).
SUNDIALS_FOLDERS = "for d in examples/*/*parallel examples/*/*mpimanyvector examples/nvector/mpiplusx; do "
SUNDIALS_RUN = "cd weft; " + SUNDIALS_FOLDERS + "(cd $d && " + CTEST + "); done"
LAMMPS_RUN = "cd bench; for t in lj chain eam rhodo; do mpiexec -n 4 ../src/lmp_mpi -in in.$t || exit 1; done"
# Each test of a folder compares the files of all ranks with the accepted answers in the source. Thirteen are
# expected to differ: six of them were run on MPICH, too, and fail there. The hypergraph tests (hg_*) are
# left out, since they take too long.
ZOLTAN_RUN = r"""
export ZDRIVE=$PWD/weft/src/driver/zdrive.exe
cd packages/zoltan/test
ls -d ch_* | xargs -P $(((JOBS + 3) / 4)) -I{} sh -c 'cd {} && perl ../ctest_zoltan.pl --pkg Zoltan --zdrive $ZDRIVE \
  --np $(sed -n "s/^SET(ZOLTANNUMPROCS \([0-9]*\)).*/\1/p" CMakeLists.txt) --mpiexec mpiexec --mpiexecarg -n > weft.log 2>&1'
cat ch_*/weft.log
"""


PACKAGES = {
    "boost": Package("boost1.81", BOOST_BUILD, BOOST_RUN, r"^\w\S* \d+ (passed|FAILED)$", 0, run_seconds=3000),
    "fftw": Package(
        "fftw3",
        "./configure --enable-mpi --disable-fortran --disable-doc CFLAGS=-O1 && make -j $JOBS",
        "for n in 1 2 4; do mpiexec -n $n mpi/mpi-bench -v1 --verify 'ocf20x24' --verify 'irf12x18x8' "
        "--verify 'obc32x7x6' --verify 'irb60x11' || exit 1; done",
        r"^(\S+ ){3}\S+$",
        1e-12,
    ),
    "fftw_fortran": Package(
        "fftw3",
        FFTW_FORTRAN_BUILD,
        "for n in 1 2 4; do mpiexec -n $n ./fftw_fortran || exit 1; done",
        r"^fortran ",
        0,
        needs=("gfortran",),
    ),  # fmt: skip
    "hdf5": Package(
        "hdf5",
        HDF5_LIBRARY + "make -C test libh5test.la && "
        "make -j $JOBS -C testpar testphdf5 t_shapesame t_bigio t_mpi t_filters_parallel t_pread t_init_term",
        HDF5_RUN,
        r"^t\w+ \d (passed|FAILED)$",
        0,
        run_seconds=3000,
    ),
    "hdf5_fortran": Package(
        "hdf5",
        "./configure --enable-parallel --enable-fortran --disable-static --disable-hl --disable-cxx --disable-tools "
        "--enable-build-mode=production CC=mpicc FC=mpifort CFLAGS='-O1 -w' FCFLAGS='-O1 -w' && make -j $JOBS -C src && "
        "make -C test libh5test.la && make -C fortran/src && make -C fortran/test libh5test_fortran.la && "
        "make -C fortran/testpar parallel_test",
        HDF5_FORTRAN_RUN,
        r"^parallel_test|PASSED|FAILED",
        0,
        needs=("gfortran",),
    ),
    # One process of each host serves the others' requests. Two tests, which compute for minutes (products of matrices of
    # 2048 rows by plain loops), are left out.
    "globalarrays": Package(
        "ga",
        "cmake -S . -B weft -DENABLE_FORTRAN=OFF -DENABLE_CXX=OFF -DGA_RUNTIME=MPI_PROGRESS_RANK -DMPI_C_COMPILER=mpicc "
        "-DCMAKE_BUILD_TYPE=None -DCMAKE_C_FLAGS='-O1 -w' && make -j $JOBS -C weft",
        "cd weft/global/testing && " + CTEST.replace("ctest ", "ctest -E '^(cache_test|testmatmultc)$' "),
        r"^test \S+ ",
        0,
        needs=("cmake",),
        release="trixie",
    ),
    "hypre": Package(
        "hypre",
        "cd src && ./configure --with-MPI --disable-fortran CC=mpicc CXX=mpicxx CFLAGS=-O1 CXXFLAGS=-O1 && make -j $JOBS && "
        "make -j $JOBS -C test",
        HYPRE_RUN,
        r"^ *(OK|FAILED) *: ",
        0,
        run_seconds=3000,
    ),
    # Expected: bench/log.15Jul25.NAME.fixed.g++.4 of LAMMPS's repository, without the last pressure of rhodo, which differs
    # from other versions of LAMMPS by 0.005 of terms of some 300.
    "lammps": Package(
        "lammps",
        "cd src && make yes-molecule yes-manybody yes-kspace yes-rigid && make -j $JOBS mpi CCFLAGS='-O1 -std=c++11'",
        LAMMPS_RUN,
        r"^ *\d+( +-?[\d.]+){5} *$|^[A-Z]\w+ += +-?[\d.]+ |^Total # of neighbors",
        1e-5,
    ),
    "pnetcdf": Package(
        "pnetcdf",
        "autoreconf -i && ./configure --disable-fortran --disable-cxx MPICC=mpicc CFLAGS='-O1 -w' && make -j $JOBS && "
        "make -j $JOBS tests",
        PNETCDF_RUN,
        r"^\S+ \S+ (passed|FAILED)$",
        0,
        run_seconds=3000,
        needs=("autoreconf", "libtoolize"),
    ),
    # ParMETIS computes each cut that it reports a second time from the partition. Its source is in Debian's section
    # non-free, since only research and evaluation are free.
    "parmetis": Package(
        "parmetis",
        "make config cc=mpicc && make -j $JOBS",
        PARMETIS_RUN,
        r"^ranks |^Testing|reported a cut",
        0,
        needs=("cmake",),
        section="non-free",
    ),
    "petsc": Package("petsc", PETSC_BUILD, PETSC_RUN, r"^(not )?ok ", 0, run_seconds=3000),
    "hpcc": Package(
        "hpcc",
        HPL_SETUP + "make arch=weft",
        "sed -e 's/^1000 .*Ns$/120 Ns/' _hpccinf.txt > hpccinf.txt; rm -f hpccoutf.txt; mpiexec -n 4 ./hpcc && cat hpccoutf.txt",
        r"PASSED|FAILED|^Success=|Found \d+ errors|^(HPL_N|PTRANS_n|CommWorldProcs|PTRANS_residual|HPL_dMACH_EPS)=",
        1e-9,
    ),
    "scotch": Package(  # PT-Scotch's own tests end with an error if one fails
        "scotch",
        "cd src && sed -e 's/-O3/-O1 -U_FORTIFY_SOURCE/' -e 's/^CCP.*/CCP = mpicc/' -e 's/^CCD.*/CCD = mpicc/' "
        "Make.inc/Makefile.inc.x86-64_pc_linux2 > Makefile.inc && make ptscotch",
        "cd src/check && make ptcheck EXECPPROG=mpiexec EXECPFLAGS= && echo 'ptcheck passed' && "
        "mpiexec -n 4 ../../bin/dgtst data/small_%r.grf && mpiexec -n 3 ../../bin/dgtst data/bump.grf",
        r"^S\t|^ptcheck passed",
        1e-5,
        needs=("flex", "bison"),
    ),
    "sundials": Package(
        "sundials",
        "cmake -S . -B weft -DENABLE_MPI=ON -DEXAMPLES_ENABLE_CXX=ON -DSUNDIALS_TEST_DEVTESTS=ON -DBUILD_STATIC_LIBS=OFF "
        "-DEXAMPLES_INSTALL=OFF -DMPI_C_COMPILER=mpicc -DMPI_CXX_COMPILER=mpicxx -DCMAKE_BUILD_TYPE=None "
        "-DCMAKE_C_FLAGS=-O1 -DCMAKE_CXX_FLAGS=-O1 && cd weft && "
        + SUNDIALS_FOLDERS
        + "make -j $JOBS -C $d || exit 1; done",
        SUNDIALS_RUN,
        r"^test \S+ ",
        0,
        run_seconds=3000,
        needs=("cmake",),
    ),
    "zoltan": Package(
        "trilinos",
        "mkdir -p weft && cd weft && ../packages/zoltan/configure --enable-mpi --disable-zoltan-cppdriver --with-id-type=ulong "
        "CC=mpicc CXX=mpicxx CFLAGS='-O1 -w' && make -j $JOBS",
        ZOLTAN_RUN,
        r"^Test \S+:\S+ (PASSED|FAILED|SKIPPED)",
        0,
        run_seconds=4000,
        needs=("perl",),
    ),
}


def source_lists(folder, section, release):
    """Writes a list of source packages from the binary lists of the system, with one more section and release;
    returns its path."""
    lines = []
    for path in ["/etc/apt/sources.list", *sorted(glob.glob("/etc/apt/sources.list.d/*"))]:
        if not os.path.isfile(path):
            continue
        with open(path, encoding="utf-8") as file:
            text = file.read()
        if path.endswith(".sources"):
            for block in text.split("\n\n"):
                fields = dict(re.findall(r"^([A-Za-z-]+): *(.*)$", block, re.MULTILINE))
                if "deb" not in fields.get("Types", "").split():
                    continue
                option = "[signed-by=%s] " % fields["Signed-By"] if fields.get("Signed-By", "").startswith("/") else ""
                for uri in fields["URIs"].split():
                    for suite in fields["Suites"].split():
                        lines.append("deb-src %s%s %s %s" % (option, uri, suite, fields.get("Components", "")))
        else:
            lines += [re.sub(r"^deb ", "deb-src ", line) for line in text.splitlines() if line.startswith("deb ")]
    if release:
        own = re.compile(r"(deb-src .*://\S+ )[a-z]+ (.*)")  # not updates of a release
        lines += [own.sub(rf"\1{release} \2", line) for line in lines if own.fullmatch(line)]
    name = os.path.join(folder, "sources.list")
    with open(name, "w", encoding="utf-8") as file:
        file.writelines(f"{line} {section}\n" for line in lines)
    return name


def skip(why):
    print("skipped: " + why)
    sys.exit(SKIPPED)


def unpack(package, folder):
    """Downloads and unpacks the original source; returns its folder."""
    os.makedirs(os.path.join(folder, "lists", "partial"), exist_ok=True)
    lists = source_lists(folder, package.section, package.release)
    options = ["-o", "Dir::Etc::sourcelist=" + lists, "-o", "Dir::Etc::sourceparts=-",
               "-o", "Dir::State::lists=" + os.path.join(folder, "lists"), "-o", "Dir::Cache=" + folder]  # fmt: skip
    archives = glob.glob(os.path.join(folder, package.source + "_*.orig.tar.*"))
    if not archives:
        for command in (["update"], ["source", "--download-only", "--tar-only", package.source]):
            try:
                done = subprocess.run(["apt-get", "-q", *options, *command], cwd=folder, stdout=subprocess.PIPE,
                                      stderr=subprocess.STDOUT, text=True, timeout=900)  # fmt: skip
            except (FileNotFoundError, subprocess.TimeoutExpired) as error:
                skip(f"apt-get: {error}")
        archives = glob.glob(os.path.join(folder, package.source + "_*.orig.tar.*"))
        if not archives:
            skip(f"apt-get finds no source of {package.source}:\n{done.stdout[-500:]}")
    names = subprocess.run(["tar", "tf", archives[0]], stdout=subprocess.PIPE, text=True, check=True).stdout
    top = os.path.join(folder, names.split("\n", 1)[0].split("/")[0])
    if not os.path.isdir(top):
        subprocess.run(["tar", "xf", archives[0], "-C", folder], check=True)
    return top


def shell(command, folder, seconds, log):
    environment = dict(os.environ, PATH=os.path.join(MPI_PREFIX, "bin") + ":" + os.environ["PATH"],
                       JOBS=str(len(os.sched_getaffinity(0))), LC_ALL="C.UTF-8", TESTS=HERE)  # fmt: skip
    with open(log, "w+", encoding="utf-8", errors="replace") as file:
        code = subprocess.run(["sh", "-c", command], cwd=folder, env=environment, stdout=file, stderr=subprocess.STDOUT,
                              stdin=subprocess.DEVNULL, timeout=seconds).returncode  # fmt: skip
        file.seek(0)
        text = file.read()
    if code != 0:
        sys.exit("status %d of: %s\n%s" % (code, command, text[-3000:]))
    return text


def equal(got, wanted, tolerance):
    """Compares two lines word by word."""
    words, expected = re.split(r"[\s=,;]+", got), re.split(r"[\s=,;]+", wanted)
    if len(words) != len(expected):
        return False
    for word, right in zip(words, expected):
        if right in ("*", word):
            continue
        try:
            if not re.search(r"[.e]", right) or abs(float(word) - float(right)) > tolerance * (1 + abs(float(right))):
                return False
        except ValueError:
            return False
    return True


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("name", choices=sorted(PACKAGES))
    parser.add_argument("folder")
    parser.add_argument("--record", action="store_true", help="write the expected results")
    chosen = parser.parse_args()
    package, folder = PACKAGES[chosen.name], os.path.abspath(chosen.folder)
    os.makedirs(folder, exist_ok=True)
    for program in package.needs:
        if shutil.which(program) is None:
            skip("no " + program)
    top = unpack(package, folder)
    shell(package.build, top, package.seconds, os.path.join(folder, chosen.name + ".build.log"))
    output = shell(package.run, top, package.run_seconds, os.path.join(folder, chosen.name + ".run.log"))
    lines = [line.rstrip() for line in output.splitlines() if re.search(package.keep, line)]
    name = os.path.join(HERE, "expected", chosen.name + ".txt")
    if chosen.record:
        with open(name, "w", encoding="utf-8") as file:
            file.write("\n".join(lines) + "\n")
    with open(name, encoding="utf-8") as file:
        expected = file.read().splitlines()
    if len(lines) != len(expected):
        sys.exit("%d lines instead of %d:\n%s" % (len(lines), len(expected), "\n".join(lines[-40:])))
    for got, wanted in zip(lines, expected):
        if not equal(got, wanted, package.tolerance):
            sys.exit(f"got:      {got}\nexpected: {wanted}")
    print("%s: %d lines as expected (%s)" % (chosen.name, len(lines), os.path.basename(top)))


if __name__ == "__main__":
    main()
