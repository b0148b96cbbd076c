// SPDX-License-Identifier: BSD-3-Clause
// Datatype functions through the public API: contents, handles, names, attributes, packing, element counts,
// errors. Runs with any number of ranks; all ranks do the same.
#include <gtest/gtest.h>
#include <mpi.h>

#include <climits>
#include <cstring>
#include <string>
#include <vector>

namespace {

class DatatypeApi : public testing::Test {
 protected:
  void SetUp() override { MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN); }
};

int error_class(int code) {
  int found = -1;
  MPI_Error_class(code, &found);
  return found;
}

TEST_F(DatatypeApi, EnvelopeAndContentsOfNarrowCalls) {
  const int lengths[] = {1, 2};
  const MPI_Aint at[] = {0, 16};
  MPI_Datatype inner, outer;
  MPI_Type_vector(3, 2, 5, MPI_INT, &inner);
  const MPI_Datatype types[] = {MPI_DOUBLE, inner};
  ASSERT_EQ(MPI_Type_create_struct(2, lengths, at, types, &outer), MPI_SUCCESS);
  int integers, addresses, datatypes, combiner;
  MPI_Type_get_envelope(outer, &integers, &addresses, &datatypes, &combiner);
  EXPECT_EQ(combiner, MPI_COMBINER_STRUCT);
  ASSERT_EQ(integers, 3);
  ASSERT_EQ(addresses, 2);
  ASSERT_EQ(datatypes, 2);
  int i[3];
  MPI_Aint a[2];
  MPI_Datatype d[2];
  ASSERT_EQ(MPI_Type_free(&inner), MPI_SUCCESS);  // `outer` keeps a reference
  ASSERT_EQ(MPI_Type_get_contents(outer, 3, 2, 2, i, a, d), MPI_SUCCESS);
  EXPECT_EQ(i[0], 2);
  EXPECT_EQ(i[2], 2);
  EXPECT_EQ(a[1], 16);
  EXPECT_EQ(d[0], MPI_DOUBLE);
  MPI_Type_get_envelope(d[1], &integers, &addresses, &datatypes, &combiner);
  EXPECT_EQ(combiner, MPI_COMBINER_VECTOR);
  const MPI_Datatype again = d[1];
  EXPECT_EQ(MPI_Type_free(&d[1]), MPI_SUCCESS);
  EXPECT_EQ(d[1], MPI_DATATYPE_NULL);
  d[1] = again;
  EXPECT_EQ(error_class(MPI_Type_free(&d[1])), MPI_ERR_TYPE);
  EXPECT_EQ(error_class(MPI_Type_get_contents(outer, 2, 2, 2, i, a, d)), MPI_ERR_ARG);
  MPI_Type_free(&outer);
}

TEST_F(DatatypeApi, ContentsOfWideCalls) {
  MPI_Datatype type;
  ASSERT_EQ(MPI_Type_create_hvector_c(2, 3, MPI_Count{1} << 34, MPI_BYTE, &type), MPI_SUCCESS);
  MPI_Count integers, addresses, counts, datatypes;
  int combiner, small;
  MPI_Type_get_envelope_c(type, &integers, &addresses, &counts, &datatypes, &combiner);
  EXPECT_EQ(combiner, MPI_COMBINER_HVECTOR);
  EXPECT_EQ(integers, 0);
  EXPECT_EQ(addresses, 0);
  ASSERT_EQ(counts, 3);
  MPI_Count c[3];
  MPI_Datatype d[1];
  ASSERT_EQ(MPI_Type_get_contents_c(type, 0, 0, 3, 1, nullptr, nullptr, c, d), MPI_SUCCESS);
  EXPECT_EQ(c[2], MPI_Count{1} << 34);
  EXPECT_EQ(error_class(MPI_Type_get_envelope(type, &small, &small, &small, &small)), MPI_ERR_TYPE);
  MPI_Type_free(&type);
}

