#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
# Programs built with the wrapper of another MPI run unchanged under Weft's mpiexec.
# usage: run.py PREFIX_OF_OTHER_MPI LIBRARY_NAME; the prefix is set-up's download. Status 77 if it is not there.
import os
import shutil
import subprocess
import sys
import tempfile
import unittest

HERE = os.path.dirname(os.path.abspath(__file__))
PREFIX = os.environ.get("MPI_PREFIX", "")
OTHER, LIBRARY = sys.argv[1:3]
PROGRAMS = ["handles", "messages", "callbacks", "threads", "thread_callbacks", "tool", "windows", "wrapped"]


def run(*arguments, **variables):
    command = [os.path.join(PREFIX, "bin", "mpiexec"), *map(str, arguments)]
    done = subprocess.run(
        command, capture_output=True, text=True, timeout=100, env={**os.environ, **variables}, check=False
    )
    return done.returncode, done.stdout, done.stderr


class OtherInterface(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.mkdtemp()
        cls.addClassCleanup(shutil.rmtree, cls.folder)

    def build(self, name, *options, source=None):
        program = os.path.join(self.folder, name)
        wrapper = os.path.join(OTHER, "bin", "mpicc")
        source = source or os.path.join(HERE, name + ".c")
        subprocess.run([wrapper, "-std=gnu11", "-w", source, "-o", program, "-lpthread", *options], check=True)
        return program

    def expect(self, program, ranks, **variables):
        self.assertEqual(run("-n", ranks, program, **variables), (0, "passed with %d ranks\n" % ranks, ""))

    def test_programs(self):
        for name in PROGRAMS:
            program = self.build(name)
            for ranks in (2, 4):
                with self.subTest(program=name, ranks=ranks):
                    self.expect(program, ranks)

    def test_fault_tolerance(self):
        """The last of four ranks is killed; the others go on."""
        status, output, errors = run("--continue-on-failure", "-n", 4, self.build("failures"))
        self.assertEqual(output, "passed with 3 ranks\n", errors)
        self.assertRegex(errors, r"killed by signal 9")

    def test_rpath_before_the_variable(self):
        """DT_RPATH comes before LD_LIBRARY_PATH: mpiexec preloads the library."""
        old = self.build("handles", "-Wl,--disable-new-dtags")
        self.expect(old, 2)

    def test_no_position_independent_code(self):
        """Data symbols are copied into such a program."""
        self.expect(self.build("messages", "-no-pie", "-fno-pie"), 2)

    def test_two_interfaces_in_one_job(self):
        """Ranks with different interfaces talk to each other."""
        own = os.path.join(self.folder, "own")
        wrapper = os.path.join(PREFIX, "bin", "mpicc")
        subprocess.run([wrapper, "-std=gnu11", os.path.join(HERE, "messages.c"), "-o", own], check=True)
        other = self.build("messages")
        self.assertEqual(run("-n", 1, own, ":", "-n", 2, other), (0, "passed with 3 ranks\n", ""))

    def test_a_python_program_that_opens_the_library(self):
        """The names under which mpi4py and others look for an MPI."""
        for name in ("libmpi.so", "libmpich.so.12", LIBRARY):
            code = ("import ctypes; mpi = ctypes.CDLL(%r); mpi.MPI_Init(None, None); text = ctypes.create_string_buffer(8192);"
                    "size = ctypes.c_int(); mpi.MPI_Get_library_version(text, ctypes.byref(size));"
                    "print(text.value.decode()[:5]); mpi.MPI_Finalize()" % name)  # fmt: skip
            self.assertEqual(run("-n", 1, sys.executable, "-c", code), (0, "Weft \n", ""), name)

    def test_handles_of_two_interfaces(self):
        """A handle of one interface in a call of the other: the error names both, and how to match them."""
        code = """
import ctypes, sys
other, standard = ctypes.CDLL(sys.argv[1]), ctypes.CDLL(sys.argv[2])
other.MPI_Init(None, None)
def message():
    text = ctypes.create_string_buffer(2000)
    standard.MPIX_Last_error_message(text, len(text), None)
    return text.value.decode()
def world(library):
    name = "ompi_mpi_comm_world"
    return ctypes.c_void_p(ctypes.addressof(ctypes.c_char.in_dll(library, name)) if "40" in sys.argv[1] else 0x44000000)
other.MPI_Comm_set_errhandler(world(other), ctypes.c_void_p(ctypes.addressof(ctypes.c_char.in_dll(other,
    "ompi_mpi_errors_return"))) if "40" in sys.argv[1] else 0x54000001)
assert standard.MPI_Comm_rank(world(other), ctypes.byref(ctypes.c_int())) != 0
print(message())
assert other.MPI_Comm_rank(ctypes.c_void_p(257), ctypes.byref(ctypes.c_int())) != 0
print(message())
other.MPI_Finalize()
"""
        standard = os.path.join(PREFIX, "lib", "libmpi_abi.so.1")
        status, output, errors = run("-n", 1, sys.executable, "-c", code, LIBRARY, standard)
        self.assertEqual(status, 0, output + errors)
        mpi = "Open MPI" if "40" in LIBRARY else "MPICH"
        passed, returned = output.splitlines()
        self.assertEqual(errors, f"weft[0]: {passed}\n")  # the first one, though errors return
        self.assertRegex(
            passed, f"MPI_Comm_rank: comm = 0x[0-9a-f]+ is .* of {mpi}'s ABI, but this is a call of the standard ABI"
        )
        self.assertIn(f"compat/{LIBRARY}", passed)
        self.assertRegex(
            returned, f"comm is a handle of the standard ABI.* but this is a call of {mpi}'s ABI, of {LIBRARY}"
        )
        for text in (passed, returned):
            self.assertIn("--no-binary mpi4py", text)

    def unversioned(self, name, *options, **variables):
        """Builds a program or library that needs libmpi.so, a name without a version."""
        folder = os.path.join(self.folder, "unversioned")
        os.makedirs(folder, exist_ok=True)
        library, path = os.path.join(folder, "libmpi.so"), os.path.join(folder, name)
        with open(os.path.join(PREFIX, "lib", "compat", LIBRARY), "rb") as file:
            image = file.read()
        named = LIBRARY.encode() + b"\0"  # the name that the linker enters into what is linked with it
        with open(library, "wb") as file:
            file.write(image.replace(named, b"libmpi.so".ljust(len(named), b"\0")))
        include = "-I" + os.path.join(OTHER, "include")
        command = ["cc", "-std=gnu11", "-w", include, *options, "-o", path, library, "-lpthread"]
        subprocess.run(command, check=True)
        return path

    def test_an_unversioned_name(self):
        """Programs and modules of an interpreter that need libmpi.so: the symbols that they import tell the interface."""
        for options in (["-no-pie", "-fno-pie"], ["-Wl,--disable-new-dtags", "-Wl,-rpath,/nowhere"]):
            with self.subTest(options=options):
                self.expect(self.unversioned("messages", os.path.join(HERE, "messages.c"), *options), 2)
        status, output, errors = run("--run-info", self.unversioned("handles", os.path.join(HERE, "handles.c")))
        self.assertEqual((status, errors), (0, ""), output)
        interface = "Open MPI 4 and 5" if LIBRARY.endswith("40") else "MPICH, Intel MPI, MVAPICH"
        self.assertIn(f"linked with libmpi.so ({interface}, by the symbols that it imports)\n", output)
        self.assertRegex(output, r"symbols of MPI: [1-9][0-9]+, missing: none\n")
        module = self.unversioned("module.so", "-shared", "-fPIC", "-Dmain=run", os.path.join(HERE, "handles.c"))
        code = ("import ctypes, sys; words = (ctypes.c_char_p * 2)(b'p', None); argv = ctypes.cast(words, ctypes.c_void_p);"
                "ctypes.CDLL(sys.argv[1]).run(1, argv)")  # fmt: skip
        done = run("-n", 2, sys.executable, "-c", code, module)
        self.assertEqual(done, (0, "passed with 2 ranks\n", ""))

    def test_a_missing_symbol(self):
        """A program runs until it calls a function that is not there; then the message names it."""
        texts = {
            "lacks": "int MPIX_Absent(void);\nint lacks(void) { return MPIX_Absent(); }\n",
            "calls": '#include <mpi.h>\n#include <stdio.h>\nint lacks(void);\n'
                     'int main() { MPI_Init(0, 0); puts("runs"); fflush(stdout); return lacks(); }\n',
        }  # fmt: skip
        for name, text in texts.items():
            with open(os.path.join(self.folder, name + ".c"), "w", encoding="utf-8") as file:
                file.write(text)
        library = self.build("liblacks.so", "-shared", "-fPIC", "-Wl,-z,lazy", source=self.folder + "/lacks.c")
        lacks = self.build("calls", library, "-Wl,--allow-shlib-undefined", source=self.folder + "/calls.c")
        status, output, errors = run("-n", 1, lacks)
        self.assertEqual((status, output), (127, "runs\n"), errors)
        self.assertRegex(errors, r"undefined symbol: MPIX_Absent")
        self.assertRegex(errors, r"exited with code 127.*weft run-info")

    def test_run_info(self):
        status, output, errors = run("--run-info", self.build("handles"))
        self.assertEqual((status, errors), (0, ""), output)
        self.assertRegex(
            output, f"linked with {LIBRARY} .*\n.*compat/{LIBRARY}\nsymbols of MPI: [1-9][0-9]+, missing: none\n"
        )
        explain = [os.path.join(PREFIX, "bin", "weft"), "explain", "program", os.path.join(self.folder, "handles")]
        explained = subprocess.run(explain, capture_output=True, text=True, check=True).stdout
        self.assertEqual(explained.split("another MPI:")[0], output)
        source = os.path.join(self.folder, "absent.c")
        with open(source, "w", encoding="utf-8") as file:
            file.write(
                "#include <mpi.h>\nint MPIX_Absent(void);\nint main() { return MPI_Init(0, 0) + MPIX_Absent(); }\n"
            )
        absent = self.build("absent", "-shared", "-fPIC", source=source)
        status, output, _ = run("--run-info", absent)
        self.assertEqual(status, 126)
        self.assertIn("missing: MPIX_Absent\n", output)
        script = os.path.join(self.folder, "script")
        with open(script, "w", encoding="utf-8") as file:
            file.write("#!/usr/bin/env sh\n")
        status, output, _ = run("--run-info", script)
        self.assertEqual(status, 0)
        self.assertRegex(output, "script of /.*/sh\nnot linked with MPI")
        self.assertEqual(run("--run-info", "/no/such/file")[0], 2)

    def test_fatal_error(self):
        source = os.path.join(self.folder, "fatal.c")
        with open(source, "w", encoding="utf-8") as file:
            file.write("#include <mpi.h>\nint main(int c, char** v) { MPI_Init(&c, &v);\n"
                       "return MPI_Send(v, 1, MPI_INT, 7, 0, MPI_COMM_WORLD); }\n")  # fmt: skip
        status, _, errors = run("-n", 1, self.build("fatal", source=source))
        self.assertNotEqual(status, 0)
        self.assertIn("MPI_Send", errors)
        self.assertIn("dest = 7", errors)


if __name__ == "__main__":
    if not os.path.exists(os.path.join(OTHER, "bin", "mpicc")):
        print(f"skipped: {OTHER} is not there")
        sys.exit(77)
    unittest.main(argv=sys.argv[:1], verbosity=2)
