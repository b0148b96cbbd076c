#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
# Kernels: compiles a kernel source with NVRTC of CUDA 12 into PTX, once, assembles the PTX into machine code for each GPU
# generation with ptxas, and packs both into a fat binary, from which the driver takes what fits (`nvcc -fatbin` without
# nvcc). Most of the time is ptxas's. The PTX is the same for all generations, since no kernel depends on the
# generation (tools/check_sources.py).
import argparse
import ctypes
import os
import re
import subprocess
import sys

OLDEST_GENERATION = "70"  # of the PTX that NVRTC writes: Volta

# The parts of the C++ library that the kernels use; NVRTC has no standard headers.
STANDARD = {
    "cstdint": """
        #pragma once
        #define UINT32_MAX 0xffffffffu
        #define UINT64_MAX 0xffffffffffffffffu
        using int8_t = signed char; using int16_t = short; using int32_t = int; using int64_t = long;
        using uint8_t = unsigned char; using uint16_t = unsigned short; using uint32_t = unsigned;
        using uint64_t = unsigned long; using uintptr_t = unsigned long; using intptr_t = long;
        namespace std {
        using ::int8_t; using ::int16_t; using ::int32_t; using ::int64_t;
        using ::uint8_t; using ::uint16_t; using ::uint32_t; using ::uint64_t; using ::uintptr_t; using ::intptr_t;
        }
        """,
    "cstddef": """
        #pragma once
        namespace std { using size_t = decltype(sizeof(0)); using ptrdiff_t = long; }
        #define offsetof(type, member) \\
            (reinterpret_cast<std::size_t>( \\
                &reinterpret_cast<const volatile char&>(static_cast<type*>(nullptr)->member)))
        """,
    "cstring": "#pragma once\n#include <cstddef>\n",
    "type_traits": """
        #pragma once
        #include <cstdint>
        namespace std {
        template <class T, T v> struct integral_constant { static constexpr T value = v; };
        using true_type = integral_constant<bool, true>; using false_type = integral_constant<bool, false>;
        template <class A, class B> struct is_same : false_type {};
        template <class A> struct is_same<A, A> : true_type {};
        template <class A, class B> inline constexpr bool is_same_v = is_same<A, B>::value;
        template <bool c, class A, class B> struct conditional { using type = A; };
        template <class A, class B> struct conditional<false, A, B> { using type = B; };
        template <bool c, class A, class B> using conditional_t = typename conditional<c, A, B>::type;
        template <bool c, class A = void> struct enable_if {};
        template <class A> struct enable_if<true, A> { using type = A; };
        template <bool c, class A = void> using enable_if_t = typename enable_if<c, A>::type;
        template <class T> inline constexpr bool is_integral_v = T(1) / 2 == T(0);
        template <class T> inline constexpr bool is_floating_point_v = is_same_v<T, float> || is_same_v<T, double>;
        template <class T> inline constexpr bool is_signed_v = T(-1) < T(0);
        template <class T> struct make_unsigned { using type = conditional_t<sizeof(T) == 1, uint8_t,
            conditional_t<sizeof(T) == 2, uint16_t, conditional_t<sizeof(T) == 4, uint32_t, uint64_t>>>; };
        template <class T> using make_unsigned_t = typename make_unsigned<T>::type;
        }
        """,
}


class Library:
    """A library of NVIDIA, called through ctypes."""

    def __init__(self, path, prefix):
        self.library = ctypes.CDLL(path)
        self.prefix = prefix
        self.error_string = getattr(self.library, prefix + "GetErrorString")
        self.error_string.restype = ctypes.c_char_p

    def call(self, name, *arguments):
        """Calls a function. Raises RuntimeError."""
        status = getattr(self.library, self.prefix + name)(*arguments)
        if status != 0:
            raise RuntimeError("%s%s: %s" % (self.prefix, name, self.error_string(status).decode()))


def strings(values):
    """Returns an array of C strings."""
    return (ctypes.c_char_p * len(values))(*[value.encode() for value in values])


def result_of(nvrtc, program, what):
    """Returns a text or binary result of a program."""
    size = ctypes.c_size_t()
    nvrtc.call("Get%sSize" % what, program, ctypes.byref(size))
    result = ctypes.create_string_buffer(size.value)
    nvrtc.call("Get" + what, program, result)
    return result.raw


