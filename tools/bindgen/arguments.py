# SPDX-License-Identifier: BSD-3-Clause
"""Code for each argument of an entry point: resolve, check, widen, pass, narrow."""

import kinds
import operands
import significance

OBJECTS = {
    "COMMUNICATOR": ("core::Communicator", "to_communicator", "communicator"),
    "DATATYPE": ("datatype::Datatype", "to_datatype", "datatype"),
    "OPERATION": ("core::Op", "to_op", "op"),
    "GROUP": ("core::Group", "to_group", "group"),
    "INFO": ("core::Info", "to_info", "info"),
    "ERRHANDLER": ("core::Errhandler", "to_errhandler", "errhandler"),
    "REQUEST": ("core::Request", "to_request", "request"),
    "SESSION": ("core::Session", "to_session", "session"),
    "WINDOW": ("rma::Window", "to_window", "window"),
    "FILE": ("io::File", "to_file", "file"),
}
# Objects other than communicators whose error handlers get the errors of calls.
OWNERS = ("SESSION", "WINDOW", "FILE")
# Value of an output handle after a failed call.
NULL_HANDLES = {
    "COMMUNICATOR": "MPI_COMM_NULL",
    "DATATYPE": "MPI_DATATYPE_NULL",
    "OPERATION": "MPI_OP_NULL",
    "GROUP": "MPI_GROUP_NULL",
    "INFO": "MPI_INFO_NULL",
    "ERRHANDLER": "MPI_ERRHANDLER_NULL",
    "WINDOW": "MPI_WIN_NULL",
    "FILE": "MPI_FILE_NULL",
}
# Handle that replaces an argument that is not significant in this process.
SUBSTITUTES = {"DATATYPE": "MPI_BYTE", "OPERATION": "MPI_NO_OP", "COMMUNICATOR": "local_comm", "INFO": "MPI_INFO_NULL"}


def _by_object(parameter):
    """True if the implementation gets a resolved object."""
    return (
        parameter.kind in OBJECTS
        and not parameter.raw_handle
        and parameter.kind != "REQUEST"
        and parameter.direction == "in"
        and not parameter.is_array
        and not parameter.levels()
    )


def passed_type(function, parameter):
    """C++ type of the implementation's parameter."""
    kind = parameter.kind
    if _by_object(parameter):
        return OBJECTS[kind][0] + ("*" if kind == "INFO" else "&")
    if kind == "DATATYPE" and parameter.is_array and parameter.direction == "in":
        return "DatatypeArray"
    if kind == "POLYFUNCTION":
        return "UserFunction"
    if parameter.poly and parameter.is_array:
        return "CountArray"
    if parameter.poly:
        return "MPI_Count*" if parameter.is_out else "MPI_Count"
    return parameter.pointer_type(False)


