// SPDX-License-Identifier: BSD-3-Clause
// Handles of every kind: predefined, null, created, freed, invalid; constants behind pointers.
#include "expect.h"

static void communicators_and_groups(void) {
  MPI_Comm copy, half, null = MPI_COMM_NULL, cart;
  MPI_Group world, first;
  int result, size, other, flag;
  OK(MPI_Comm_dup(MPI_COMM_WORLD, &copy));
  EXPECT(copy != MPI_COMM_WORLD && copy != MPI_COMM_NULL);
  OK(MPI_Comm_compare(copy, MPI_COMM_WORLD, &result));
  EXPECT(result == MPI_CONGRUENT);
  OK(MPI_Comm_compare(copy, copy, &result));
  EXPECT(result == MPI_IDENT);
  OK(MPI_Comm_split(copy, rank == 0 ? MPI_UNDEFINED : rank % 2, rank, &half));
  EXPECT((half == MPI_COMM_NULL) == (rank == 0));
  if (half != MPI_COMM_NULL) OK(MPI_Comm_free(&half));
  OK(MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &half));
  OK(MPI_Comm_size(half, &size));
  EXPECT(size == ranks);
  OK(MPI_Comm_free(&half));
  EXPECT(half == MPI_COMM_NULL);

  OK(MPI_Comm_group(MPI_COMM_WORLD, &world));
  OK(MPI_Group_incl(world, 1, &(int){0}, &first));
  OK(MPI_Group_translate_ranks(first, 2, (int[]){0, MPI_PROC_NULL}, world, (int[]){9, 9}));
  int translated[2];
  OK(MPI_Group_translate_ranks(world, 2, (int[]){ranks - 1, MPI_PROC_NULL}, first, translated));
  EXPECT(translated[0] == (ranks == 1 ? 0 : MPI_UNDEFINED) && translated[1] == MPI_PROC_NULL);
  OK(MPI_Group_compare(world, first, &result));
  EXPECT(result == (ranks == 1 ? MPI_IDENT : MPI_UNEQUAL));
  OK(MPI_Group_rank(first, &other));
  EXPECT(other == (rank == 0 ? 0 : MPI_UNDEFINED));
  OK(MPI_Group_free(&first));
  OK(MPI_Group_size(world, &size));
  EXPECT(size == ranks);
  OK(MPI_Group_free(&world));
  EXPECT(world == MPI_GROUP_NULL && first == MPI_GROUP_NULL);
  OK(MPI_Group_size(MPI_GROUP_EMPTY, &size));
  EXPECT(size == 0);

  int dims[1] = {0}, periods[1] = {0}, source, dest, topology;
  OK(MPI_Dims_create(ranks, 1, dims));
  OK(MPI_Cart_create(copy, 1, dims, periods, 0, &cart));
  OK(MPI_Topo_test(cart, &topology));
  EXPECT(topology == MPI_CART);
  OK(MPI_Topo_test(copy, &topology));
  EXPECT(topology == MPI_UNDEFINED);
  OK(MPI_Cart_shift(cart, 0, 1, &source, &dest));
  EXPECT(source == (rank == 0 ? MPI_PROC_NULL : rank - 1));
  EXPECT(dest == (rank == ranks - 1 ? MPI_PROC_NULL : rank + 1));
  int token = rank, got = -1;
  OK(MPI_Sendrecv(&token, 1, MPI_INT, dest, 0, &got, 1, MPI_INT, source, 0, cart, MPI_STATUS_IGNORE));
  EXPECT(got == (rank == 0 ? -1 : rank - 1));
  OK(MPI_Comm_free(&cart));

  MPI_Errhandler handler;
  OK(MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN));
  OK(MPI_Comm_get_errhandler(MPI_COMM_WORLD, &handler));
  EXPECT(handler == MPI_ERRORS_RETURN);
  CLASS_IS(MPI_Comm_size(null, &size), MPI_ERR_COMM);
  CLASS_IS(MPI_Comm_dup(MPI_COMM_NULL, &null), MPI_ERR_COMM);
  MPI_Comm zero;  // not set: no handle of the standard ABI either
  memset(&zero, 0, sizeof zero);
  char text[MPI_MAX_ERROR_STRING];
  OK(MPI_Error_string(MPI_Comm_size(zero, &size), text, &flag));
  EXPECT(strstr(text, "is a handle of the standard ABI") == NULL);
  EXPECT(null == MPI_COMM_NULL);
  MPI_Comm freed = copy;
  OK(MPI_Comm_free(&copy));
  CLASS_IS(MPI_Comm_size(freed, &size), MPI_ERR_COMM);
  OK(MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_ARE_FATAL));

  int* limit;
  OK(MPI_Comm_get_attr(MPI_COMM_WORLD, MPI_TAG_UB, &limit, &flag));
  EXPECT(flag && *limit >= 32767);
  OK(MPI_Comm_get_attr(MPI_COMM_WORLD, MPI_LASTUSEDCODE, &limit, &flag));
  EXPECT(flag && *limit >= MPI_ERR_LASTCODE);
}

