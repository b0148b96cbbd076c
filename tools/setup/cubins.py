#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
# Cubins: compiles a kernel source with NVRTC of CUDA 12 into machine code for several GPU generations and writes the
# code as a C table, for drivers older than CUDA 13. For current drivers `nvcc -fatbin` does the same.
import argparse
import concurrent.futures
import ctypes
import os
import struct
import sys

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


class Compiler:
    """libnvrtc, called through ctypes."""

    def __init__(self, path):
        self.library = ctypes.CDLL(path)
        self.library.nvrtcGetErrorString.restype = ctypes.c_char_p

    def call(self, name, *arguments):
        status = getattr(self.library, name)(*arguments)
        if status != 0:
            raise RuntimeError("%s: %s" % (name, self.library.nvrtcGetErrorString(status).decode()))

    def fetch(self, program, what):
        """Returns a text or binary result of a program."""
        size = ctypes.c_size_t()
        self.call("nvrtcGet%sSize" % what, program, ctypes.byref(size))
        result = ctypes.create_string_buffer(size.value)
        self.call("nvrtcGet" + what, program, result)
        return result.raw

    def cubin(self, source, generation, includes):
        """Returns machine code for sm_<generation>. Raises RuntimeError with the compiler's messages."""
        with open(source, "rb") as file:
            text = file.read()
        names, contents = [name.encode() for name in STANDARD], [part.encode() for part in STANDARD.values()]
        strings = ctypes.c_char_p * len(names)
        program = ctypes.c_void_p()
        self.call(
            "nvrtcCreateProgram", ctypes.byref(program), text, os.path.basename(source).encode(), len(names),
            strings(*contents), strings(*names),
        )  # fmt: skip
        options = ["-arch=sm_%s" % generation, "-std=c++17", "-default-device", "-device-int128", "-D__extension__="]
        options += ["-I" + folder for folder in includes]
        words = (ctypes.c_char_p * len(options))(*[option.encode() for option in options])
        if self.library.nvrtcCompileProgram(program, len(options), words) != 0:
            raise RuntimeError("sm_%s: %s" % (generation, self.fetch(program, "ProgramLog").decode().strip("\0\n")))
        code = self.fetch(program, "CUBIN")
        self.call("nvrtcDestroyProgram", ctypes.byref(program))
        return code


def compile_one(arguments):
    library, source, generation, includes = arguments
    return Compiler(library).cubin(source, generation, includes)


def write(path, name, generations, cubins):
    """Writes a C file with a table terminated by generation 0; see src/device/cuda/image.cpp."""
    with open(path, "w", encoding="utf-8") as out:
        for generation, code in zip(generations, cubins):
            padded = code + bytes(-len(code) % 8)
            words = struct.unpack("<%dQ" % (len(padded) // 8), padded)
            out.write("static const unsigned long long code_%s[] = {\n" % generation)
            for start in range(0, len(words), 8):
                out.write("".join("0x%xu," % word for word in words[start : start + 8]) + "\n")
            out.write("};\n")
        out.write("const struct { int generation; const void *code; } %s[] = {\n" % name)
        out.write("".join("{%s, code_%s}, " % (generation, generation) for generation in generations))
        out.write("{0, 0}};\n")


def main():
    parser = argparse.ArgumentParser(description="Compiles a kernel source by NVRTC and writes it as a C table.")
    parser.add_argument("--nvrtc", required=True, help="path of libnvrtc.so.12")
    parser.add_argument("--generations", required=True, help="list such as 70,80,90")
    parser.add_argument("-I", dest="includes", action="append", default=[], help="header folder")
    parser.add_argument("source")
    parser.add_argument("name", help="name of the table")
    parser.add_argument("target", help="C file to write")
    arguments = parser.parse_args()
    generations = arguments.generations.split(",")
    jobs = [(arguments.nvrtc, arguments.source, generation, arguments.includes) for generation in generations]
    try:
        with concurrent.futures.ProcessPoolExecutor(max_workers=os.cpu_count()) as pool:
            cubins = list(pool.map(compile_one, jobs))
    except (OSError, RuntimeError) as error:
        sys.exit("%s: error: %s" % (arguments.source, error))
    write(arguments.target, arguments.name, generations, cubins)


if __name__ == "__main__":
    main()
