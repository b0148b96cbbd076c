#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
# mpiexec from the command line: options, variables, input, output, exit codes, binding.
import functools
import hashlib
import os
import re
import resource
import subprocess
import tempfile
import time
import unittest

from support import CORES, MPIEXEC, PEER, run, shell, start

# srun of a site; BROKEN: plugins that are listed and cannot be loaded.
SRUN = """#!/bin/sh
[ "$1" = --mpi=list ] && { echo none pmi2 pmix >&2; exit; }
case " $BROKEN " in
  *" $1 "*) echo "srun: error: Invalid MPI type, --mpi=list for acceptable types" >&2; exit 1 ;;
esac
[ "$2" = --test-only ] || echo "$*"
"""


class Command(unittest.TestCase):
    def test_usage_errors_exit_with_2(self):
        for arguments, word in (
            (("-n", "0", "true"), "1 to 65536"),
            (("--frobnicate", "true"), "--frobnicate"),
            (("--launcher", "slurm", "--host", "elsewhere.example", "true"), "--launcher slurm"),
            (("--bind-to", "core", "-n", CORES + 1, "true"), f"{CORES} cores"),
            ((), "no program given"),
        ):
            status, output, errors = run(*arguments)
            self.assertEqual((status, output), (2, ""), arguments)
            self.assertIn(word, errors)

    def test_plugin_that_srun_cannot_load(self):
        """Of the listed MPI plugins mpiexec takes the first that srun loads, with the option --test-only."""
        with tempfile.TemporaryDirectory() as folder:
            with open(os.path.join(folder, "srun"), "w", encoding="utf-8") as file:
                file.write(SRUN)
            os.chmod(file.name, 0o755)
            settings = {"PATH": folder + ":" + os.environ["PATH"], "SLURM_JOB_ID": "1"}
            for broken, plugin in (("", "pmix"), ("--mpi=pmix", "pmi2"), ("--mpi=pmix --mpi=pmi2", None)):
                status, output, errors = run(
                    "--launcher", "slurm", "-n", 2, "true", variables={**settings, "BROKEN": broken}
                )
                self.assertEqual(status, 0 if plugin else 2, errors)
                self.assertIn(f"--mpi={plugin} " if plugin else "", output)
                if not plugin:
                    self.assertIn("neither the MPI plugin pmix nor pmi2", errors)

    @unittest.skipIf(CORES < 2, "one core")
    def test_commands_of_manuals_of_other_mpis(self):
        """As printed there; the two hosts are simulated."""
        settings = {"WEFT_FAKE_HOSTS": "2"}
        with tempfile.TemporaryDirectory() as folder:
            for name in ("jacobi_cuda_aware_mpi", "osu_latency", "osu_bw"):
                with open(os.path.join(folder, name), "w", encoding="utf-8") as file:
                    file.write(
                        '#!/bin/sh\necho "$*|$UCX_TLS$UCX_IB_GPU_DIRECT_RDMA$UCX_NET_DEVICES$MV2_USE_CUDA$WEFT_NET"\n'
                    )
                os.chmod(file.name, 0o755)
            rsh = os.path.join(folder, "mpirun_rsh")
            os.symlink(MPIEXEC, rsh)
            path = folder + ":" + os.environ["PATH"]
            for launcher, command, ranks, line, extra in (
                (MPIEXEC, "-np 8 --map-by ppr:4:socket ./jacobi_cuda_aware_mpi -ny 16384", 8, "-ny 16384|", {}),
                (MPIEXEC, "-np 2 --map-by ppr:1:node -x UCX_IB_GPU_DIRECT_RDMA=no ./jacobi_cuda_aware_mpi -ny 128 "
                 "-skip_single_gpu -niter 10000", 2, "-ny 128 -skip_single_gpu -niter 10000|no", {}),
                (MPIEXEC, "-H a,b -x LD_LIBRARY_PATH=/x -x UCX_TLS=^gdr_copy -x UCX_NET_DEVICES=mlx5_0:1 -np 2 osu_latency "
                 "-d cuda D D", 2, "-d cuda D D|^gdr_copymlx5_0:1", {}),
                (MPIEXEC, "-host a,b -mca btl_openib_want_cuda_gdr 1 -np 2 -npernode 1 -x LD_LIBRARY_PATH -mca "
                 "btl_openib_if_include mlx5_0:1 -bind-to-core -report-bindings -mca coll_fca_enable 0 -x "
                 "CUDA_VISIBLE_DEVICES=0 osu_latency -d cuda D D", 2, "-d cuda D D|mlx5_0:1", {}),
                (rsh, "-np 2 a b MV2_USE_CUDA=1 MV2_USE_GPUDIRECT=1 osu_bw -d cuda D D", 2, "-d cuda D D|1", {}),
                (MPIEXEC, "-np 2 osu_bw", 2, "|ofi", {"OMPI_MCA_pml": "^ucx", "OMPI_MCA_mtl": "ofi"}),
            ):  # fmt: skip
                status, output, errors = run(
                    *command.split(), launcher=(launcher,), variables={**settings, **extra, "PATH": path}, cwd=folder
                )
                self.assertEqual((status, output.splitlines()), (0, [line] * ranks), command + errors)

    def test_output_in_files(self):
        program = shell("echo out $PMI_RANK; echo err $PMI_RANK >&2")
        with tempfile.TemporaryDirectory() as folder:
            status, output, errors = run("-n", 11, "--output-filename", "log", *program, cwd=folder)
            self.assertEqual((status, len(output.splitlines()), len(errors.splitlines())), (0, 11, 11))
            for rank in (0, 10):
                for name, text in (("stdout", "out"), ("stderr", "err")):
                    with open(f"{folder}/log/1/rank.{rank:02}/{name}", encoding="utf-8") as file:
                        self.assertEqual(file.read(), f"{text} {rank}\n")
            self.assertEqual(run("-n", 2, "--output-filename", "only:nocopy", *program, cwd=folder), (0, "", ""))
            patterns = ("-outfile-pattern", "o%%.%r", "-errfile-pattern", "e.%r.%j")
            self.assertEqual(run("-n", 2, *patterns, *program, cwd=folder), (0, "", ""))
            self.assertLessEqual({"o%.0", "o%.1", "e.0.1", "e.1.1"}, set(os.listdir(folder)))
            status, _, errors = run("-n", 1, "-outfile-pattern", "/dev/null/x", *program)
            self.assertNotEqual(status, 0)
            self.assertIn("/dev/null/x", errors)

    def test_output_with_time_and_merged(self):
        program = shell("echo out; echo err >&2")
        status, output, errors = run(
            "-n", 1, "--timestamp-output", "--merge-stderr-to-stdout", "--tag-output", *program
        )
        self.assertEqual((status, errors), (0, ""))
        tags = sorted(re.findall(r"^\[\w+ \w+ +\d+ [:\d]+ \d+\]\[1,0\]<(std\w+)>: \w+$", output, re.MULTILINE))
        self.assertEqual(tags, ["stderr", "stdout"], output)

    def test_input_of_a_rank(self):
        program = shell("echo $PMI_RANK $(cat)")
        for value, lines in (("1", ["0", "1 text"]), ("none", ["0", "1"])):
            self.assertEqual(sorted(run("-n", 2, "--stdin", value, *program, input="text\n")[1].splitlines()), lines)

    def test_cpu_list(self):
        first = sorted(os.sched_getaffinity(0))[0]
        report = run("-n", 1, "--cpu-list", first, "--report-bindings", "true")[2]
        self.assertRegex(report, rf"cpus {first}(;.*)?\n")
        self.assertEqual(run("-n", 1, "--cpu-list", 100000, "true")[0], 2)

    def test_options_of_other_mpis_are_documented(self):
        page = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "docs", "migration.md")
        with open(page, encoding="utf-8") as file:
            self.assertIn(run("--help-other-options")[1], file.read(), "mpiexec --help-other-options prints the table")

    def test_options_are_documented(self):
        """Each option of --help is on the page, with the same values, and each option of the page's table is in --help."""
        page = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "docs", "launch.md")
        with open(page, encoding="utf-8") as file:
            text = file.read().replace(r"\|", "/")
        table = text.split("| option | meaning |\n")[1].split("\n\n")[0]
        option = re.compile(r"(?<![\w-])--?([A-Za-z][\w-]*)")
        help_text = run("--help")[1]
        rows = re.findall(r"^  (-\S.*?)(?:  |$)", help_text, re.M)
        known = {name for row in rows for name in option.findall(row)}
        for row in rows:
            names = option.findall(row)
            used = [name for name in names if re.search(rf"(?<![\w-])--?{name}(?![\w-])", text)]
            self.assertTrue(used, f"{row}: not in docs/launch.md")
            values = row.split()[-1].split("[")[0].replace("|", "/")
            for found in re.findall(rf"-(?:{'|'.join(names)}) ([a-z]\S*/\S+)`", table):
                self.assertEqual(values, found, f"{row}: other values in docs/launch.md")
        for row in table.splitlines()[1:]:
            for name in option.findall(row.split("|")[1]):
                self.assertIn(name, known, f"--{name} of docs/launch.md is not in --help")

    def test_help_and_version(self):
        self.assertIn("--map-by", run("--help")[1])
        self.assertRegex(run("--version")[1], r"^mpiexec \(Weft\) \d+\.\d+\.\d+ \(commit ([0-9a-f]{12}\+?|unknown)\)$")

    def test_programs_that_cannot_start(self):
        self.assertEqual(run("-n", 3, "no-such-program")[0], 127)
        self.assertEqual(run("/etc/passwd")[0], 126)
        self.assertEqual(run("-wdir", "/no/such/folder", "true")[0], 126)
        status, _, errors = run("-n", 3, "no-such-program")
        self.assertEqual(errors.count("no-such-program"), 1, errors)  # once, not for each rank

    def test_hint_at_program_in_the_current_directory(self):
        with tempfile.TemporaryDirectory() as folder:
            os.symlink("/bin/true", os.path.join(folder, "mine"))
            self.assertIn("./", run("mine", cwd=folder)[2])
            self.assertEqual(run("./mine", cwd=folder)[0], 0)
            self.assertEqual(run("-wdir", folder, "./mine")[0], 0)


