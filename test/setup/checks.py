#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
# Tests of the checks of the tree: each check must find the single fault in a small tree.
import os
import subprocess
import sys
import tempfile
import unittest

TOOLS = os.path.normpath(os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "tools"))
TABLE = "weft_layer(base)\nweft_layer(device DEPENDS base)\nweft_layer(core DEPENDS device)\n"
sys.path.insert(0, TOOLS)
import check_state

LICENCE = "// SPDX-License-Identifier: BSD-3-Clause\n"


class Checks(unittest.TestCase):
    def run_check(self, tool, files, options=(), **variables):
        """Runs a check on a tree made from {path: text}, which is no repository; returns (status, output)."""
        with tempfile.TemporaryDirectory() as root:
            for path, text in {"CMakeLists.txt": "#" + LICENCE + TABLE, **files}.items():
                path = os.path.join(root, path)
                os.makedirs(os.path.dirname(path), exist_ok=True)
                with open(path, "w", encoding="utf-8") as file:
                    file.write(text)
            command = [sys.executable, os.path.join(TOOLS, tool), "--root", root, *options]
            environment = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
            environment.update(variables)
            done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=False, env=environment)
            return done.returncode, done.stdout

    def test_layers(self):
        def check(**files):
            return self.run_check(
                "check_layers.py", {"src/" + k.replace("__", "/") + ".hpp": v for k, v in files.items()}
            )

        self.assertEqual(check(core__a='#include "base/b.hpp"\n', base__b="")[0], 0)
        status, text = check(base__b='#include "core/a.hpp"\n')
        self.assertEqual(status, 1)
        self.assertIn("src/base may not include core/a.hpp", text)
        self.assertEqual(check(device__x="#include <core/a.hpp>\n")[0], 1)
        self.assertEqual(check(core__a='#include "b.hpp"\n', core__b="")[0], 1)
        self.assertEqual(check(unknown__a="")[0], 1)

    def test_sublayers(self):
        def check(**files):
            files = {"src/core/" + name.replace("__", "/") + ".hpp": text for name, text in files.items()}
            return self.run_check(
                "check_layers.py", {"CMakeLists.txt": TABLE + "weft_sublayers(core low high)\n", **files}
            )[0]

        self.assertEqual(check(high__a='#include "core/low/b.hpp"\n', low__b=""), 0)
        self.assertEqual(check(low__b='#include "core/high/a.hpp"\n', high__a=""), 1)
        self.assertEqual(check(a=""), 1)

    def test_sublayers_of_a_folder(self):
        def check(**files):
            files = {"src/core/" + name.replace("__", "/") + ".hpp": text for name, text in files.items()}
            table = TABLE + "weft_sublayers(core low high)\nweft_sublayers(core/high first second .)\n"
            return self.run_check("check_layers.py", {"CMakeLists.txt": table, **files})[0]

        self.assertEqual(check(high__second__a='#include "core/high/first/b.hpp"\n', high__first__b=""), 0)
        self.assertEqual(check(high__first__a='#include "core/high/second/b.hpp"\n', high__second__b=""), 1)
        self.assertEqual(check(high__a='#include "core/high/second/b.hpp"\n', high__second__b=""), 0)
        self.assertEqual(check(high__second__a='#include "core/high/b.hpp"\n', high__b=""), 1)
        self.assertEqual(check(high__third__a=""), 1)

    def test_class_sizes(self):
        def check(body):
            text = LICENCE + "struct Exempt {\n" + body + "};\n"
            return self.run_check("check_class_sizes.py", {"src/base/a.hpp": text}, options=("--limit", "2"))[0]

        few = "void a();\nint b() const { return f(1); }\n"
        data = "int x = f(3), y{2};\nstd::function<void(int)> z;\nvoid (*hook)(int) = nullptr;\nint w = 1;\n"
        others = "Exempt() = default;\nstruct Inner { void c(); void d(); };\nfriend void e();\nusing F = void(int);\n"
        self.assertEqual(check(few + data + others), 0)
        for third in ("void c(int = f(2));", "Exempt& operator=(const Exempt& other);", "explicit Exempt(int n) : x(n) {}",
                      "template <class F> void c(F&& f) { f({}); }", "private: [[nodiscard]] static int c();"):  # fmt: skip
            with self.subTest(third=third):
                self.assertEqual(check(few + data + others + third + "\n"), 1)

    def test_groups(self):
        table = (
            "weft_layer(low COLD a b DEPENDS base)\nweft_layer(high COLD a GROUP PRECOMPILE a.hpp)\nweft_layer(none)\n"
        )

        def check(**files):
            sources = {"src/" + name.replace("__", "/") + ".cpp": LICENCE + text for name, text in files.items()}
            return self.run_check("check_groups.py", {"CMakeLists.txt": table, **sources})[0]

        def unnamed(text, around="weft::low"):
            return f"namespace {around} {{\nnamespace {{\n\n{text}\n\n}}  // namespace\n}}\n"

        function = "int f(const A& a, std::span<int> b) {\n  return 1;\n}"
        renamed = "Status f(const A& c, std::span<int> d = {}) {\n  return g();\n}"
        for one, other, expected in (
            (function, renamed, 1),
            (function, "int f(A& a, std::span<int> b) {\n  return 1;\n}", 0),  # an overload
            (function, "int B::f(const A& a, std::span<int> b) {\n  return 1;\n}", 0),  # of a class
            ("constexpr int kA = 1;", "constexpr long kA = 2;", 1),
            ("constexpr int kA = 1;", "int g() {\n  constexpr int kA = 2;\n}", 0),
            ('Counter a("x",\n          Unit::events);', 'Size a(\n    "y", 1);', 1),
            ('SlowPath a{"x"};', "std::map<int, A*> a;", 1),
            ("A* a[2];", "A f(B a);", 0),
            ("struct A {\n  int b;\n};", "enum class A { b };", 1),
            ("using A = std::map<int, int>;", "using A = int;", 1),
        ):
            with self.subTest(one=one, other=other):
                self.assertEqual(check(low__a=unnamed(one), low__b=unnamed(other)), expected)
                self.assertEqual(check(low__a=unnamed(one), low__c=unnamed(other)), 0)  # c is compiled alone
                self.assertEqual(check(low__a=unnamed(one), low__b=unnamed(other, "weft::low::b")), 0)
                self.assertEqual(check(high__d__a=unnamed(one), high__e=unnamed(other)), expected)
                self.assertEqual(check(none__a=unnamed(one), none__b=unnamed(other), low__a=""), 0)

    def test_state(self):
        def check(text):
            text = LICENCE + "namespace weft {\n" + text + "\n}\n"
            return self.run_check("check_state.py", {"src/rma/a.cpp": text})[0]

        fine = (
            "constexpr int kA = 1;", "const char* const kNames[] = {0, 1};", "constinit const Table kTable{f, {1, 2}};",
            "counters::Counter puts(\"a\", Unit::events);", "log::SlowPath slow{\"b\"};", "int f(int a = g(1));",
            "Result<std::vector<int>> f(const std::map<int, int>& a);", "struct A { int b; static int f(int c); };",
            "int f() { int a = 1; static const int b = 2; return a + b; }", "extern int a;", "using B = int(int);",
            "Slab<A>& slab() { static auto& all = *new Slab<A>(1); return all; }", "template <class T> T f(T a);",
        )  # fmt: skip
        for text in fine:
            with self.subTest(text=text):
                self.assertEqual(check(text), 0)
        for text in ("bool a = false;", "std::atomic<int> a{0};", "namespace { std::map<int, int> a; }", "A* a;",
                     "const char* a = nullptr;", "A& of() { static A* const a = new A(1); return *a; }",
                     "int f() { static int a = 0; return ++a; }", "struct A { static inline int b = 0; };",
                     "thread_local A a;", "A& of() { static auto& a = *new A; return a; }"):  # fmt: skip
            with self.subTest(text=text):
                self.assertEqual(check(text), 1)
        outside = {"src/base/b.cpp": LICENCE + "int a;\n", "src/rma/a.cpp": LICENCE}
        self.assertEqual(self.run_check("check_state.py", outside)[0], 0)
        for allowed, complaints in ((0, 2), (1, 2), (2, 0), (3, 1)):
            with self.subTest(allowed=allowed), tempfile.TemporaryDirectory() as root:
                os.mkdir(os.path.join(root, "src"))
                with open(os.path.join(root, "src", "a.cpp"), "w", encoding="utf-8") as file:
                    file.write("int a, b;\nint c;\n")
                self.assertEqual(len(check_state.check(root, {"src/a.cpp": allowed})[0]), complaints)

    def test_files_of_a_layer_itself(self):
        def check(order, **files):
            files = {"src/core/" + name.replace("__", "/") + ".hpp": text for name, text in files.items()}
            table = TABLE + f"weft_sublayers(core {order})\n"
            return self.run_check("check_layers.py", {"CMakeLists.txt": table, **files})[0]

        self.assertEqual(check("low . high", a='#include "core/low/b.hpp"\n', low__b=""), 0)
        self.assertEqual(check("low . high", a="", high__b='#include "core/a.hpp"\n'), 0)
        self.assertEqual(check("low . high", a='#include "core/high/b.hpp"\n', high__b=""), 1)
        self.assertEqual(check("low . high", a="", low__b='#include "core/a.hpp"\n'), 1)

    def test_python_imports(self):
        def check(**files):
            files = {
                "cli/weft_mpi/"
                + name.replace("__init__", "@").replace("__", "/").replace("@", "__init__")
                + ".py": text
                for name, text in files.items()
            }
            return self.run_check("check_layers.py", {"src/base/a.hpp": "", **files})

        self.assertEqual(check(a="from weft_mpi import b\n", b="import os\n")[0], 0)
        self.assertEqual(check(a="from weft_mpi.b import f\n", b="def f():\n    import weft_mpi.a\n")[0], 1)
        status, text = check(
            a="from weft_mpi.p import b\n", p__b="from weft_mpi.p import c\n", p__c="import weft_mpi.a\n"
        )
        self.assertEqual(status, 1)
        self.assertIn("cli/weft_mpi: imports form a cycle: a -> p -> a", text)
        self.assertEqual(check(p____init__="import weft_mpi.p.b\n", p__b="import weft_mpi.p\n")[0], 1)
        self.assertEqual(check(p__b="from weft_mpi.p import c\n", p__c="from weft_mpi.p.b import f\n")[0], 1)

    def test_sources(self):
        def check(path, text):
            return self.run_check("check_sources.py", {path: text})[0]

        self.assertEqual(check("src/base/a.cpp", LICENCE), 0)
        self.assertEqual(check("src/base/a.cpp", "int a;\n"), 1)
        self.assertEqual(check("src/base/a.cpp", LICENCE + "\n" * 450), 1)
        self.assertEqual(check("src/device/a.cuh", LICENCE + "#ifdef __CUDA_ARCH__\n#endif\n"), 0)
        self.assertEqual(check("src/device/a.cuh", LICENCE + "#if __CUDA_ARCH__ >= 800\n#endif\n"), 1)
        self.assertEqual(check("docs/a.md", "see `src/base/gone.cpp`\n"), 1)
        module, package = {"cli/a.py": "# " + LICENCE}, {"cli/a/__init__.py": "# " + LICENCE}
        for files, expected in ((module, 0), (package, 0), ({**module, **package}, 1)):
            with self.subTest(files=list(files)):
                self.assertEqual(self.run_check("check_sources.py", files)[0], expected)
        self.assertEqual(check("docs/a.md", "see `CMakeLists.txt` and `docs/a.md`\n"), 0)

    def test_words(self):
        def check(path, text):
            return self.run_check("check_words.py", {path: text})[0]

        self.assertEqual(check("src/base/a.cpp", LICENCE + "// Returns the number of peers.\nint peers();\n"), 0)
        for text in ("int wake_copier();", "struct LoadGranule {};", "// The engine says which rank waits.",
                     "// Where ranks push.", "// Sent by the one that waits.", "// In vain.", '"this copy is quicker"',
                     "// The next free entry of the table for a peer of another host."):  # fmt: skip
            with self.subTest(text=text):
                self.assertEqual(check("src/base/a.cpp", LICENCE + text + "\n"), 1)
        self.assertEqual(check("docs/a.md", "The copier runs.\n"), 1)
        for text in ("class KeptMappings;", "bool is_present();", "enum class CopyWay {};", "// It has done nothing."):
            with self.subTest(text=text):
                self.assertEqual(check("src/base/a.cpp", LICENCE + text + "\n"), 1)

    def test_sentences_of_pages(self):
        def check(text, path="docs/a.md"):
            return self.run_check("check_words.py", {path: text})[0]

        self.assertEqual(check("# What works\n\nWhat works? All of it.\n\n```text\nWhat works stays.\n```\n"), 0)
        self.assertEqual(check("What works stays.\n", "docs/adr/a.md"), 0)
        for text in ("What works stays.\n", "It ends. Those of b\ncontinue.\n", "- a\n- What works stays.\n",
                     "| a | What the bytes of a message are for. |\n"):  # fmt: skip
            with self.subTest(text=text):
                self.assertEqual(check(text), 1)

    def test_words_of_a_tree_without_git(self):
        files = {"docs/a.md": "The kernel runs.\n", "build/tools/b.md": "The copier runs.\n"}
        for path in (os.environ["PATH"], "/nowhere"):
            with self.subTest(PATH=path):
                self.assertEqual(self.run_check("check_words.py", files, PATH=path)[0], 0)

    def test_exports(self):
        def check(code, *options):
            with tempfile.TemporaryDirectory() as folder:
                source, library = os.path.join(folder, "a.c"), os.path.join(folder, "libmpi_abi.so.1")
                header = os.path.join(folder, "mpi.h")
                for path, text in ((source, code), (header, "int MPI_Init(int *argc, char ***argv);\n")):
                    with open(path, "w", encoding="utf-8") as file:
                        file.write(text)
                command = ["cc", "-shared", "-fPIC", source, "-o", library, "-Wl,-soname,libmpi_abi.so.1", *options]
                subprocess.run(command, check=True)
                command = [sys.executable, os.path.join(TOOLS, "check_exports.py"), library, header]
                done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=False)
                return done.returncode

        good = "int PMPI_Init() { return 0; } int MPI_Init() { return 0; }"
        self.assertEqual(check(good), 0)
        self.assertEqual(check("int MPI_Init() { return 0; }"), 1)
        self.assertEqual(check(good + "int stray;"), 1)
        self.assertEqual(check(good, "-Wl,-Bsymbolic"), 1)
        self.assertEqual(check(good, "-Wl,--no-as-needed", "-lstdc++"), 1)
        self.assertEqual(check(good, "-Wl,-soname,libother.so"), 1)


if __name__ == "__main__":
    unittest.main()
