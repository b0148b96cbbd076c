// SPDX-License-Identifier: BSD-3-Clause
// Callbacks get the program's own handles, error codes and statuses: user operations, attributes, error
// handlers, generalized requests; user-defined error classes and their strings.
#include "expect.h"

static MPI_Datatype pair;
static int calls;

static void larger(void* in, void* inout, int* count, MPI_Datatype* type) {
  EXPECT(*type == pair);
  const int(*a)[2] = in;
  int(*b)[2] = inout;
  for (int i = 0; i < *count; ++i)
    if (a[i][0] > b[i][0]) memcpy(b[i], a[i], sizeof b[i]);
  ++calls;
}
static void add(void* in, void* inout, int* count, MPI_Datatype* type) {
  EXPECT(*type == MPI_INT);
  for (int i = 0; i < *count; ++i) ((int*)inout)[i] += ((const int*)in)[i];
}

static void operations(void) {
  MPI_Op op, plus;
  int mine[2] = {(rank * 7) % 5, rank}, most[2], sum, commutes;
  MPI_Request request;
  OK(MPI_Type_contiguous(2, MPI_INT, &pair));
  OK(MPI_Type_commit(&pair));
  OK(MPI_Op_create(larger, 1, &op));
  OK(MPI_Op_create(add, 0, &plus));
  EXPECT(op != plus);
  OK(MPI_Op_commutative(plus, &commutes));
  EXPECT(!commutes);
  OK(MPI_Allreduce(mine, most, 1, pair, op, MPI_COMM_WORLD));
  for (int i = 0; i < ranks; ++i) EXPECT(most[0] >= (i * 7) % 5);
  EXPECT(ranks == 1 || calls > 0);
  OK(MPI_Allreduce(&rank, &sum, 1, MPI_INT, plus, MPI_COMM_WORLD));
  EXPECT(sum == ranks * (ranks - 1) / 2);
  OK(MPI_Iallreduce(mine, most, 1, pair, op, MPI_COMM_WORLD, &request));
  OK(MPI_Op_free(&op));  // in use until the request is complete
  OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
  OK(MPI_Op_free(&plus));
  EXPECT(op == MPI_OP_NULL);
  OK(MPI_Type_free(&pair));
}

static MPI_Comm owner;
static int key, copied, deleted;
static char state;

static int copy(MPI_Comm comm, int keyval, void* extra, void* value, void* result, int* flag) {
  EXPECT(comm == owner && keyval == key && extra == &state);
  *(void**)result = (char*)value + 1;
  *flag = 1;
  ++copied;
  return MPI_SUCCESS;
}
static int removal(MPI_Comm comm, int keyval, void* value, void* extra) {
  EXPECT(comm != MPI_COMM_NULL && keyval == key && extra == &state && value != NULL);
  ++deleted;
  return MPI_SUCCESS;
}
static int refuse(MPI_Comm comm, int keyval, void* extra, void* value, void* result, int* flag) {
  (void)comm, (void)keyval, (void)extra, (void)value, (void)result, (void)flag;
  return MPI_ERR_NO_SPACE;
}
static int remove_type(MPI_Datatype type, int keyval, void* value, void* extra) {
  (void)type, (void)keyval, (void)extra;
  ++*(int*)value;
  return MPI_SUCCESS;
}

static void attributes(void) {
  MPI_Comm child;
  MPI_Datatype type, twin;
  int flag, refusing, type_key, count = 0;
  char* value;
  OK(MPI_Comm_dup(MPI_COMM_WORLD, &owner));
  OK(MPI_Comm_create_keyval(copy, removal, &key, &state));
  EXPECT(key != MPI_KEYVAL_INVALID);
  OK(MPI_Comm_set_attr(owner, key, &state));
  OK(MPI_Comm_dup(owner, &child));
  OK(MPI_Comm_get_attr(child, key, &value, &flag));
  EXPECT(flag && value == &state + 1 && copied == 1);
  OK(MPI_Comm_free(&child));
  EXPECT(deleted == 1);
  OK(MPI_Comm_delete_attr(owner, key));
  EXPECT(deleted == 2);
  OK(MPI_Comm_get_attr(owner, key, &value, &flag));
  EXPECT(!flag);
  OK(MPI_Comm_free_keyval(&key));
  EXPECT(key == MPI_KEYVAL_INVALID);

  OK(MPI_Comm_create_keyval(refuse, MPI_COMM_NULL_DELETE_FN, &refusing, NULL));
  OK(MPI_Comm_set_attr(owner, refusing, &state));
  OK(MPI_Comm_set_errhandler(owner, MPI_ERRORS_RETURN));
  CLASS_IS(MPI_Comm_dup(owner, &child), MPI_ERR_NO_SPACE);
  OK(MPI_Comm_free_keyval(&refusing));
  OK(MPI_Comm_free(&owner));

  OK(MPI_Type_create_keyval(MPI_TYPE_DUP_FN, remove_type, &type_key, NULL));
  OK(MPI_Type_contiguous(3, MPI_INT, &type));
  OK(MPI_Type_set_attr(type, type_key, &count));
  OK(MPI_Type_dup(type, &twin));
  OK(MPI_Type_free(&type));
  OK(MPI_Type_free(&twin));
  EXPECT(count == 2);
  OK(MPI_Type_free_keyval(&type_key));
}

