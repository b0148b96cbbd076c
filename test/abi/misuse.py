# SPDX-License-Identifier: BSD-3-Clause
"""Calls every implemented function once per argument with only that argument invalid. Expects the error class of the
argument, a message that names the call, and a program that continues. The calls are generated from apis.json.

All other arguments are valid for one process, so another error class means that a check is missing."""

import os
import subprocess
import sys
import tempfile

SOURCE = os.environ["WEFT_SOURCE"]
sys.dont_write_bytecode = True
sys.path.insert(0, os.path.join(SOURCE, "tools", "bindgen"))

import kinds  # noqa: E402
import model  # noqa: E402
import scan  # noqa: E402
import significance  # noqa: E402

# Functions that end the program on an error, or have no invalid arguments. The tool interface has no messages: test/tool.
LEFT_OUT = {"Abort", "Finalize", "Init", "Init_thread", "Pcontrol"}

# Invalid handles by kind: (null, freed, error class). Other kinds and random values are added in wrong().
HANDLES = {
    "COMMUNICATOR": ("MPI_COMM_NULL", "freed_comm", "MPI_ERR_COMM"),
    "DATATYPE": ("MPI_DATATYPE_NULL", "freed_type", "MPI_ERR_TYPE"),
    "OPERATION": ("MPI_OP_NULL", "freed_op", "MPI_ERR_OP"),
    "GROUP": ("MPI_GROUP_NULL", "freed_group", "MPI_ERR_GROUP"),
    "INFO": (None, "freed_info", "MPI_ERR_INFO"),
    "ERRHANDLER": ("MPI_ERRHANDLER_NULL", "freed_errhandler", "MPI_ERR_ERRHANDLER"),
    "REQUEST": (None, "freed_request", "MPI_ERR_REQUEST"),
    "SESSION": ("MPI_SESSION_NULL", None, "MPI_ERR_SESSION"),
    "WINDOW": ("MPI_WIN_NULL", "freed_win", "MPI_ERR_WIN"),
    "FILE": ("MPI_FILE_NULL", "freed_file", "MPI_ERR_FILE"),
}
NULL_ALLOWED = {
    "Comm_get_name.comm",
    "Type_get_name.datatype",
    "Win_get_name.win",
    "File_set_errhandler.file",
    "File_get_errhandler.file",
    "File_call_errhandler.fh",
}  # MPI 5.0 section 7.8
# Conversions accept any value.
TOLERANT = ("_toint", "_fromint")