class Environment(unittest.TestCase):
    def test_rank_variables(self):
        names = "LOCAL_RANK OMPI_COMM_WORLD_LOCAL_RANK OMPI_COMM_WORLD_RANK MPI_LOCALRANKID PMI_RANK".split()
        sizes = "OMPI_COMM_WORLD_SIZE OMPI_COMM_WORLD_LOCAL_SIZE MPI_LOCALNRANKS PMI_SIZE".split()
        status, output, _ = run("-n", 3, *shell("echo " + " ".join("$" + name for name in names + sizes)))
        self.assertEqual(status, 0)
        self.assertEqual(
            sorted(output.splitlines()), [" ".join([str(rank)] * len(names) + ["3"] * len(sizes)) for rank in range(3)]
        )

    def test_jobs_have_different_names(self):
        names = {run(*shell("echo $WEFT_JOB_ID"))[1] for _ in range(3)}
        self.assertEqual(len(names), 3)

    def test_variables_and_several_programs(self):
        status, output, errors = run(
            "-n", 1, "-x", "A=1 2", *shell('echo "$PMI_RANK $A $B"'), ":",
            "-n", 2, "-x", "B", "-wdir", "/", *shell('echo "$PMI_RANK $A $B $PWD"'),
            variables={"B": "b"},
        )  # fmt: skip
        self.assertEqual((status, errors), (0, ""))
        self.assertEqual(sorted(output.splitlines()), ["0 1 2 b", "1  b /", "2  b /"])

    def test_unset_exported_variable_is_a_warning(self):
        status, _, errors = run("-x", "LAUNCH_TEST_UNSET", "true")
        self.assertEqual(status, 0)
        self.assertIn("LAUNCH_TEST_UNSET", errors)

    def test_variables_of_other_launchers_are_removed(self):
        foreign = {"PMIX_RANK": "7", "PMI_PORT": "x:1", "HYDI_CONTROL_FD": "9", "OMPI_COMM_WORLD_NODE_RANK": "5"}
        output = run("env", variables=foreign)[1]
        for name in foreign:
            self.assertNotRegex(output, f"(?m)^{name}=")

    def test_ranks_get_four_descriptors(self):
        reader, writer = os.pipe()  # inherited descriptors of mpiexec
        try:
            script = "import os; print([fd for fd in range(2000) if os.path.exists(f'/proc/self/fd/{fd}')])"
            for limit, number in ((1024, 983), (100, 59), (40, 3)):
                limits = (limit, resource.getrlimit(resource.RLIMIT_NOFILE)[1])
                status, output, _ = run(
                    "-n", 2, "python3", "-c", script, pass_fds=(reader, writer),
                    preexec_fn=functools.partial(resource.setrlimit, resource.RLIMIT_NOFILE, limits),
                )  # fmt: skip
                self.assertEqual((status, output), (0, f"[0, 1, 2, {number}]\n" * 2))
        finally:
            os.close(reader)
            os.close(writer)

    def test_too_few_descriptors(self):
        failures = 0
        for limit in range(6, 40):
            set_limit = functools.partial(resource.setrlimit, resource.RLIMIT_NOFILE, (limit, limit))
            status, output, errors = run("-n", 2, "echo", "good", preexec_fn=set_limit)
            if status == 0:
                self.assertEqual(output, "good\n" * 2)
            else:
                failures += 1
                self.assertIn("ulimit -n", errors, f"limit {limit}")
        self.assertIn(failures, range(10, 30))

    def test_closed_standard_descriptors(self):
        done = subprocess.run(
            ["sh", "-c", f'"{MPIEXEC}" -n 2 {PEER} fences 5 <&- 2>&-'], stdout=subprocess.PIPE, text=True, check=False
        )
        self.assertEqual(done.returncode, 0)
        self.assertIn("per fence", done.stdout)

    def test_limits_and_signals_are_inherited(self):
        script = "ulimit -n; grep -E 'Sig(Blk|Ign)' /proc/self/status"
        outside = subprocess.run(shell(script), stdout=subprocess.PIPE, text=True, check=True).stdout
        self.assertEqual(run(*shell(script))[1], outside)