TEST_F(DatatypeApi, SizesTooLargeForAnInt) {
  MPI_Datatype type;
  MPI_Type_contiguous(INT_MAX, MPI_DOUBLE, &type);
  int size = 0;
  EXPECT_EQ(MPI_Type_size(type, &size), MPI_SUCCESS);
  EXPECT_EQ(size, MPI_UNDEFINED);
  MPI_Count wide = 0;
  MPI_Type_size_x(type, &wide);
  EXPECT_EQ(wide, MPI_Count{INT_MAX} * 8);
  MPI_Type_size_c(type, &wide);
  EXPECT_EQ(wide, MPI_Count{INT_MAX} * 8);
  MPI_Type_free(&type);
}

TEST_F(DatatypeApi, Names) {
  char name[MPI_MAX_OBJECT_NAME];
  int length = 0;
  MPI_Type_get_name(MPI_C_COMPLEX, name, &length);
  EXPECT_EQ(std::string(name, static_cast<size_t>(length)), "MPI_C_COMPLEX");
  MPI_Datatype type;
  MPI_Type_contiguous(2, MPI_INT, &type);
  MPI_Type_get_name(type, name, &length);
  EXPECT_EQ(length, 0);
  MPI_Type_set_name(type, std::string(1000, 'x').c_str());
  MPI_Type_get_name(type, name, &length);
  EXPECT_EQ(length, MPI_MAX_OBJECT_NAME - 1);
  MPI_Type_free(&type);
}

int g_copied, g_deleted;
int copy_value(MPI_Datatype, int, void*, void* in, void* out, int* flag) {
  ++g_copied;
  *static_cast<void**>(out) = in;
  *flag = 1;
  return MPI_SUCCESS;
}
int delete_value(MPI_Datatype, int, void*, void*) {
  ++g_deleted;
  return MPI_SUCCESS;
}

TEST_F(DatatypeApi, AttributesFollowDupAndFree) {
  int key, value = 5, flag = 0;
  void* found = nullptr;
  MPI_Type_create_keyval(copy_value, delete_value, &key, nullptr);
  MPI_Datatype type, copy;
  MPI_Type_contiguous(2, MPI_INT, &type);
  MPI_Type_set_attr(type, key, &value);
  MPI_Type_dup(type, &copy);
  EXPECT_EQ(g_copied, 1);
  MPI_Type_get_attr(copy, key, &found, &flag);
  EXPECT_TRUE(flag);
  EXPECT_EQ(found, &value);
  MPI_Type_free(&type);
  EXPECT_EQ(g_deleted, 1);
  MPI_Type_free(&copy);
  EXPECT_EQ(g_deleted, 2);
  MPI_Type_free_keyval(&key);
}

TEST_F(DatatypeApi, PackAndUnpack) {
  int matrix[6] = {1, 2, 3, 4, 5, 6}, back[6] = {}, size = 0, position = 0;
  MPI_Datatype column;
  MPI_Type_vector(3, 1, 2, MPI_INT, &column);
  MPI_Type_commit(&column);
  MPI_Pack_size(1, column, MPI_COMM_SELF, &size);
  EXPECT_EQ(size, 12);
  std::vector<char> buffer(12);
  ASSERT_EQ(MPI_Pack(matrix, 1, column, buffer.data(), 12, &position, MPI_COMM_SELF), MPI_SUCCESS);
  EXPECT_EQ(position, 12);
  const int overrun = MPI_Pack(matrix, 1, MPI_INT, buffer.data(), 12, &position, MPI_COMM_SELF);
  EXPECT_EQ(error_class(overrun), MPI_ERR_TRUNCATE);
  EXPECT_EQ(position, 12);
  position = 0;
  ASSERT_EQ(MPI_Unpack(buffer.data(), 12, &position, back, 1, column, MPI_COMM_SELF), MPI_SUCCESS);
  EXPECT_EQ(back[0] + back[2] + back[4], 1 + 3 + 5);
  EXPECT_EQ(back[1] + back[3] + back[5], 0);
  MPI_Type_free(&column);
}