VALID = {
    "OPERATION": "MPI_SUM",
    "GROUP": "group",
    "INFO": "info",
    "ERRHANDLER": "MPI_ERRORS_RETURN",
    "SESSION": "session",
    "WINDOW": "win",
    "FILE": "file",
    "MESSAGE": "MPI_MESSAGE_NULL",
    "KEYVAL": "MPI_TAG_UB",
    "TAG": "1",
    "ORDER": "MPI_ORDER_C",
    "SPLIT_TYPE": "MPI_COMM_TYPE_SHARED",
    "STRING": '"x"',
    "ERROR_CODE": "MPI_ERR_OTHER",
    "ERROR_CLASS": "MPI_ERR_OTHER",
    "TYPECLASS": "MPI_TYPECLASS_REAL",
    "ASSERT": "0",
    "LOCK_TYPE": "MPI_LOCK_SHARED",
    "RANK": "0",
    "RANK_NNI": "0",
}
# Kinds whose negative values are invalid; several classes if the standard does not specify one.
BELOW_ZERO = {
    "POLYXFER_NUM_ELEM": ("MPI_ERR_COUNT", "MPI_ERR_ARG"),
    "POLYXFER_NUM_ELEM_NNI": ("MPI_ERR_COUNT",),
    "POLYDTYPE_NUM_ELEM_NNI": ("MPI_ERR_COUNT", "MPI_ERR_ARG"),
    "POLYDTYPE_PACK_SIZE": ("MPI_ERR_ARG",),
    "POLYNUM_BYTES_NNI": ("MPI_ERR_ARG", "MPI_ERR_COUNT", "MPI_ERR_BUFFER"),
    "POLYNUM_PARAM_VALUES": ("MPI_ERR_ARG", "MPI_ERR_COUNT"),
    "XFER_NUM_ELEM": ("MPI_ERR_COUNT", "MPI_ERR_ARG"),
    "ARRAY_LENGTH": ("MPI_ERR_ARG", "MPI_ERR_COUNT", "MPI_ERR_DIMS"),
    "ARRAY_LENGTH_NNI": ("MPI_ERR_ARG", "MPI_ERR_COUNT"),
    "ARRAY_LENGTH_PI": ("MPI_ERR_ARG", "MPI_ERR_DIMS"),
    "NUM_DIMS": ("MPI_ERR_DIMS", "MPI_ERR_ARG"),
    "ALLOC_MEM_NUM_BYTES": ("MPI_ERR_ARG",),
    "DEGREE": ("MPI_ERR_ARG",),
    "PARTITION": ("MPI_ERR_ARG", "MPI_ERR_COUNT", "MPI_ERR_REQUEST"),
    "COMM_SIZE": ("MPI_ERR_ARG", "MPI_ERR_DIMS", "MPI_ERR_TOPOLOGY"),
    "COMM_SIZE_PI": ("MPI_ERR_ARG",),
    "KEY_INDEX": ("MPI_ERR_ARG",),
    "KEYVAL": ("MPI_ERR_KEYVAL",),
    "RANK": ("MPI_ERR_RANK", "MPI_ERR_ROOT"),
    "RANK_NNI": ("MPI_ERR_RANK", "MPI_ERR_ARG"),
    "TAG": ("MPI_ERR_TAG",),
    "ORDER": ("MPI_ERR_ARG",),
    "SPLIT_TYPE": ("MPI_ERR_ARG",),
    "TYPECLASS": ("MPI_ERR_ARG",),
    "ERROR_CLASS": ("MPI_ERR_ARG",),
    "ERROR_CODE": ("MPI_ERR_ARG",),
}
# Arguments for which negative values are valid.
MEANINGFUL = {
    "Comm_call_errhandler.errorcode",
    "Win_call_errhandler.errorcode",  # any code may be passed to a handler
    "Session_call_errhandler.errorcode",
    "File_call_errhandler.errorcode",
    "Status_set_error.err",
    "Status_set_source.source",
    "Status_set_tag.tag",
    "Cart_rank.coords",
}
# Counts of elements in a buffer, and functions that compute the size of such elements without a buffer.
COUNTS = ("POLYXFER_NUM_ELEM", "POLYXFER_NUM_ELEM_NNI", "POLYDTYPE_NUM_ELEM_NNI")
SIZES = ("Pack_size", "Pack_external_size", "Status_set_elements")
# Buffers that are not significant in the only process.
UNUSED = ("Exscan.recvbuf", "Iexscan.recvbuf", "Exscan_init.recvbuf")