class InputAndOutput(unittest.TestCase):
    def test_input_goes_to_rank_0(self):
        status, output, _ = run("-n", 3, *shell("wc -c | sed s/^/$PMI_RANK:/"), input="x" * 1_000_000)
        self.assertEqual(status, 0)
        self.assertEqual(sorted(output.split()), ["0:1000000", "1:0", "2:0"])

    def test_lines_are_not_interleaved(self):
        program = (
            "import os, sys\n"
            "line = os.environ['PMI_RANK'] * 300\n"
            "for i in range(4000):\n"
            "    os.write(1 + i % 2, line[:150].encode()); os.write(1 + i % 2, (line[150:] + '\\n').encode())\n"
        )
        status, output, _ = run("-n", 4, "python3", "-c", program, stderr=subprocess.STDOUT)
        self.assertEqual(status, 0)
        lines = output.splitlines()
        self.assertEqual(len(lines), 16000)
        self.assertEqual({(len(line), len(set(line))) for line in lines}, {(300, 1)})

    def test_last_line_without_newline_is_kept(self):
        self.assertEqual(run("printf", "abc")[1], "abc")
        self.assertEqual(run("printf", "a\\nb")[1], "a\nb")

    def test_large_binary_output_is_complete_and_fast(self):
        size = 256 * 1024 * 1024
        for source in ("/dev/zero", "/dev/urandom"):  # no line at all; lines of any length
            begin = time.monotonic()
            digest = hashlib.md5()
            total = 0
            with start(*shell(f"head -c {size} {source} | tee /dev/stderr"), stderr=subprocess.DEVNULL) as process:
                while chunk := process.stdout.read(1 << 20):
                    total += len(chunk)
                    digest.update(chunk)
            self.assertEqual((process.returncode, total), (0, size))
            self.assertLess(time.monotonic() - begin, 30)
            if source == "/dev/zero":
                expected = hashlib.md5()
                for _ in range(size >> 20):
                    expected.update(bytes(1 << 20))
                self.assertEqual(digest.hexdigest(), expected.hexdigest())

    def test_tags(self):
        status, output, errors = run("--tag-output", "-n", 2, *shell("echo a; printf 'b\\nc'; echo d >&2"))
        self.assertEqual(status, 0)
        for rank in range(2):
            self.assertEqual(re.findall(rf"(?m)^\[1,{rank}\]<stdout>: (.*)$", output), ["a", "b", "c"])
        self.assertEqual(sorted(errors.splitlines()), ["[1,0]<stderr>: d", "[1,1]<stderr>: d"])
        self.assertEqual(len(output.splitlines()), 6)

    def test_closed_reader(self):
        begin = time.monotonic()
        with start("-n", 2, "yes") as process:
            process.stdout.readline()
            process.stdout.close()
            errors = process.stderr.read().decode()
        self.assertEqual(process.returncode, 128 + 13, errors)
        self.assertLess(time.monotonic() - begin, 5)

    def test_slow_reader_does_not_stop_the_launcher(self):
        # The output of rank 0 is not read, and PMI requests are still served.
        with tempfile.TemporaryDirectory() as folder:
            done = os.path.join(folder, "done")
            flood = "(test $PMI_RANK = 0 && head -c 3000000 /dev/zero) &"
            script = f"{flood} {PEER} fences 50 > {folder}/$PMI_RANK && : > {done}; wait"
            with start("-n", 2, *shell(script)) as job:
                end = time.monotonic() + 20
                while not os.path.exists(done) and time.monotonic() < end:
                    time.sleep(0.02)
                self.assertTrue(os.path.exists(done))
                self.assertEqual(len(job.stdout.read()), 3_000_000)
            self.assertEqual(job.returncode, 0)