static MPI_Comm failing;
static int handled, handled_code;

static void handler(MPI_Comm* comm, int* code, ...) {
  EXPECT(*comm == failing);
  handled_code = *code;
  ++handled;
}

static void error_handlers(void) {
  MPI_Errhandler mine, found;
  int value = 0, code;
  char text[MPI_MAX_ERROR_STRING];
  int length, own_class, own_code, *last, flag;
  OK(MPI_Comm_dup(MPI_COMM_WORLD, &failing));
  OK(MPI_Comm_create_errhandler(handler, &mine));
  OK(MPI_Comm_set_errhandler(failing, mine));
  OK(MPI_Comm_get_errhandler(failing, &found));
  EXPECT(found == mine);
  OK(MPI_Errhandler_free(&found));
  OK(MPI_Errhandler_free(&mine));
  EXPECT(mine == MPI_ERRHANDLER_NULL);
  code = MPI_Send(&value, 1, MPI_INT, ranks + 3, 0, failing);
  CLASS_IS(code, MPI_ERR_RANK);
  EXPECT(handled == 1);
  CLASS_IS(handled_code, MPI_ERR_RANK);
  OK(MPI_Error_string(code, text, &length));
  EXPECT(strstr(text, "rank") != NULL || strstr(text, "dest") != NULL);
  OK(MPI_Error_string(MPI_ERR_TRUNCATE, text, &length));
  EXPECT(strstr(text, "MPI_ERR_TRUNCATE") != NULL && (int)strlen(text) == length);

  OK(MPI_Add_error_class(&own_class));
  EXPECT(own_class > MPI_ERR_LASTCODE);
  OK(MPI_Add_error_code(own_class, &own_code));
  OK(MPI_Add_error_string(own_code, "coffee is out"));
  CLASS_IS(own_code, own_class);
  OK(MPI_Error_string(own_code, text, &length));
  EXPECT(strcmp(text, "coffee is out") == 0);
  OK(MPI_Comm_get_attr(MPI_COMM_WORLD, MPI_LASTUSEDCODE, &last, &flag));
  EXPECT(flag && *last >= own_code);
  OK(MPI_Comm_call_errhandler(failing, own_code));
  EXPECT(handled == 2 && handled_code == own_code);
  OK(MPI_Comm_free(&failing));
}

static int queried, freed, cancelled_with = -1;

static int query(void* extra, MPI_Status* status) {
  EXPECT(extra == &state);
  OK(MPI_Status_set_elements(status, MPI_INT, 11));
  OK(MPI_Status_set_cancelled(status, 0));
  status->MPI_SOURCE = MPI_UNDEFINED;
  status->MPI_TAG = 77;
  ++queried;
  return MPI_SUCCESS;
}
static int release(void* extra) {
  EXPECT(extra == &state);
  ++freed;
  return MPI_SUCCESS;
}
static int cancel(void* extra, int complete) {
  EXPECT(extra == &state);
  cancelled_with = complete;
  return MPI_SUCCESS;
}

static void generalized_requests(void) {
  MPI_Request request, same;
  MPI_Status status;
  int count, flag;
  OK(MPI_Grequest_start(query, release, cancel, &state, &request));
  same = request;
  OK(MPI_Test(&request, &flag, &status));
  EXPECT(!flag && request == same);
  OK(MPI_Cancel(&request));
  EXPECT(cancelled_with == 0);
  OK(MPI_Grequest_complete(request));
  OK(MPI_Wait(&request, &status));
  OK(MPI_Get_count(&status, MPI_INT, &count));
  EXPECT(count == 11 && status.MPI_TAG == 77 && status.MPI_SOURCE == MPI_UNDEFINED);
  EXPECT(queried == 1 && freed == 1 && request == MPI_REQUEST_NULL);
}

int main(int argc, char** argv) {
  begin(&argc, &argv);
  operations();
  attributes();
  error_handlers();
  generalized_requests();
  return end();
}
