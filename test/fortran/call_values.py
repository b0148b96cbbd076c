# SPDX-License-Identifier: BSD-3-Clause
# Values of arguments in test/fortran/calls.py: the same on both sides, different for each argument of a call.
import kinds

COUNT = 3  # elements of arrays whose length is an argument
HANDLE, RESULT = 5000, 6000  # numbers of handles given and returned
TEXT, ANSWER = "given %d", "answer %d"


def is_length(routine, argument):
    """True if another argument has as many elements as this one says."""
    names = set()
    for other in routine.arguments:
        length = other.raw["length"]
        names |= set(length) if isinstance(length, list) else {length}
        if other.kind in kinds.HANDLE_KINDS and length is not None:
            names |= {"count", "incount", "outcount"}
    return argument.name in names


def integer(routine, index, *, answer=False):
    """The value of an integer argument."""
    argument = routine.arguments[index]
    if is_length(routine, argument):
        return COUNT
    wide = argument.parameter.base_type(routine.large) != "int"
    return (9_000_000_000 if wide else 0) + 100 + 10 * index + (1000 if answer else 0)


def is_array(argument):
    return argument.raw["length"] is not None and argument.kind not in ("STRING", "BUFFER")


def elements(argument):
    return 3 * COUNT if isinstance(argument.raw["length"], list) else COUNT


def reads(argument):
    return argument.raw["param_direction"] in ("in", "inout")


def writes(argument):
    return argument.raw["param_direction"] in ("out", "inout")