class ExitCode(unittest.TestCase):
    def test_first_failing_rank(self):
        status, _, errors = run("-n", 3, *shell("test $PMI_RANK = 1 && exit 7; sleep 30"))
        self.assertEqual(status, 7)
        self.assertRegex(errors, r"^mpiexec: rank 1 \(pid \d+ on .*\) exited with code 7\n$")

    def test_signal(self):
        status, _, errors = run("-n", 3, *shell("test $PMI_RANK = 2 && kill -SEGV $$; sleep 30"))
        self.assertEqual(status, 128 + 11)
        self.assertRegex(errors, r"^mpiexec: rank 2 \(pid \d+ on .*\) was killed by signal 11 \(Segmentation fault")

    def test_message_follows_the_output(self):
        errors = run("-n", 2, *shell("echo last words >&2; exit 1"))[2]
        self.assertGreater(errors.index("mpiexec:"), errors.rindex("last words"))

    def test_programs_without_mpi(self):
        self.assertEqual(run("-n", 4, "true"), (0, "", ""))

    def test_abort(self):
        status, _, errors = run("-n", 3, PEER, "abort", 5)
        self.assertEqual(status, 5)
        self.assertRegex(
            errors, r"mpiexec: rank 2 \(pid \d+ on .*\) aborted the job with code 5: first line\nand a % sign"
        )
        self.assertEqual(run("-n", 2, PEER, "abort", 256)[0], 1)  # never success

    def test_exit_without_finalize(self):
        status, _, errors = run("-n", 3, PEER, "quit")
        self.assertEqual(status, 1)
        self.assertIn("rank 2", errors)
        self.assertIn("MPI_Finalize", errors)

    def test_failure_after_finalize_lets_the_others_end(self):
        status, output, errors = run("-n", 3, PEER, "late", 6)
        self.assertEqual((status, output), (6, "others go on\n" * 2))
        self.assertIn("exited with code 6", errors)

    def test_rank_without_mpi_among_others(self):
        status, _, errors = run("-n", 1, "true", ":", "-n", 2, PEER, "exchange", timeout=10)
        self.assertEqual(status, 1)
        self.assertIn("rank 0, which has exited without calling MPI_Init", errors)

    def test_timeout(self):
        begin = time.monotonic()
        status, _, errors = run("--timeout", 0.5, "-n", 2, "sleep", 30)
        self.assertEqual(status, 124)
        self.assertIn("0.5 s (--timeout)", errors)
        self.assertLess(time.monotonic() - begin, 3)