/// Every predefined datatype arrives as itself: its size is that of the C type.
static void datatypes(void) {
  static const struct {
    MPI_Datatype type;
    size_t size;
  } known[] = {{MPI_CHAR, 1},
               {MPI_SIGNED_CHAR, 1},
               {MPI_UNSIGNED_CHAR, 1},
               {MPI_BYTE, 1},
               {MPI_PACKED, 1},
               {MPI_SHORT, sizeof(short)},
               {MPI_UNSIGNED_SHORT, sizeof(short)},
               {MPI_INT, sizeof(int)},
               {MPI_UNSIGNED, sizeof(int)},
               {MPI_LONG, sizeof(long)},
               {MPI_UNSIGNED_LONG, sizeof(long)},
               {MPI_LONG_LONG, 8},
               {MPI_LONG_LONG_INT, 8},
               {MPI_UNSIGNED_LONG_LONG, 8},
               {MPI_FLOAT, 4},
               {MPI_DOUBLE, 8},
               {MPI_LONG_DOUBLE, sizeof(long double)},
               {MPI_WCHAR, sizeof(wchar_t)},
               {MPI_C_BOOL, 1},
               {MPI_INT8_T, 1},
               {MPI_INT16_T, 2},
               {MPI_INT32_T, 4},
               {MPI_INT64_T, 8},
               {MPI_UINT8_T, 1},
               {MPI_UINT16_T, 2},
               {MPI_UINT32_T, 4},
               {MPI_UINT64_T, 8},
               {MPI_AINT, sizeof(MPI_Aint)},
               {MPI_COUNT, sizeof(MPI_Count)},
               {MPI_OFFSET, 8},
               {MPI_C_COMPLEX, 8},
               {MPI_C_FLOAT_COMPLEX, 8},
               {MPI_C_DOUBLE_COMPLEX, 16},
               {MPI_FLOAT_INT, 8},
               {MPI_DOUBLE_INT, 12},
               {MPI_LONG_INT, 12},
               {MPI_2INT, 8},
               {MPI_SHORT_INT, 6}};
  for (size_t i = 0; i < sizeof known / sizeof known[0]; ++i) {
    int size;
    OK(MPI_Type_size(known[i].type, &size));
    EXPECT((size_t)size == known[i].size);
  }
  char name[MPI_MAX_OBJECT_NAME];
  int length;
  OK(MPI_Type_get_name(MPI_DOUBLE, name, &length));
  EXPECT(strcmp(name, "MPI_DOUBLE") == 0 && length == 10);

  MPI_Datatype sub, darray, structure, types[2] = {MPI_INT, MPI_DOUBLE}, inner[2];
  int integers[32], combiner, counts[3];
  MPI_Aint addresses[8], displacements[2] = {0, 8}, lower, extent;
  OK(MPI_Type_create_struct(2, (int[]){1, 2}, displacements, types, &structure));
  OK(MPI_Type_commit(&structure));
  OK(MPI_Type_get_extent(structure, &lower, &extent));
  EXPECT(lower == 0 && extent == 24);
  OK(MPI_Type_get_envelope(structure, &counts[0], &counts[1], &counts[2], &combiner));
  EXPECT(combiner == MPI_COMBINER_STRUCT && counts[0] == 3 && counts[2] == 2);
  OK(MPI_Type_get_contents(structure, 3, 2, 2, integers, addresses, inner));
  EXPECT(inner[0] == MPI_INT && inner[1] == MPI_DOUBLE && integers[0] == 2 && addresses[1] == 8);
  OK(MPI_Type_get_envelope(MPI_INT, &counts[0], &counts[1], &counts[2], &combiner));
  EXPECT(combiner == MPI_COMBINER_NAMED);
  int sizes[2] = {4, 6}, subsizes[2] = {2, 3}, starts[2] = {1, 1};
  OK(MPI_Type_create_subarray(2, sizes, subsizes, starts, MPI_ORDER_FORTRAN, structure, &sub));
  OK(MPI_Type_get_envelope(sub, &counts[0], &counts[1], &counts[2], &combiner));
  EXPECT(combiner == MPI_COMBINER_SUBARRAY && counts[0] == 8);
  OK(MPI_Type_get_contents(sub, 32, 8, 2, integers, addresses, inner));
  EXPECT(integers[7] == MPI_ORDER_FORTRAN && integers[3] == 2 && inner[0] == structure);
  OK(MPI_Type_free(&inner[0]));  // the reference of MPI_Type_get_contents
  int distributions[2] = {MPI_DISTRIBUTE_BLOCK, MPI_DISTRIBUTE_NONE};
  int arguments[2] = {MPI_DISTRIBUTE_DFLT_DARG, MPI_DISTRIBUTE_DFLT_DARG}, grid[2] = {ranks, 1};
  OK(MPI_Type_create_darray(ranks, rank, 2, sizes, distributions, arguments, grid, MPI_ORDER_C, MPI_INT,
                            &darray));
  OK(MPI_Type_get_contents(darray, 32, 8, 2, integers, addresses, inner));
  EXPECT(integers[5] == MPI_DISTRIBUTE_BLOCK && integers[6] == MPI_DISTRIBUTE_NONE);
  EXPECT(integers[7] == MPI_DISTRIBUTE_DFLT_DARG && integers[11] == MPI_ORDER_C);
  OK(MPI_Type_free(&structure));
  OK(MPI_Type_free(&sub));
  OK(MPI_Type_free(&darray));
  // 19 is the value of MPI_DISTRIBUTE_DFLT_DARG in another interface.
  int whole = 38, cyclic = MPI_DISTRIBUTE_CYCLIC, nineteen = 19, two = 2, elements[38], mine[38], at = 0;
  for (int i = 0; i < 38; ++i) elements[i] = i;
  OK(MPI_Type_create_darray(2, 1, 1, &whole, &cyclic, &nineteen, &two, MPI_ORDER_C, MPI_INT, &darray));
  OK(MPI_Type_commit(&darray));
  OK(MPI_Pack(elements, 1, darray, mine, sizeof mine, &at, MPI_COMM_SELF));
  EXPECT(at == 19 * (int)sizeof(int) && mine[0] == 19 && mine[1] == 20 && mine[18] == 37);
  OK(MPI_Type_get_contents(darray, 32, 8, 2, integers, addresses, inner));
  EXPECT(integers[5] == 19);
  OK(MPI_Type_free(&darray));
  EXPECT(structure == MPI_DATATYPE_NULL);
}