class Plan:
    """The statements of one entry point's body."""

    def __init__(self, api, function, large):
        self.api, self.function, self.large = api, function, large
        self.objects, self.checks, self.locals, self.passed, self.results = [], [], [], [], []
        self.table, definitions = significance.conditions(function)
        self.has_error_owner = False
        self.committed = function.find("BUFFER") is not None
        self.any_source_allowed = self._has_wildcards()
        parameters = function.parameters
        first = [
            p for p in parameters if p.kind == "COMMUNICATOR" or (p.kind in ("WINDOW", "FILE") and p.direction != "out")
        ]
        for parameter in first + [p for p in parameters if p not in first]:
            self._resolve(parameter)
            if parameter is (first[0] if first else None):
                self.objects += [f"const bool {name} = {text};" for name, text in definitions]
        for parameter in parameters:
            if large or not parameter.large_only:
                self._check(parameter)
        self.checks += operands.checks(function, self.table)
        for parameter in parameters:
            if parameter.kind != "VARARGS":
                self.passed.append(self._pass(parameter))
        if function.passes_large:
            self.passed.append("true" if large else "false")
        self.null_outputs = [
            f"*{p.name} = {NULL_HANDLES[p.kind]};"
            for p in parameters
            if p.kind in NULL_HANDLES and p.direction == "out" and not p.is_array and p.levels() == 1
        ]

    def _full_name(self, parameter):
        return f"{self.function.mpi_name}.{parameter.raw['name']}"

    def _listed(self, key, parameter):
        return self._full_name(parameter) in self.api.overlay[key]

    def _has_wildcards(self):
        source = next((p for p in self.function.parameters if p.name == "source" and p.kind == "RANK"), None)
        return source is not None and self.function.mpi_name not in self.api.overlay["no_wildcard"]

    def _condition(self, parameter):
        name = self.table.get(parameter.name)
        return f"{name} && " if name else ""

    def _refuse(self, test, error):
        self.checks.append(f"if ({test}) [[unlikely]] return entry.fail({error});")

    def _resolve(self, parameter):
        if parameter.kind not in OBJECTS or parameter.is_array or parameter.raw_handle:
            return
        if parameter.direction != "out" and parameter.levels() == 1:
            self._resolve_inout(parameter)
        elif _by_object(parameter):
            self._resolve_in(parameter)
        elif parameter.kind == "REQUEST" and parameter.direction == "in":
            self.objects.append(
                f"if ({parameter.name} != MPI_REQUEST_NULL && to_request({parameter.name}) == nullptr) [[unlikely]]\n"
                f'    return entry.fail(bad_handle(HandleKind::request, "{parameter.name}", {parameter.name}));'
            )

    def _object(self, parameter):
        first_communicator = parameter.kind == "COMMUNICATOR" and not self.has_error_owner
        return "comm_object" if first_communicator else f"{parameter.name}_object"

    def _resolve_in(self, parameter):
        c_type, convert, kind = OBJECTS[parameter.kind]
        name = parameter.name
        variable = self._object(parameter)
        parameter.variable = variable
        condition = self.table.get(name)
        value = f"{convert}({name})"
        if condition:
            value = f"{convert}({condition} ? {name} : {SUBSTITUTES[parameter.kind]})"
        test = f"{variable} == nullptr"
        if parameter.kind == "INFO" and self.function.mpi_name not in self.api.overlay["info_needed"]:
            test += f" && {condition} && {name} != MPI_INFO_NULL" if condition else f" && {name} != MPI_INFO_NULL"
        if self._listed("named_null", parameter):
            text, length = self.function.parameters[1].name, self.function.parameters[2].name
            null = self.api.overlay["named_null"][self._full_name(parameter)]
            self.objects.append(f'if ({name} == {null}) return entry.finish(null_name("{null}", {text}, {length}));')
        self.objects.append(f"{c_type}* {variable} = {value};")
        if self.function.mpi_name in self.api.overlay["any_communicator"]:
            self.objects.append(f"if ({variable} == nullptr) {variable} = g_instance->world.get();")
        self.objects.append(
            f'if ({test}) [[unlikely]] return entry.fail(bad_handle(HandleKind::{kind}, "{name}", {name}));'
        )
        self._set_error_owner(parameter, variable)

    def _set_error_owner(self, parameter, variable):
        if parameter.kind == "COMMUNICATOR" and not self.has_error_owner:
            self.has_error_owner = True
            if self.function.find("FILE") is None:  # errors of MPI_File_open belong to MPI_FILE_NULL
                self.objects.append(f"entry.set_error_owner(*{variable});")
        elif parameter.kind in OWNERS or (parameter.kind == "ERRHANDLER" and self._creates_error_owner()):
            self.objects.append(f"entry.set_error_owner(*{variable});")

    def _creates_error_owner(self):
        """True if the error handler argument becomes that of the new session or communicator."""
        return any(p.kind in ("SESSION", "COMMUNICATOR") and p.direction == "out" for p in self.function.parameters)

    def _resolve_inout(self, parameter):
        c_type, convert, kind = OBJECTS[parameter.kind]
        name = parameter.name
        self.objects.append(f'if ({name} == nullptr) [[unlikely]] return entry.fail(null_pointer("{name}"));')
        null_ok = parameter.kind == "REQUEST" and self.function.mpi_name not in self.api.overlay["request_needed"]
        null = f"*{name} != MPI_REQUEST_NULL && " if null_ok else ""
        owner = parameter.kind in ("COMMUNICATOR", "WINDOW", "FILE")
        if owner:
            variable = parameter.variable = self._object(parameter)
            self.objects.append(f"{c_type}* {variable} = {convert}(*{name});")
            value = variable
        else:
            value = f"{convert}(*{name})"
        self.objects.append(
            f"if ({null}{value} == nullptr) [[unlikely]]\n"
            f'    return entry.fail(bad_handle(HandleKind::{kind}, "{name}", *{name}));'
        )
        if owner:
            self._set_error_owner(parameter, variable)

    def _check(self, parameter):
        if parameter.is_array:
            self._check_array(parameter)
        elif parameter.is_out and parameter.levels():
            self._check_pointer(parameter)
        elif parameter.kind in kinds.FUNCTION_KINDS or parameter.kind in ("STRING", "STATUS", "LOGICAL_VOID"):
            self._check_pointer(parameter)
        elif parameter.kind in kinds.NOT_NEGATIVE:
            self._check_count(parameter)
        elif parameter.kind in ("RANK", "RANK_NNI") and not parameter.levels():
            self._check_rank(parameter)
        elif parameter.kind == "TAG" and self.has_error_owner:
            wildcard = self.any_source_allowed and parameter.name != "sendtag"
            extra = f" && {parameter.name} != MPI_ANY_TAG" if wildcard else ""
            flag = "true" if wildcard else "false"
            self._refuse(
                f"!is_valid_tag({parameter.name}){extra}", f'bad_tag("{parameter.name}", {parameter.name}, {flag})'
            )
        elif parameter.kind == "DATATYPE" and self.committed and _by_object(parameter):
            variable = parameter.variable
            self._refuse(f"!{variable}->committed()", f'uncommitted("{parameter.name}", *{variable})')

    def _check_pointer(self, parameter):
        """Outputs, strings and functions must not be null."""
        kind = parameter.kind
        if self._listed("may_be_null", parameter) or kind in ("BUFFER", "VARARGS", "WEIGHT", "EXTRA_STATE"):
            return
        if kind == "STATUS" and parameter.direction == "out":
            return  # MPI_STATUS_IGNORE
        if parameter.direction == "inout" and kind in OBJECTS:
            return  # checked with the handle
        name = parameter.name
        self._refuse(f"{self._condition(parameter)}{name} == nullptr", f'null_pointer("{name}")')

    def _errc(self, parameter):
        return "Errc::count" if "count" in parameter.name else "Errc::arg"

    def _check_count(self, parameter):
        name = parameter.name
        self._refuse(f"{self._condition(parameter)}{name} < 0", f'negative({self._errc(parameter)}, "{name}", {name})')

    def _check_rank(self, parameter):
        if not self.has_error_owner:
            return  # rank in a group, window or file: the implementation checks it
        name = parameter.name
        if name == "root":
            self._refuse(f"!is_valid_root(*comm_object, {name})", f'bad_root("{name}", {name}, *comm_object)')
        elif name in ("dest", "source"):
            wildcard = name == "source" and self.any_source_allowed
            extra = f" && {name} != MPI_ANY_SOURCE" if wildcard else ""
            flag = "true" if wildcard else "false"
            self._refuse(
                f"!is_valid_rank({name}, comm_object->remote_size()) && {name} != MPI_PROC_NULL{extra}",
                f'bad_rank("{name}", {name}, comm_object->remote_size(), {flag})',
            )
        elif name in ("rank", "local_leader"):
            self._refuse(
                f"!is_valid_rank({name}, comm_object->size())", f'bad_group_rank("{name}", {name}, comm_object->size())'
            )

    def _check_array(self, parameter):
        name, kind = parameter.name, parameter.kind
        length = significance.array_length(self.function, parameter)
        if length is None or kind in ("WEIGHT", "STATUS", "ARGUMENT_LIST") or self._listed("may_be_null", parameter):
            return
        condition = self._condition(parameter)
        count = length if length.startswith("static_cast") else f"static_cast<size_t>({length})"
        some = "" if length.startswith("static_cast") else f" && {length} > 0"
        null = f"CountArray({name}).empty()" if parameter.poly else f"{name} == nullptr"
        self._refuse(f"{condition}{null}{some}", f'null_pointer("{name}")')
        if kind == "DATATYPE" and parameter.direction == "in":
            flag = "true" if self.committed else "false"
            self._scan(
                parameter,
                condition,
                count,
                f"find_bad_datatype({name}, {count}, {flag})",
                f'bad_datatype_at("{name}", bad, {name}[bad])',
            )
        elif kind in ("POLYXFER_NUM_ELEM_NNI", "POLYDTYPE_NUM_ELEM_NNI"):
            self._scan(
                parameter,
                condition,
                count,
                f"find_negative(CountArray({name}), {count})",
                f'negative_at({self._errc(parameter)}, "{name}", bad, CountArray({name})[bad])',
            )

    def _scan(self, parameter, condition, count, search, error):
        guard = condition[: -len(" && ")] if condition else ""
        length = significance.array_length(self.function, parameter)
        if not guard and not length.startswith("static_cast"):
            guard = f"{length} > 0"
        line = f"const size_t bad = {search}; bad < {count}"
        inner = f"if ({line}) [[unlikely]] return entry.fail({error});"
        self.checks.append(f"if ({guard}) {{\n      {inner}\n    }}" if guard else inner)

    def _pass(self, parameter):
        name, kind, large = parameter.name, parameter.kind, self.large
        if parameter.large_only and not large:
            return self._placeholder(parameter)
        if _by_object(parameter):
            return parameter.variable if kind == "INFO" else f"*{parameter.variable}"
        condition = self.table.get(name)
        if kind == "DATATYPE" and parameter.is_array and parameter.direction == "in":
            return f"{condition} ? DatatypeArray({name}) : DatatypeArray()" if condition else f"DatatypeArray({name})"
        if kind == "POLYFUNCTION":
            return f"UserFunction{{reinterpret_cast<void (*)()>({name}), {'true' if large else 'false'}}}"
        if parameter.poly and parameter.is_array:
            return f"{condition} ? CountArray({name}) : CountArray()" if condition else f"CountArray({name})"
        if parameter.poly and parameter.is_out and parameter.base_type(large) == "int":
            return self._narrowed(parameter)
        if parameter.poly and condition:
            return f"{condition} ? {name} : 0"
        return name

    def _placeholder(self, parameter):
        """Value for a parameter that only the large-count variant has."""
        if parameter.is_array:
            return "nullptr"
        if not parameter.is_out:
            return "0"
        self.locals.append(f"MPI_Count {parameter.name} = 0;")
        return f"&{parameter.name}"

    def _narrowed(self, parameter):
        name = parameter.name
        start = f"*{name}" if parameter.direction == "inout" else "0"
        self.locals.append(f"MPI_Count {name}_wide = {start};")
        if self._listed("too_large", parameter):
            self.results.append(f'if (!fits_int({name}_wide)) return entry.fail(too_large("{name}", {name}_wide));')
            self.results.append(f"*{name} = static_cast<int>({name}_wide);")
        else:
            self.results.append(f"*{name} = narrow_or_undefined({name}_wide);")
        return f"&{name}_wide"
