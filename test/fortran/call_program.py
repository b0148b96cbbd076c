# SPDX-License-Identifier: BSD-3-Clause
# The Fortran program of test/fortran/calls.py.
import call_values as values
import fortran
import fortran_f08
import kinds


class Call:
    """The statements of one call."""

    def __init__(self, routine, f08):
        self.routine, self.f08 = routine, f08
        self.declarations, self.before, self.actual, self.after = [], [], [], []
        buffers = 0
        for index, argument in enumerate(routine.arguments):
            if argument.kind == "BUFFER":
                self.actual.append(f"buffer{buffers + 1}")
                buffers += 1
            elif argument.name == "ierror":
                self.declarations.append("integer :: ierror")
                self.before.append("ierror = -1")
                self.actual.append("ierror")
                self._require("ierror == 0", argument)
            else:
                self.actual.append(f"a{index}")
                self._argument(index, argument)

    def _require(self, condition, argument):
        self.after.append(f"call require({condition}, '{argument.name}')")

    def _argument(self, index, argument):
        name = f"a{index}"
        shape = ""
        if values.is_array(argument):
            shape = "(3,8)" if isinstance(argument.raw["length"], list) else "(8)"
        if argument.kind == "STATUS":
            self._status(name, argument)
        elif argument.kind == "STRING":
            self._string(name, index, argument)
        elif argument.kind == "C_BUFFER":
            self.declarations.append(f"{argument.fortran_type(self.routine.large, self.f08)} :: {name}")
            self._require(f"transfer({name}, 0_MPI_ADDRESS_KIND) == {7000 + index}", argument)
        elif argument.kind in kinds.HANDLE_KINDS:
            self.declarations.append(f"{argument.fortran_type(self.routine.large, self.f08)} :: {name}{shape}")
            member = name + "%MPI_VAL" if self.f08 else name
            self._numbers(member, shape, values.HANDLE + 10 * index, values.RESULT + 10 * index, argument, "")
        elif argument.kind in ("LOGICAL", "LOGICAL_VOID"):
            self.declarations.append(f"logical :: {name}{shape}")
            self.before.append(f"{name} = .true." if values.reads(argument) else f"{name} = .false.")
            if shape:
                self.before.append(f"{name}(2) = .not. {name}(1)")
            if values.writes(argument):
                condition = f"{name}(1) .and. .not. {name}(2) .and. {name}(3)" if shape else name
                self._require(condition, argument)
        else:
            declared = argument.fortran_type(self.routine.large, self.f08)
            self.declarations.append(f"{declared} :: {name}{shape}")
            suffix = "_" + declared[len("integer(kind=") : -1] if "kind=" in declared else ""
            given = values.integer(self.routine, index)
            answer = values.integer(self.routine, index, answer=True)
            one_based = f"{self.routine.name}.{argument.name}" in fortran.ONE_BASED
            self._numbers(name, shape, given, answer + (1 if one_based else 0), argument, suffix)

    def _numbers(self, name, shape, given, answer, argument, suffix):
        if values.reads(argument):
            extra = self._ramp(shape)
            self.before.append(f"{name} = {given}{suffix}{extra}")
        else:
            self.before.append(f"{name} = -1")
        if values.writes(argument):
            if shape == "(8)":
                condition = f"all({self._part(name)} == {answer}{suffix} + (/ 0, 1, 2 /))"
            elif shape:
                raise SystemExit("a result of two dimensions")
            else:
                condition = f"{name} == {answer}{suffix}"
            self._require(condition, argument)

    @staticmethod
    def _part(name):
        return name.replace("%", "(1:3)%") if "%" in name else f"{name}(1:3)"

    @staticmethod
    def _ramp(shape):
        if shape == "(3,8)":
            return " + reshape((/ (k, k = 0, 23) /), (/ 3, 8 /))"
        return " + (/ (k, k = 0, 7) /)" if shape else ""

    def _status(self, name, argument):
        array = values.is_array(argument)
        if self.f08:
            self.declarations.append(f"type(MPI_Status) :: {name}{'(8)' if array else ''}")
            members = [f"{name}%MPI_{m}" for m in ("SOURCE", "TAG", "ERROR")]
        else:
            self.declarations.append(f"integer :: {name}(MPI_STATUS_SIZE{',8' if array else ''})")
            members = [f"{name}(MPI_{m}{',:' if array else ''})" for m in ("SOURCE", "TAG", "ERROR")]
        self.before += [f"{member} = {201 + n}" for n, member in enumerate(members)]
        if not values.writes(argument):
            return
        if array:
            parts = [m.replace(",:)", ",3)") if not self.f08 else m.replace("%", "(3)%") for m in members]
            self._require(" .and. ".join(f"{m} == {v}" for m, v in zip(parts, (303, 302, 303))), argument)
        else:
            self._require(" .and. ".join(f"{m} == {v}" for m, v in zip(members, (301, 302, 303))), argument)

    def _string(self, name, index, argument):
        length = self.routine.arguments[index].raw["length"]
        size = length if self.f08 and values.writes(argument) and str(length).startswith("MPI_") else "30"
        self.declarations.append(f"character(len={size}) :: {name}")
        self.before.append(f"{name} = '{values.TEXT % index}'")
        if values.writes(argument):
            self._require(f"{name} == '{values.ANSWER % index}'", argument)

    def text(self, number):
        routine = self.routine
        lines = [f"subroutine call{number}", "integer :: k", *self.declarations]
        arguments = ", ".join(self.actual)
        for prefix in ("", "P"):
            lines += [f"call expect_call('{routine.title}')", *self.before]
            name = prefix + routine.mpi_name + ("_c" if routine.large and not fortran_f08.distinct(routine) else "")
            if routine.result:
                value = "12.5d0" if routine.result == "double" else "9000000007_MPI_ADDRESS_KIND"
                lines.append(f"call require({name}({arguments}) == {value}, 'value')")
            else:
                lines.append(f"call {name}({arguments})" if arguments else f"call {name}()")
            lines += [*self.after, "call end_call()"]
        return "\n".join([*lines, "end subroutine", ""])