static void operations(void) {
  static const struct {
    MPI_Op op;
    int expected;  // of 6 and 3
  } known[] = {{MPI_SUM, 9},  {MPI_PROD, 18}, {MPI_MAX, 6}, {MPI_MIN, 3},  {MPI_BAND, 2},    {MPI_BOR, 7},
               {MPI_BXOR, 5}, {MPI_LAND, 1},  {MPI_LOR, 1}, {MPI_LXOR, 0}, {MPI_REPLACE, 6}, {MPI_NO_OP, 3}};
  for (size_t i = 0; i < sizeof known / sizeof known[0]; ++i) {
    int in = 6, inout = 3, commutes;
    if (known[i].op != MPI_REPLACE && known[i].op != MPI_NO_OP) {
      OK(MPI_Reduce_local(&in, &inout, 1, MPI_INT, known[i].op));
      EXPECT(inout == known[i].expected);
    }
    OK(MPI_Op_commutative(known[i].op, &commutes));
  }
  struct {
    double value;
    int index;
  } mine = {rank == ranks - 1 ? 7.0 : 8.0 + rank, rank}, least;
  OK(MPI_Allreduce(&mine, &least, 1, MPI_DOUBLE_INT, MPI_MINLOC, MPI_COMM_WORLD));
  EXPECT(least.value == 7.0 && least.index == ranks - 1);
}

static void infos(void) {
  MPI_Info info, copy;
  char value[MPI_MAX_INFO_VAL], key[MPI_MAX_INFO_KEY];
  int flag, keys;
  OK(MPI_Info_create(&info));
  OK(MPI_Info_set(info, "colour", "blue"));
  OK(MPI_Info_dup(info, &copy));
  EXPECT(copy != info);
  OK(MPI_Info_get(copy, "colour", MPI_MAX_INFO_VAL - 1, value, &flag));
  EXPECT(flag && strcmp(value, "blue") == 0);
  OK(MPI_Info_get_nkeys(copy, &keys));
  OK(MPI_Info_get_nthkey(copy, 0, key));
  EXPECT(keys == 1 && strcmp(key, "colour") == 0);
  OK(MPI_Info_free(&info));
  OK(MPI_Info_free(&copy));
  EXPECT(info == MPI_INFO_NULL);
  OK(MPI_Info_get(MPI_INFO_ENV, "maxprocs", MPI_MAX_INFO_VAL - 1, value, &flag));
  MPI_Comm hinted;
  OK(MPI_Comm_dup_with_info(MPI_COMM_WORLD, MPI_INFO_NULL, &hinted));
  OK(MPI_Comm_free(&hinted));
  char processor[MPI_MAX_PROCESSOR_NAME];
  int length;
  memset(processor, 'x', sizeof processor);
  OK(MPI_Get_processor_name(processor, &length));
  EXPECT(length > 0 && (size_t)length < sizeof processor && strlen(processor) == (size_t)length);
}

/// More handles than one chunk of slots holds, and reuse.
static void many(void) {
  enum { kCount = 5000 };
  static MPI_Datatype types[kCount];
  for (int round = 0; round < 2; ++round) {
    for (int i = 0; i < kCount; ++i) OK(MPI_Type_contiguous(i + 1, MPI_CHAR, &types[i]));
    for (int i = 0; i < kCount; ++i) {
      int size;
      OK(MPI_Type_size(types[i], &size));
      EXPECT(size == i + 1);
    }
    for (int i = 0; i < kCount; ++i) OK(MPI_Type_free(&types[i]));
  }
}

int main(int argc, char** argv) {
  begin(&argc, &argv);
  communicators_and_groups();
  datatypes();
  operations();
  infos();
  many();
  return end();
}
