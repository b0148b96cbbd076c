// SPDX-License-Identifier: BSD-3-Clause
// Explanations of collectives for `weft explain`, compared with the known selection.
#include "coll/dispatch/explain.hpp"

#include <gtest/gtest.h>

namespace weft::coll {
namespace {

/// The row of one size.
std::string row(const std::string& query, uint64_t bytes) {
  auto answer = explain(query + " bytes=1073741824");
  if (!answer) return answer.error().message();
  const std::string start = "{\"bytes\": " + std::to_string(bytes) + ",";
  const size_t at = answer->find(start);
  return at == std::string::npos ? "no row" : answer->substr(at, answer->find('}', at) - at);
}

TEST(ExplainTest, SmallReductionsUseTheDoorbellAndLargeOnesArePartitioned) {
  const std::string small = row("what=allreduce ranks=8 kind=cuda", 8);
  EXPECT_NE(
      small.find("\"form\": \"whole vectors\", \"protocol\": \"LL\", \"blocks\": 1, \"doorbell\": true"),
      std::string::npos)
      << small;
  const std::string large = row("what=allreduce ranks=8 kind=cuda", 256 << 20);
  EXPECT_NE(large.find("\"form\": \"parts\", \"protocol\": \"mapped buffers\""), std::string::npos) << large;
  EXPECT_NE(large.find("\"doorbell\": false"), std::string::npos) << large;
}

TEST(ExplainTest, ReportsTheNumberOfMeasuredGpus) {
  const auto answer = [](const std::string& query) { return explain(query).ok() ? *explain(query) : ""; };
  EXPECT_NE(answer("what=allreduce ranks=8 kind=cuda").find("\"measured_ranks\": 2"), std::string::npos);
  EXPECT_EQ(answer("what=allreduce ranks=8 kind=host").find("measured"), std::string::npos);
}

TEST(ExplainTest, LargeBlocksUseMappedBuffers) {
  EXPECT_NE(row("what=alltoall ranks=4 kind=cuda", 64 << 20).find("\"protocol\": \"mapped buffers\""),
            std::string::npos);
  EXPECT_NE(row("what=alltoall ranks=4 kind=cuda", 1 << 20).find("\"path\": \"kernels\""), std::string::npos);
}

TEST(ExplainTest, TooManyRanksForKernelsUseMessages) {
  EXPECT_NE(row("what=allreduce ranks=64 kind=cuda", 8).find("\"path\": \"messages\""), std::string::npos);
}

TEST(ExplainTest, HostMemoryUsesSharedMemoryThenMessages) {
  const auto shared = [](const std::string& query, uint64_t bytes) {
    return row(query + " kind=host", bytes).find("shared memory") != std::string::npos;
  };
  EXPECT_TRUE(shared("what=bcast ranks=8", 16 << 20));
  EXPECT_NE(row("what=bcast ranks=4 kind=host", 32 << 20).find("\"algorithm\": \"chain\""),
            std::string::npos);
  // One rank has more to do than the others, or waits for many.
  EXPECT_TRUE(shared("what=bcast ranks=9", 64 << 10));
  EXPECT_FALSE(shared("what=bcast ranks=9", 128 << 10));
  EXPECT_TRUE(shared("what=reduce ranks=2", 1 << 20));
  EXPECT_FALSE(shared("what=reduce ranks=3", 128 << 10));
  EXPECT_TRUE(shared("what=alltoall ranks=3", 64 << 10));
  EXPECT_FALSE(shared("what=alltoall ranks=3", 128 << 10));
  // Two processes copy a large message together.
  for (const char* exchange : {"what=bcast ranks=2", "what=allgather ranks=2", "what=alltoall ranks=2"}) {
    EXPECT_TRUE(shared(exchange, 32 << 10)) << exchange;
    EXPECT_FALSE(shared(exchange, 64 << 10)) << exchange;
  }
}

TEST(ExplainTest, RejectsInvalidQueries) {
  for (const char* query : {"what=barter", "what=allreduce ranks=0", "kind=paper", "bytes=many", "allreduce"})
    EXPECT_FALSE(explain(query).ok()) << query;
}

}  // namespace
}  // namespace weft::coll
