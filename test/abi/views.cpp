// SPDX-License-Identifier: BSD-3-Clause
// Count views, status layout, mapping of error classes, integer handles.
#include <gtest/gtest.h>
#include <mpi.h>

#include "api/check.hpp"
#include "api/counts.hpp"
#include "api/errors.hpp"
#include "api/handles.hpp"
#include "api/status.hpp"

namespace weft::api {
namespace {

TEST(CountArray, ReadsBothWidths) {
  const int narrow[] = {1, -2, 3};
  const MPI_Count wide[] = {1, -2, MPI_Count{1} << 40};
  EXPECT_EQ(CountArray(narrow)[1], -2);
  EXPECT_EQ(CountArray(wide)[2], MPI_Count{1} << 40);
  EXPECT_TRUE(CountArray(wide).wide());
  EXPECT_FALSE(CountArray(narrow).wide());
  EXPECT_EQ(CountArray(narrow).copy(3), (std::vector<MPI_Count>{1, -2, 3}));
  EXPECT_TRUE(CountArray().empty());
  EXPECT_TRUE(CountArray().copy(3).empty());
  EXPECT_EQ(find_negative(CountArray(wide), 3), 1u);
  EXPECT_EQ(find_negative(CountArray(narrow), 1), 1u);
}

TEST(Counts, NarrowToInt) {
  EXPECT_EQ(narrow_or_undefined(INT32_MAX), INT32_MAX);
  EXPECT_EQ(narrow_or_undefined(INT32_MIN), INT32_MIN);
  EXPECT_EQ(narrow_or_undefined(MPI_Count{INT32_MAX} + 1), MPI_UNDEFINED);
  EXPECT_FALSE(fits_int(MPI_Count{1} << 32));
}

TEST(Status, RoundTripOfACompletion) {
  MPI_Status status{};
  status.MPI_ERROR = 77;
  fill(&status, {3, 4, (uint64_t{1} << 40) + 5, true});
  EXPECT_EQ(status.MPI_SOURCE, 3);
  EXPECT_EQ(status.MPI_TAG, 4);
  EXPECT_EQ(status.MPI_ERROR, 77);
  EXPECT_EQ(bytes_of(status), (uint64_t{1} << 40) + 5);
  EXPECT_TRUE(cancelled(status));
  const core::Completion back = completion_of(status);
  EXPECT_EQ(back.source, 3);
  EXPECT_EQ(back.bytes, (uint64_t{1} << 40) + 5);
  fill_empty(&status);
  EXPECT_EQ(status.MPI_SOURCE, MPI_ANY_SOURCE);
  EXPECT_EQ(status.MPI_TAG, MPI_ANY_TAG);
  EXPECT_EQ(bytes_of(status), 0u);
  fill(MPI_STATUS_IGNORE, {});
}

TEST(Errors, EveryErrcMapsToAClass) {
  EXPECT_EQ(code_of(Error(Errc::rank, "")), MPI_ERR_RANK);
  EXPECT_EQ(code_of(Error(Errc::unsupported, "")), MPI_ERR_UNSUPPORTED_OPERATION);
  for (int value = static_cast<int>(Errc::buffer); value <= static_cast<int>(Errc::abi); ++value)
    EXPECT_NE(code_of(Error(static_cast<Errc>(value), "")), MPI_ERR_UNKNOWN) << value;
  EXPECT_EQ(code_of(mpi_error(MPI_ERR_IN_STATUS, "")), MPI_ERR_IN_STATUS);
  EXPECT_EQ(code_of(mpi_error(MPI_ERR_ABI, "")), MPI_ERR_ABI);
  EXPECT_EQ(code_of(mpi_error(MPI_ERR_LASTCODE + 1, "")), MPI_ERR_LASTCODE + 1);
  EXPECT_EQ(code_of(mpi_error(-5, "")), -5);
  EXPECT_EQ(code_name(MPI_ERR_RANK), "MPI_ERR_RANK");
  EXPECT_EQ(class_of(123456), MPI_ERR_UNKNOWN);
}

TEST(Handles, IntegerRoundTrip) {
  EXPECT_EQ(handle_to_int(MPI_COMM_WORLD), 0x101);
  EXPECT_EQ(handle_from_int(0x101), static_cast<void*>(MPI_COMM_WORLD));
  int first, second;
  const int number = handle_to_int(&first);
  EXPECT_GE(number, 0x1000);
  EXPECT_EQ(handle_to_int(&first), number);
  EXPECT_NE(handle_to_int(&second), number);
  EXPECT_EQ(handle_from_int(number), &first);
  EXPECT_EQ(handle_from_int(number + 1000), nullptr);
  EXPECT_EQ(handle_from_int(-1), nullptr);
}

TEST(Handles, PredefinedTablesAreFull) {
  EXPECT_NE(to_datatype(MPI_INT), nullptr);
  EXPECT_NE(to_datatype(MPI_COMPLEX32), nullptr);
  EXPECT_EQ(to_datatype(MPI_DATATYPE_NULL), nullptr);
  EXPECT_NE(to_op(MPI_SUM), nullptr);
  EXPECT_NE(to_op(MPI_NO_OP), nullptr);
  EXPECT_EQ(to_op(MPI_OP_NULL), nullptr);
  EXPECT_EQ(to_errhandler(MPI_ERRORS_RETURN), core::Errhandler::ret());
  EXPECT_EQ(to_errhandler(MPI_ERRHANDLER_NULL), nullptr);
  MPI_Group volatile null_group =
      MPI_GROUP_NULL;  // volatile: avoids a gcc warning about an object at a constant address
  EXPECT_EQ(to_group(null_group), nullptr);
  EXPECT_EQ(handle_of(*core::Group::empty()), MPI_GROUP_EMPTY);
  EXPECT_EQ(handle_of(*to_datatype(MPI_DOUBLE)), MPI_DOUBLE);
}

TEST(Handles, FreedHandlesAreDetected) {
  core::Info* info = core::Info::create();
  info->open_handle();
  const MPI_Info handle = handle_of(*info);
  EXPECT_EQ(to_info(handle), info);
  info->close_handle();
  EXPECT_EQ(to_info(handle), nullptr);
  const Error error = bad_handle(HandleKind::info, "info", handle);
  EXPECT_EQ(error.code(), Errc::info);
  EXPECT_NE(error.message().find("was freed"), std::string::npos) << error.message();
  EXPECT_NE(bad_handle(HandleKind::info, "info", &error).message().find("is not an info object"),
            std::string::npos);
}

}  // namespace
}  // namespace weft::api