FRAME = r"""
#include <mpi.h>
#include <weft.h>
#include <limits.h>
#include <stdio.h>
#include <stdint.h>
#include <string.h>
static long long output[4096], zeros[4096];
static int failures, calls;
static MPI_Comm freed_comm, cart, graph, dist;
static MPI_Datatype freed_type, types[16], huge_type, huge_types[16];
static const int ones[16] = {1}, negative[16] = {-5}, largest[16] = {INT_MAX};
static const MPI_Count wide_ones[16] = {1}, wide_negative[16] = {-5}, wide_largest[16] = {(MPI_Count)1 << 62};
static MPI_Op freed_op;
static MPI_Group group, freed_group;
static MPI_Info info, freed_info;
static MPI_Errhandler freed_errhandler;
static MPI_Request freed_request, bad_requests[4];
static MPI_Request null_request = MPI_REQUEST_NULL;
static MPI_Session session;
static MPI_Win win, freed_win;
static MPI_File file, freed_file;
static MPI_Status status;
static MPI_Message message = MPI_MESSAGE_NULL;
static void operation(void* in, void* out, int* n, MPI_Datatype* type) { (void)in; (void)out; (void)n; (void)type; }
static void handler(MPI_Comm* comm, int* code, ...) { (void)comm; (void)code; }

/* `name`: the argument, which the message must name; may be empty. */
static void expect_class(const char* call, const char* name, const char* what, int code, const int* classes) {
  char message_text[1000];
  int length = 0, error_class = MPI_SUCCESS, good = 0;
  ++calls;
  MPI_Error_class(code, &error_class);
  for (; *classes != 0; ++classes) good |= *classes == error_class;
  MPIX_Last_error_message(message_text, sizeof message_text, &length);
  if (good && strncmp(message_text, call, strlen(call)) == 0 && message_text[strlen(call)] == ':' &&
      strstr(message_text, name) != NULL)
    return;
  ++failures;
  printf("%s(%s): class %d; message \"%s\"\n", call, what, error_class, code == 0 ? "(success)" : message_text);
}

static void prepare(void) {
  const int ring[1] = {1}, none[1] = {0};
  MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
  MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN);
  MPI_Type_contiguous_c((MPI_Count)1 << 48, MPI_INT, &huge_type), MPI_Type_commit(&huge_type);
  for (int i = 0; i < 16; ++i) types[i] = MPI_INT, huge_types[i] = huge_type;
  MPI_Comm_group(MPI_COMM_SELF, &group);
  MPI_Info_create(&info), MPI_Info_set(info, "x", "y");
  MPI_Session_init(MPI_INFO_NULL, MPI_ERRORS_RETURN, &session);
  MPI_Cart_create(MPI_COMM_SELF, 1, ring, ring, 0, &cart);
  MPI_Graph_create(MPI_COMM_SELF, 1, none, none, 0, &graph);
  MPI_Dist_graph_create_adjacent(MPI_COMM_SELF, 1, none, MPI_UNWEIGHTED, 1, none, MPI_UNWEIGHTED, MPI_INFO_NULL, 0,
                                 &dist);
  MPI_Win_create(output, sizeof output, 1, MPI_INFO_NULL, MPI_COMM_SELF, &win);
  MPI_Win_set_errhandler(win, MPI_ERRORS_RETURN);
  MPI_Win_lock_all(0, win);
  const int mode = MPI_MODE_RDWR | MPI_MODE_CREATE;
  MPI_File_open(MPI_COMM_SELF, "misuse_file", mode, MPI_INFO_NULL, &file);
  /* Freed objects last: a new object may reuse the handle of a freed object. */
  MPI_Comm copy;
  MPI_Datatype type;
  MPI_Op op;
  MPI_Info other_info;
  MPI_Errhandler errors;
  MPI_Request request;
  MPI_Group other_group;
  MPI_Win other_win;
  MPI_Comm_dup(MPI_COMM_SELF, &copy), freed_comm = copy;
  MPI_Type_contiguous(2, MPI_INT, &type), freed_type = type;
  MPI_Op_create(operation, 1, &op), freed_op = op;
  MPI_Group_incl(group, 1, none, &other_group), freed_group = other_group;
  MPI_Info_create(&other_info), freed_info = other_info;
  MPI_Comm_create_errhandler(handler, &errors), freed_errhandler = errors;
  MPI_Recv_init(output, 1, MPI_INT, 0, 1, MPI_COMM_SELF, &request), freed_request = request;
  MPI_Win_create_dynamic(MPI_INFO_NULL, MPI_COMM_SELF, &other_win), freed_win = other_win;
  MPI_Win_free(&other_win);
  MPI_File other_file;
  MPI_File_open(MPI_COMM_SELF, "misuse_file", mode, MPI_INFO_NULL, &other_file), freed_file = other_file;
  MPI_File_close(&other_file);
  MPI_File_delete("misuse_file", MPI_INFO_NULL);
  MPI_Comm_free(&copy), MPI_Type_free(&type), MPI_Op_free(&op), MPI_Group_free(&other_group);
  MPI_Info_free(&other_info), MPI_Errhandler_free(&errors), MPI_Request_free(&request);
  for (int i = 0; i < 4; ++i) bad_requests[i] = freed_request;
}
"""