TEST_F(DatatypeApi, External32IsBigEndianWithTheStandardsSizes) {
  struct Record {
    long a;
    short b;
    double c;
    long double d;
    wchar_t e;
    float f[2];
  } record = {-2, 0x0102, 1.0, 1.0L, L'A', {2.0F, -1.0F}}, back = {};
  const int lengths[] = {1, 1, 1, 1, 1, 1};
  const MPI_Aint at[] = {offsetof(Record, a), offsetof(Record, b), offsetof(Record, c),
                         offsetof(Record, d), offsetof(Record, e), offsetof(Record, f)};
  const MPI_Datatype types[] = {MPI_LONG,        MPI_SHORT, MPI_DOUBLE,
                                MPI_LONG_DOUBLE, MPI_WCHAR, MPI_C_FLOAT_COMPLEX};
  MPI_Datatype type;
  MPI_Type_create_struct(6, lengths, at, types, &type);
  MPI_Type_commit(&type);
  MPI_Aint size = 0, position = 0;
  ASSERT_EQ(MPI_Pack_external_size("external32", 1, type, &size), MPI_SUCCESS);
  const unsigned char expected[] = {
      0xFF, 0xFF, 0xFF, 0xFE,                                            // MPI_LONG has 4 bytes
      0x01, 0x02,                                                        //
      0x3F, 0xF0, 0,    0,    0,    0,    0, 0,                          //
      0x3F, 0xFF, 0,    0,    0,    0,    0, 0, 0, 0, 0, 0, 0, 0, 0, 0,  // IEEE binary128
      0x00, 0x41,                                                        //
      0x40, 0x00, 0x00, 0x00, 0xBF, 0x80, 0, 0,
  };
  ASSERT_EQ(size, static_cast<MPI_Aint>(sizeof expected));
  std::vector<unsigned char> bytes(sizeof expected);
  ASSERT_EQ(MPI_Pack_external("external32", &record, 1, type, bytes.data(), size, &position), MPI_SUCCESS);
  EXPECT_EQ(position, size);
  EXPECT_EQ(bytes, std::vector<unsigned char>(expected, expected + sizeof expected));
  position = 0;
  ASSERT_EQ(MPI_Unpack_external("external32", bytes.data(), size, &position, &back, 1, type), MPI_SUCCESS);
  EXPECT_EQ(back.a, -2);
  EXPECT_EQ(back.b, 0x0102);
  EXPECT_EQ(back.c, 1.0);
  EXPECT_EQ(back.d, 1.0L);
  EXPECT_EQ(back.e, L'A');
  EXPECT_EQ(back.f[1], -1.0F);
  EXPECT_EQ(error_class(MPI_Pack_external_size("native", 1, type, &size)), MPI_ERR_ARG);
  MPI_Type_free(&type);
}

TEST_F(DatatypeApi, CountsOfElements) {
  MPI_Status status = {};
  const int lengths[] = {1, 2};
  const MPI_Aint at[] = {0, 8};
  const MPI_Datatype types[] = {MPI_DOUBLE, MPI_INT};
  MPI_Datatype type;
  MPI_Type_create_struct(2, lengths, at, types, &type);
  MPI_Type_commit(&type);
  for (int elements = 0; elements < 8; ++elements) {
    MPI_Status_set_elements(&status, type, elements);
    int found = -1, count = -1;
    MPI_Get_elements(&status, type, &found);
    MPI_Get_count(&status, type, &count);
    EXPECT_EQ(found, elements);
    EXPECT_EQ(count, elements % 3 == 0 ? elements / 3 : MPI_UNDEFINED);
  }
  MPI_Status_set_elements(&status, MPI_DOUBLE_INT, 3);  // one and a half pairs
  int found = 0;
  MPI_Get_elements(&status, MPI_DOUBLE_INT, &found);
  EXPECT_EQ(found, 3);
  MPI_Type_free(&type);
}