def compile_ptx(path, source, generation, includes):
    """Returns the PTX of a source for a GPU generation and later ones. Raises RuntimeError with the compiler's messages."""
    nvrtc = Library(path, "nvrtc")
    with open(source, "rb") as file:
        text = file.read()
    program = ctypes.c_void_p()
    nvrtc.call(
        "CreateProgram", ctypes.byref(program), text, os.path.basename(source).encode(), len(STANDARD),
        strings(STANDARD.values()), strings(STANDARD),
    )  # fmt: skip
    options = ["-arch=compute_" + generation, "-std=c++17", "-default-device", "-device-int128", "-D__extension__="]
    options += ["-I" + folder for folder in includes]
    if nvrtc.library.nvrtcCompileProgram(program, len(options), strings(options)) != 0:
        raise RuntimeError(result_of(nvrtc, program, "ProgramLog").decode().strip("\0\n"))
    return result_of(nvrtc, program, "PTX").rstrip(b"\0")


def retarget(ptx, generation):
    """Returns PTX for a GPU generation and later ones."""
    return re.sub(rb"^\.target sm_\d+", b".target sm_" + generation.encode(), ptx, count=1, flags=re.MULTILINE)


def assemble(ptxas, source, generation, target):
    """Writes machine code for a GPU generation, and beside it ptxas's report of the registers and the local memory of each
    function. Raises RuntimeError with ptxas's messages."""
    command = [ptxas, "--verbose", "-arch=sm_" + generation, source, "-o", target]
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
    if done.returncode != 0:
        raise RuntimeError(f"sm_{generation}: {done.stdout.strip()}")
    with open(target + ".resources", "w", encoding="utf-8") as file:
        file.write(f"sm_{generation}\n{done.stdout}")


def pack(path, codes):
    """Returns a fat binary of {architecture: code}. It is not compressed, so that all drivers read it."""
    nvfatbin = Library(path, "nvFatbin")
    handle, size = ctypes.c_void_p(), ctypes.c_size_t()
    options = ["-64", "-cuda", "-host=linux", "-compress=false"]
    nvfatbin.call("Create", ctypes.byref(handle), strings(options), ctypes.c_size_t(len(options)))
    for architecture, code in codes.items():
        kind, generation = architecture.split("_")
        arguments = [handle, code, ctypes.c_size_t(len(code)), generation.encode(), b"kernels"]
        if kind == "sm":
            nvfatbin.call("AddCubin", *arguments)
        else:
            nvfatbin.call("AddPTX", *arguments, b"")
    nvfatbin.call("Size", handle, ctypes.byref(size))
    result = ctypes.create_string_buffer(size.value)
    nvfatbin.call("Get", handle, result)
    nvfatbin.call("Destroy", ctypes.byref(handle))
    return result.raw


def read(path):
    with open(path, "rb") as file:
        return file.read()


def codes_of(ptx, generation, cubins):
    """Returns {architecture: code} of PTX for a generation and of files kernels.sm_80.cubin."""
    codes = {path.split(".")[-2]: read(path) for path in cubins}
    return {**codes, "compute_" + generation: retarget(read(ptx), generation) + b"\0"}


def main():
    parser = argparse.ArgumentParser(description="Compiles a kernel source by NVRTC into a fat binary, in three steps.")
    steps = parser.add_subparsers(dest="step", required=True)
    step = steps.add_parser("compile", help="source to PTX")
    step.add_argument("--nvrtc", required=True, help="path of libnvrtc.so.12")
    step.add_argument("-I", dest="includes", action="append", default=[], help="header folder")
    step.add_argument("source")
    step = steps.add_parser("assemble", help="PTX to machine code")
    step.add_argument("--ptxas", required=True, help="path of ptxas")
    step.add_argument("--for", dest="generation", required=True, help="GPU generation, such as 80")
    step.add_argument("source", help="PTX file")
    step = steps.add_parser("pack", help="PTX and machine code to a fat binary")
    step.add_argument("--nvfatbin", required=True, help="path of libnvfatbin.so.12")
    step.add_argument(
        "--ptx-for", dest="generation", required=True, help="oldest GPU generation of the PTX in the file"
    )
    step.add_argument("source", help="PTX file")
    step.add_argument("cubins", nargs="*", help="machine code, files such as kernels.sm_80.cubin")
    for step in steps.choices.values():
        step.add_argument("target", help="file to write")
    arguments = parser.parse_args()
    try:
        if arguments.step == "assemble":
            return assemble(arguments.ptxas, arguments.source, arguments.generation, arguments.target)
        if arguments.step == "compile":
            result = compile_ptx(arguments.nvrtc, arguments.source, OLDEST_GENERATION, arguments.includes)
        else:
            result = pack(arguments.nvfatbin, codes_of(arguments.source, arguments.generation, arguments.cubins))
    except (OSError, RuntimeError) as error:
        sys.exit("%s: error: %s" % (arguments.source, error))
    with open(arguments.target, "wb") as file:
        file.write(result)


if __name__ == "__main__":
    main()