def communicator(function):
    """A communicator with the topology that the function needs."""
    name = function.name
    if name.startswith(("Cart", "Neighbor", "Ineighbor")) and name not in ("Cart_create", "Cart_map"):
        return "cart"
    if name.startswith("Graph") and name not in ("Graph_create", "Graph_map"):
        return "graph"
    if name.startswith("Dist_graph_neighbors"):
        return "dist"
    return "MPI_COMM_SELF"


def valid(function, parameter, large):
    """A valid argument for one process, as C text."""
    kind = parameter.kind
    if kind == "STATUS":
        return "&status" if not parameter.is_array else f"({parameter.pointer_type(large)})output"
    if kind == "REQUEST" and parameter.direction == "inout" and parameter.levels():
        return "&null_request"
    if parameter.is_out and parameter.levels() and kind in HANDLES:
        return f"({parameter.base_type(large)}*)output"
    if kind == "DATATYPE":
        return "types" if parameter.is_array else "MPI_INT"
    if kind == "COMMUNICATOR":
        return communicator(function)
    if kind == "REQUEST":
        return f"({parameter.pointer_type(large)})zeros" if parameter.is_array else "MPI_REQUEST_NULL"
    if kind in kinds.FUNCTION_KINDS:
        return f"({parameter.base_type(large)}*)operation"
    if kind == "STRING" and parameter.direction == "in":
        return '"external32"' if parameter.name == "datarep" else VALID[kind]
    if kind == "MESSAGE":
        return "&message"
    if parameter.is_array or parameter.levels() or kind in kinds.POINTER_KINDS:
        return f"({parameter.pointer_type(large)}){'zeros' if parameter.direction == 'in' else 'output'}"
    if kind in VALID:
        return VALID[kind]
    return "1"


def invalid(function, parameter):
    """Invalid values of one argument: [(C text, description, error classes)]."""
    full = f"{function.name}.{parameter.name}"
    kind = parameter.kind
    if full in MEANINGFUL:
        return []
    scalar = not parameter.is_array and not parameter.levels()
    if kind in HANDLES and scalar and parameter.direction == "in":
        null, freed, error = HANDLES[kind]
        if full in NULL_ALLOWED:
            null = None
        found = [(null, null, (error,))] if null else []
        found += [(freed, "freed", (error,))] if freed else []
        c_type = kinds.HANDLE_KINDS[kind]
        other = "MPI_FLOAT" if kind != "DATATYPE" else "MPI_SUM"
        return found + [
            (f"({c_type}){other}", other, (error,)),
            (f"({c_type})(uintptr_t)0xdeadbeef0", "0xdeadbeef0", (error,)),
        ]
    if kind == "REQUEST" and parameter.is_array and parameter.direction != "out":
        return [("bad_requests", "freed", ("MPI_ERR_REQUEST", "MPI_ERR_IN_STATUS"))]
    if kind in BELOW_ZERO and scalar and parameter.direction == "in":
        return [("-7", "-7", BELOW_ZERO[kind])]
    pointer = parameter.levels() or parameter.is_array
    nothing = (
        "BUFFER",
        "VARARGS",
        "WEIGHT",
        "EXTRA_STATE",
        "EXTRA_STATE2",
        "ATTRIBUTE_VAL",
        "ATTRIBUTE_VAL_10",
        "STATUS",
    )
    if not pointer or kind in nothing or f"MPI_{full}" in function.may_be_null:
        return []
    if parameter.is_array and significance.array_length(function, parameter) is None:
        return []
    return [("NULL", "null pointer", ("MPI_ERR_ARG",))]


