# SPDX-License-Identifier: BSD-3-Clause
"""Writes the entry points of mpi_f08 whose choice buffers are descriptors, and its large-count routines."""

import re

import fortran
from fortran_entry import Entry, files_of

# Buffers that hold a block for each process, though their count and datatype are those of one block.
SEVERAL_BLOCKS = {
    "gather": ("recvbuf",),
    "allgather": ("recvbuf",),
    "neighbor_allgather": ("recvbuf",),
    "scatter": ("sendbuf",),
    "alltoall": ("sendbuf", "recvbuf"),
    "neighbor_alltoall": ("sendbuf", "recvbuf"),
}
# Only the address matters: the end of a split access, addresses, arguments without data.
ADDRESS_ONLY = {"Get_address", "F_sync_reg", "Free_mem", "Win_detach"}
# Memory that must be simply contiguous (MPI 5.0 section 19.1.12).
CONTIGUOUS = {"Win_create", "Win_attach", "Buffer_attach", "Comm_attach_buffer", "Session_attach_buffer"}
ONE_ITEM = {"Fetch_and_op", "Compare_and_swap"}
OWNERS = {"COMMUNICATOR": "Comm", "WINDOW": "Win", "FILE": "File", "SESSION": "Session"}


class DescriptorEntry(Entry):
    """The function of one routine with descriptors."""

    def __init__(self, routine):
        self.operands = {}  # name of an argument -> its C expression
        self.blocks = {}  # name of a buffer -> how it is passed
        self.plain = routine.name.lower().removeprefix("i").removesuffix("_init")
        self.nonblocking = any(a.kind == "REQUEST" and a.raw["param_direction"] == "out" for a in routine.arguments)
        self._plan(routine)
        super().__init__(routine)
        if self.pending:
            self.before.insert(0, f"PendingCopies copies({self._communicator()});")
            self.results.insert(0, "copies.keep(request_c);")

    def _plan(self, routine):
        arguments = routine.arguments
        several = SEVERAL_BLOCKS.get(self.plain, ())
        reduction = re.search("reduce|scan", self.plain)
        for place, argument in enumerate(arguments):
            if not argument.is_choice:
                continue
            name = argument.name
            after = arguments[place + 1 : place + 3]
            counted = (
                len(after) == 2
                and "NUM_ELEM" in after[0].kind
                and after[0].raw["length"] is None
                and after[1].kind == "DATATYPE"
            )
            if routine.name in ADDRESS_ONLY or routine.name.endswith("_end"):
                self.blocks[name] = "address"
            elif counted and after[1].raw["length"] is None and name not in several and not reduction:
                self.blocks[name] = "block"
                self.operands[after[0].name] = f"{name}_block.count"
                self.operands[after[1].name] = f"{name}_block.type"
            elif routine.name in CONTIGUOUS:
                self.blocks[name] = "contiguous"
            elif routine.name in ONE_ITEM:
                self.blocks[name] = "one item"
            elif not self.nonblocking:
                self.blocks[name] = "staged"
            else:
                kinds = [a for a in arguments[place + 1 :] if a.kind == "DATATYPE"]
                if "partitions" in [a.name for a in arguments]:
                    self.blocks[name] = "partitions"
                elif reduction or kinds[0].raw["length"] is not None:
                    self.blocks[name] = "pending"
                else:
                    self.blocks[name] = "items"
                    self.operands[kinds[0].name] = f"{name}_items.type"
        self.pending = {"pending", "items"} & set(self.blocks.values())

    def _declare(self, argument):
        if argument.is_choice or argument.kind == "STRING":
            self.parameters.append(f"const Descriptor* {argument.name}")
        else:
            super()._declare(argument)

    def _value(self, parameter):
        name = parameter.name
        if parameter.kind == "BUFFER":
            return self._buffer(parameter)
        if name in self.operands:
            return self.operands[name]
        if parameter.kind == "STRING":
            self.before.append(f"const String {name}_c = string_of(*{name});")
            return f"{name}_c.text()"
        return super()._value(parameter)

    def _buffer(self, parameter):
        name, how = parameter.name, self.blocks[parameter.raw["name"]]
        arguments = {a.name: a for a in self.routine.arguments}
        if how == "address":
            return f"choice({name}->base)"
        if how == "contiguous":
            return f"contiguous_only(*{name})"
        if how == "one item":
            return f"one_item(*{name}, *datatype)"
        results = "false" if parameter.direction == "in" else "true"
        if how == "pending":
            return f"copies.address(*{name}, {results})"
        if how == "staged":
            self.before.append(f"Staged {name}_copy(*{name}, {self._communicator()}, {results});")
            if results == "true":
                self.results.append(f"{name}_copy.finish();")
            return f"{name}_copy.address"
        if how == "partitions":
            self.before.append(f"Partitions {name}_parts(*{name}, *partitions, *count, *datatype);")
            self.results.append(f"{name}_parts.keep(&request_c);")
            return f"{name}_parts.address"
        names = {value: key for key, value in self.operands.items()}
        kind = names[f"{name}_{how if how == 'items' else 'block'}.type"]
        if how == "items":
            self.before.append(f"const Items {name}_items(*{name}, *{kind}, copies, {results});")
            return f"{name}_items.address"
        count = arguments[names[f"{name}_block.count"]].parameter
        self.before.append(
            f"const Block<{count.base_type(self.routine.large)}> {name}_block(*{name}, *{count.name}, *{kind});"
        )
        return f"{name}_block.address"

    def _in_place(self, name):
        return f"{name}->base == &mpi_fortran_in_place_"

    def _communicator(self):
        found = next((a for a in self.routine.arguments if a.kind == "COMMUNICATOR"), None)
        return f"in<Comm>(*{found.name})" if found else "MPI_COMM_SELF"

    def text(self):
        routine = self.routine
        owner = next((a for a in routine.arguments if a.kind in OWNERS), None)
        failed = (
            f"fail<{OWNERS[owner.kind]}>(in<{OWNERS[owner.kind]}>(*{owner.name}), ierror)"
            if owner
            else "fail<Comm>(MPI_COMM_SELF, ierror)"
        )
        name = f"{routine.title.lower()}_f08ts"
        lines = [*self.before]
        lines += self.call_lines()
        body = "".join(f"  {line}\n" for line in lines)
        head = f"\nWEFT_FORTRAN_F90(void, {name}, ({', '.join(self.parameters)}))"
        return f"{head} try {{\n{body}}} catch (...) {{\n  {failed};\n}}\n"


class LargeEntry(Entry):
    """The function of a large-count routine without descriptors."""

    macro = "WEFT_FORTRAN_F08"


def files(routines, count):
    """Texts of the source files."""
    selected = [r for r in routines if r.in_f08 and r.name not in fortran.BY_HAND and (r.has_choice or not r.in_f90)]
    entries = [DescriptorEntry(r) if r.has_choice else LargeEntry(r) for r in selected]
    return files_of(entries, count, "fortran/copies.hpp")