class Binding(unittest.TestCase):
    def cpus(self, *arguments):
        status, output, errors = run(*arguments, *shell("grep Cpus_allowed_list /proc/self/status"))
        self.assertEqual(status, 0, errors)
        return sorted(line.split()[1] for line in output.splitlines())

    def test_none(self):
        with open("/proc/self/status", encoding="utf-8") as file:
            mine = re.search(r"Cpus_allowed_list:\s*(\S+)", file.read()).group(1)
        self.assertEqual(self.cpus("--bind-to", "none", "-n", 2), [mine] * 2)
        self.assertEqual(self.cpus("-n", 2 * CORES + 1), [mine] * (2 * CORES + 1))  # more ranks than cores
        self.assertEqual(self.cpus("-n", 1), [mine])

    @unittest.skipIf(CORES < 2, "one core")
    def test_core(self):
        self.assertEqual(len(set(self.cpus("--bind-to", "core", "-n", 2))), 2)
        self.assertEqual(len(set(self.cpus("-n", 2))), 2)

    def test_report(self):
        errors = run("--report-bindings", "-n", 1, "true")[2]
        self.assertRegex(errors, r"^mpiexec: rank 0: \d+ cores?, cpus \d")


class Library(unittest.TestCase):
    def test_own_library_comes_first(self):
        folder = os.path.join(os.path.dirname(os.path.dirname(os.path.realpath(MPIEXEC))), "lib")
        if not os.path.exists(os.path.join(folder, "libmpi_abi.so.1")):
            self.skipTest("mpiexec is not in a prefix")
        own = [folder, folder + "/compat"]  # the second: libraries with the names of other MPIs
        for given in ("", "/x"):
            path = run(*shell("echo $LD_LIBRARY_PATH"), variables={"LD_LIBRARY_PATH": given})[1].strip().split(":")
            # The last ones stand in for libraries that this machine lacks.
            last = path[len(own) + bool(given) :]
            self.assertEqual(path[: len(path) - len(last)], own + [given] * bool(given))
            self.assertEqual([name for name in last if not name.startswith(folder + "/compat/cxx/")], [])
        self.assertEqual(run(*shell("echo $LD_PRELOAD"))[1], "\n")


if __name__ == "__main__":
    unittest.main(verbosity=2)