def invalid_data(function, parameter, large):
    """Invalid values of a count, an array of counts or a buffer: [(C text, description, error classes, {other kind of
    argument: C text})]. The library must refuse them before it touches memory."""
    full = f"{function.name}.{parameter.name}"
    wide = "wide_" if large else ""
    kind = parameter.kind
    if function.find("DATATYPE") is None or (function.find("BUFFER") is None and function.name not in SIZES):
        return []
    if kind in COUNTS and parameter.direction == "in":
        if function.name == "Status_set_elements" and not large:
            return []  # counts basic elements, which fit
        # In a call with int counts, a datatype of 2^50 bytes.
        types = {} if large else {"DATATYPE": "huge_type", "DATATYPE[]": "huge_types"}
        if parameter.is_array:
            return [
                (f"{wide}negative", "-5", ("MPI_ERR_COUNT", "MPI_ERR_ARG"), {}),
                (f"{wide}largest", "the largest", ("MPI_ERR_COUNT",), types),
            ]
        value = "(MPI_Count)1 << 62" if large else "INT_MAX"
        classes = ("MPI_ERR_COUNT",) if function.name not in SIZES else ("MPI_ERR_COUNT", "MPI_ERR_VALUE_TOO_LARGE")
        return [(value, "the largest", classes, types)]
    if kind == "BUFFER" and full not in UNUSED:
        return [("NULL", "null pointer", ("MPI_ERR_BUFFER",), {f"{k}[]": f"{wide}ones" for k in COUNTS})]
    return []


def call(function, large, parameter, text, what, classes, others, named):
    """One call with an invalid argument, as C text. `others`: values of other arguments by kind."""

    def argument(p):
        if p is parameter:
            return text
        return others.get(p.kind + ("[]" if p.is_array else "")) or valid(function, p, large)

    given = ", ".join(argument(p) for p in function.visible(large))
    name = function.c_name(large)
    return (
        f'  expect_class("{name}", "{parameter.name if named else ""}", "{parameter.name} is {what}", '
        f"{name}({given}), (const int[]){{{', '.join(classes)}, 0}});"
    )


def program(api, done):
    lines = [FRAME]
    blocks = []
    for function in api.functions:
        if function.name not in done or function.name in LEFT_OUT or function.tool or not function.returns_error:
            continue
        if function.name.endswith(TOLERANT):
            continue
        function.may_be_null = set(api.overlay["may_be_null"])
        for large in function.widths():
            visible = function.visible(large)
            for parameter in visible:
                for text, what, classes in invalid(function, parameter):
                    blocks.append(call(function, large, parameter, text, what, classes, {}, False))
                for text, what, classes, others in invalid_data(function, parameter, large):
                    named = function.name not in SIZES
                    blocks.append(call(function, large, parameter, text, what, classes, others, named))
    size = 100
    for start in range(0, len(blocks), size):
        lines.append(f"static void part_{start // size}(void) {{")
        lines += blocks[start : start + size]
        lines.append("}")
    lines.append("int main(void) {\n  setvbuf(stdout, NULL, _IONBF, 0);\n  MPI_Init(NULL, NULL);\n  prepare();")
    lines += [f"  part_{n}();" for n in range((len(blocks) + size - 1) // size)]
    lines.append('  printf("%d calls, %d failures\\n", calls, failures);')
    lines.append("  MPI_Session_finalize(&session);\n  MPI_Finalize();\n  return failures != 0;\n}")
    return "\n".join(lines)


def main():
    api = model.Api(os.environ["WEFT_APIS_JSON"], os.path.join(SOURCE, "spec"))
    done = scan.implemented(SOURCE, {f.name for f in api.functions})
    with tempfile.TemporaryDirectory() as folder:
        source, binary = os.path.join(folder, "misuse.c"), os.path.join(folder, "misuse")
        with open(source, "w", encoding="utf-8") as stream:
            stream.write(program(api, done))
        flags = ["-std=gnu11", "-O0", "-w"]
        subprocess.run(["mpicc", *flags, source, "-o", binary], check=True)
        environment = {name: value for name, value in os.environ.items() if not name.startswith("WEFT_")}
        return subprocess.run(["mpiexec", "-n", "1", binary], env=environment, timeout=60, check=False).returncode


if __name__ == "__main__":
    sys.exit(main())
