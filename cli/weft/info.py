# SPDX-License-Identifier: BSD-3-Clause
# weft info: what is installed here, as asked from the library and the machine itself.
import ctypes
import json
import os
import subprocess
import sys

from weft import __version__, prefix

MAX_LIBRARY_VERSION = 8192  # MPI_MAX_LIBRARY_VERSION_STRING of the standard ABI


def add_parser(subparsers):
    """Registers the command."""
    parser = subparsers.add_parser("info", help="what is installed here", description=run.__doc__)
    form = parser.add_mutually_exclusive_group()
    form.add_argument("--json", action="store_true", help="as one JSON object")
    form.add_argument("--parsable", action="store_true", help="as key:value lines")
    parser.add_argument("--config", action="store_true", help="every setting: value, default, origin, range")
    return parser


def run(arguments):
    """Prints the version, the prefix, what the library says of itself and whether there is a CUDA driver."""
    try:
        if arguments.config:
            return show_settings(settings(), arguments)
        facts = collect()
    except (prefix.NotInstalled, OSError, ValueError) as error:
        print("weft info: %s" % error, file=sys.stderr)
        return 1
    if arguments.json:
        print(json.dumps(facts, indent=2))
    elif arguments.parsable:
        for key, value in facts.items():
            print("weft:%s:%s" % (key, value))
    else:
        for key, value in facts.items():
            print("%-16s %s" % (key.replace("_", " "), value))
    return 0


def collect():
    """The facts, in the order they are printed."""
    root = prefix.find()
    path = os.path.join(root, "lib", prefix.LIBRARY)
    library = ctypes.CDLL(path)
    return {
        "weft": __version__,
        "prefix": root,
        "library": path,
        "library_says": library_version(library),
        "mpi_standard": mpi_version(library),
        "c_compiler": wrapped_compiler(root, "mpicc"),
        "cxx_compiler": wrapped_compiler(root, "mpicxx"),
        "cuda_driver": cuda_driver(),
    }


def settings():
    """Every setting of the library, one dictionary each. ValueError: a variable in the environment is refused."""
    library = ctypes.CDLL(os.path.join(prefix.find(), "lib", prefix.LIBRARY))
    length = ctypes.c_int()
    library.MPIX_Settings(None, 0, ctypes.byref(length))
    text = ctypes.create_string_buffer(length.value + 1)
    status = library.MPIX_Settings(text, length.value + 1, None)
    if status != 0:
        raise ValueError(text.value.decode())
    names = ("variable", "value", "default", "origin", "range", "help")
    return [dict(zip(names, line.split("\t"))) for line in text.value.decode().splitlines()]


def show_settings(found, arguments):
    """Prints the settings in the form asked for."""
    if arguments.json:
        print(json.dumps(found, indent=2))
        return 0
    for setting in found:
        if arguments.parsable:
            print("weft:config:%(variable)s:value:%(value)s" % setting)
            continue
        print("%(variable)s = %(value)s" % setting + ("" if setting["origin"] == "default" else "   (environment)"))
        print("    %(help)s" % setting)
        print("    %(range)s; default %(default)s" % setting)
    return 0


def library_version(library):
    """What MPI_Get_library_version answers (legal before MPI_Init)."""
    text = ctypes.create_string_buffer(MAX_LIBRARY_VERSION)
    length = ctypes.c_int()
    library.MPI_Get_library_version(text, ctypes.byref(length))
    return text.value.decode().splitlines()[0]


def mpi_version(library):
    """What MPI_Get_version answers, e.g. 5.0."""
    version, subversion = ctypes.c_int(), ctypes.c_int()
    library.MPI_Get_version(ctypes.byref(version), ctypes.byref(subversion))
    return "%d.%d" % (version.value, subversion.value)


def wrapped_compiler(root, wrapper):
    """The compiler that the wrapper starts, or why it starts none."""
    command = [os.path.join(root, "bin", wrapper), "-showme:command"]
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
    return done.stdout.strip()


def cuda_driver():
    """The CUDA version of the driver that the library would open, or why there is none."""
    name = os.environ.get("WEFT_CUDA_DRIVER") or "libcuda.so.1"
    try:
        driver = ctypes.CDLL(name)
    except OSError as error:
        return "none (%s)" % error
    version = ctypes.c_int()
    status = driver.cuDriverGetVersion(ctypes.byref(version))
    if status != 0:
        return "%s, unusable (cuDriverGetVersion: error %d)" % (name, status)
    return "%s, CUDA %d.%d" % (name, version.value // 1000, version.value % 1000 // 10)
