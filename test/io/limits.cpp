// SPDX-License-Identifier: BSD-3-Clause
// Largest offsets of views, which accesses are checked against; accesses that are too far apart for
// aggregators.
#include <gtest/gtest.h>

#include <limits>
#include <string>

#include "datatype/predefined.hpp"
#include "io/collective/plan.hpp"
#include "io/task/events.hpp"
#include "io/view/view.hpp"

namespace {

using namespace weft;      // NOLINT: the names under test
using namespace weft::io;  // NOLINT

constexpr int64_t kMost = std::numeric_limits<int64_t>::max();

datatype::Datatype& byte() { return *datatype::predefined(datatype::kByte); }

/// The view of `bytes` bytes in each tile of `extent` bytes.
std::shared_ptr<const View> tiles(int64_t disp, int64_t bytes, int64_t extent) {
  auto block = datatype::contiguous(bytes, byte(), datatype::Width::wide);
  auto tile = datatype::resized(**block, 0, extent, datatype::Width::wide);
  auto view = View::create(disp, byte(), **tile, false, nullptr, "native");
  EXPECT_TRUE(view.ok()) << view.error().message();
  (*tile)->close_handle();
  (*block)->close_handle();
  return view ? *view : nullptr;
}

TEST(Limits, EveryPlaceOfAViewIsInTheLargestFile) {
  for (const int64_t disp : {int64_t{0}, int64_t{1}, int64_t{1} << 40, kFileEnd - 1000})
    for (const int64_t extent : {int64_t{10}, int64_t{4096}, int64_t{1} << 62, int64_t{-10}, int64_t{0}}) {
      const auto view = tiles(disp, 3, extent);
      ASSERT_NE(view, nullptr);
      const int64_t last = view->stream_end() - 1;
      EXPECT_GE(view->position(last), 0) << disp << ' ' << extent;
      EXPECT_LT(view->position(last), kFileEnd) << disp << ' ' << extent;
      const int64_t end = view->stream_end();
      EXPECT_TRUE(view->place("offset", end - 1, 1).ok());
      for (const auto& [offset, etypes] : {std::pair{end, int64_t{1}},
                                           {end - 1, int64_t{2}},
                                           {kMost, int64_t{1}},
                                           {int64_t{1}, kMost},
                                           {int64_t{-1}, int64_t{1}}}) {
        auto placed = view->place("offset", offset, etypes);
        ASSERT_FALSE(placed.ok()) << disp << ' ' << extent << ' ' << offset;
        EXPECT_EQ(placed.error().message().rfind("offset = " + std::to_string(offset), 0), 0u);
      }
    }
}

TEST(Limits, FirstTileBeyondTheLargestFile) {
  auto view = View::create(kMost, byte(), byte(), true, nullptr, "native");
  ASSERT_FALSE(view.ok());
  EXPECT_EQ(view.error().code(), Errc::arg);
  EXPECT_NE(view.error().message().find("disp = 9223372036854775807"), std::string::npos);
}

TEST(Limits, StreamOffsetsOfTheEndOfAHugeFile) {
  EXPECT_EQ(View::bytes()->stream_before(kMost), kFileEnd);
  EXPECT_EQ(tiles(0, 3, 10)->stream_before(22), 8);
  EXPECT_LE(tiles(0, 3, 1)->stream_before(kMost), kMost);  // interleaved
}

TEST(Limits, SparseAccessesUseNoAggregators) {
  Hints hints;
  hints.romio_cb_read = Use::enable;
  AccessRecord near{}, far{};
  near.range = {0, 1 << 20};
  near.bytes = far.bytes = 1000;
  far.range = {500, kFileEnd};
  EXPECT_TRUE(use_aggregators({near, near}, hints, false, false));
  EXPECT_FALSE(use_aggregators({near, far}, hints, false, false));
}

TEST(Limits, AllRanksReturnTheFirstClass) {
  const Status none, full(Error(Errc::file, "no space", 41)), bad(Error(Errc::arg, "offset = 7"));
  const std::vector<int64_t> codes = {failure_code(none), failure_code(bad), failure_code(full)};
  EXPECT_EQ(codes[0], 0);
  EXPECT_TRUE(agree({}, {0, 0, 0}, "path").ok());
  const Status first = agree({}, codes, "path"), second = agree(bad.error().copy(), codes, "path");
  const Status third = agree(full.error().copy(), codes, "path");
  for (const Status* outcome : {&first, &second, &third}) {
    ASSERT_FALSE(outcome->ok());
    EXPECT_EQ(outcome->error().code(), Errc::arg);
    EXPECT_EQ(outcome->error().mpi_code(), 0);
  }
  EXPECT_NE(first.error().message().find("rank 1 failed with path"), std::string::npos);
  EXPECT_EQ(second.error().message(), "offset = 7");
  EXPECT_EQ(third.error().message().rfind("no space; rank 1 failed with path", 0), 0u);
}

}  // namespace