TEST_F(DatatypeApi, TypesBySizeAndNumericModel) {
  MPI_Datatype type, same;
  MPI_Type_match_size(MPI_TYPECLASS_REAL, 8, &type);
  EXPECT_EQ(type, MPI_REAL8);
  EXPECT_EQ(error_class(MPI_Type_match_size(MPI_TYPECLASS_REAL, 3, &type)), MPI_ERR_ARG);
  ASSERT_EQ(MPI_Type_create_f90_real(15, MPI_UNDEFINED, &type), MPI_SUCCESS);
  MPI_Type_create_f90_real(15, MPI_UNDEFINED, &same);
  EXPECT_EQ(type, same);
  int size = 0;
  MPI_Type_size(type, &size);
  EXPECT_EQ(size, 8);
  int integers, addresses, datatypes, combiner, arguments[2];
  MPI_Type_get_envelope(type, &integers, &addresses, &datatypes, &combiner);
  EXPECT_EQ(combiner, MPI_COMBINER_F90_REAL);
  ASSERT_EQ(integers, 2);
  ASSERT_EQ(MPI_Type_get_contents(type, 2, 0, 0, arguments, nullptr, nullptr), MPI_SUCCESS);
  EXPECT_EQ(arguments[0], 15);
  EXPECT_EQ(error_class(MPI_Type_free(&same)), MPI_ERR_TYPE);
  double in = 2, out = 0;
  EXPECT_EQ(MPI_Allreduce(&in, &out, 1, type, MPI_SUM, MPI_COMM_SELF), MPI_SUCCESS);
  EXPECT_EQ(out, 2);
  EXPECT_EQ(error_class(MPI_Type_create_f90_integer(100, &type)), MPI_ERR_ARG);
  MPI_Type_get_value_index(MPI_DOUBLE, MPI_INT, &type);
  EXPECT_EQ(type, MPI_DOUBLE_INT);
  MPI_Type_get_value_index(MPI_CHAR, MPI_INT, &type);
  EXPECT_EQ(type, MPI_DATATYPE_NULL);
}

TEST_F(DatatypeApi, TypedMessageToSelf) {
  int matrix[12], back[12] = {};
  for (int i = 0; i < 12; ++i) matrix[i] = i;
  const int sizes[] = {3, 4}, subsizes[] = {2, 2}, starts[] = {1, 1};
  MPI_Datatype block;
  MPI_Type_create_subarray(2, sizes, subsizes, starts, MPI_ORDER_C, MPI_INT, &block);
  int code = MPI_Sendrecv(matrix, 1, block, 0, 0, back, 4, MPI_INT, 0, 0, MPI_COMM_SELF, MPI_STATUS_IGNORE);
  EXPECT_EQ(error_class(code), MPI_ERR_TYPE);  // not committed
  MPI_Type_commit(&block);
  code = MPI_Sendrecv(matrix, 1, block, 0, 0, back, 4, MPI_INT, 0, 0, MPI_COMM_SELF, MPI_STATUS_IGNORE);
  ASSERT_EQ(code, MPI_SUCCESS);
  EXPECT_EQ(std::vector<int>(back, back + 4), (std::vector<int>{5, 6, 9, 10}));
  MPI_Type_free(&block);
}

TEST_F(DatatypeApi, BadArguments) {
  MPI_Datatype type = MPI_INT;
  EXPECT_EQ(error_class(MPI_Type_free(&type)), MPI_ERR_TYPE);
  EXPECT_EQ(error_class(MPI_Type_contiguous(-1, MPI_INT, &type)), MPI_ERR_COUNT);
  EXPECT_EQ(error_class(MPI_Type_contiguous(1, MPI_DATATYPE_NULL, &type)), MPI_ERR_TYPE);
  const int lengths[] = {1, -1}, at[] = {0, 1};
  EXPECT_EQ(error_class(MPI_Type_indexed(2, lengths, at, MPI_INT, &type)), MPI_ERR_ARG);
  const int sizes[] = {4}, subsizes[] = {5}, starts[] = {0};
  EXPECT_EQ(error_class(MPI_Type_create_subarray(1, sizes, subsizes, starts, MPI_ORDER_C, MPI_INT, &type)),
            MPI_ERR_ARG);
  MPI_Datatype gone;
  MPI_Type_contiguous(1, MPI_INT, &type);
  gone = type;
  MPI_Type_free(&type);
  int size;
  EXPECT_EQ(error_class(MPI_Type_size(gone, &size)), MPI_ERR_TYPE);
}

}  // namespace

int main(int argc, char** argv) {
  testing::InitGoogleTest(&argc, argv);
  MPI_Init(&argc, &argv);
  const int failed = RUN_ALL_TESTS();
  MPI_Finalize();
  return failed;
}