# Comm_spawn and Comm_spawn_multiple; %s: their names in the interface, and types of handles.
SPAWN = """
subroutine spawn
character(len=12) :: argv(3), argvs(2,3), commands(2)
%(comm)s :: created
%(info)s :: infos(2)
%(comm)s :: comm
integer :: codes(3), ierror
infos%(value)s = (/ 5001, 5004 /)
comm%(value)s = 5002
argv = (/ 'first       ', ' the second ', '            ' /)
argvs = ' '
argvs(1,1) = 'a'
argvs(1,2) = 'b c'
argvs(2,1) = 'd'
commands = (/ 'program     ', 'another     ' /)
call expect_call('Comm_spawn')
call %(prefix)sMPI_Comm_spawn('program ', argv, 3, infos(1), 4, comm, created, codes, ierror)
call require(created%(value)s == 6003 .and. all(codes == (/ 70, 71, 72 /)) .and. ierror == 0, 'results')
call end_call()
call expect_call('Comm_spawn_multiple')
call %(prefix)sMPI_Comm_spawn_multiple(2, commands, argvs, (/ 3, 2 /), infos, 0, comm, created, MPI_ERRCODES_IGNORE, ierror)
call require(created%(value)s == 6003 .and. ierror == 0, 'results')
call end_call()
end subroutine
"""


def _spawn(f08, prefix):
    types = (
        {"comm": "type(MPI_Comm)", "info": "type(MPI_Info)", "value": "%MPI_VAL"}
        if f08
        else {"comm": "integer", "info": "integer", "value": ""}
    )
    return (SPAWN % dict(types, prefix=prefix)).replace("subroutine spawn", f"subroutine {prefix}spawn")


def program(routines, interface):
    """The source of the program."""
    f08 = interface == "mpi_f08"
    modules = [] if interface == "mpif.h" else [f"use {interface}"]
    lines = ["program calls", *modules, "use, intrinsic :: iso_c_binding, only: c_ptr", "implicit none"]
    lines += ["include 'mpif.h'"] if interface == "mpif.h" else []
    lines += [
        "integer, target, save :: buffer1(8), buffer2(8), buffer3(8), buffer4(8)",
        "call give_buffers(buffer1, buffer2, buffer3, buffer4)",
    ]
    lines += [f"call call{number}()" for number in range(len(routines))]
    lines += [
        "call spawn()",
        "call Pspawn()",
        "call end_calls()",
        "contains",
        _spawn(f08, ""),
        _spawn(f08, "P"),
        *(Call(r, f08).text(number) for number, r in enumerate(routines)),
    ]
    return "\n".join([*lines, "end program", ""])
