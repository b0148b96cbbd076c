// SPDX-License-Identifier: BSD-3-Clause
// What Weft asks of UCX, and what it leaves to the user's variables.
#include <gtest/gtest.h>

#include <cstdlib>
#include <map>
#include <string>

#include "transport/ucx/preferences.hpp"

namespace {

using namespace weft::transport::ucx;

std::map<std::string, std::string> asked;
bool knows_short_names;

api::Code modify(api::Config, const char* name, const char* value) {
  const std::string text(name);
  if (text.starts_with("KEEP") && text != "KEEPALIVE_INTERVAL" && !knows_short_names)
    return api::Code::unreachable;
  asked[text] = value;
  return api::Code::ok;
}

class UcxPreferences : public testing::Test {
 protected:
  void SetUp() override {
    for (const char* name : {"UCX_TLS", "UCX_KEEPALIVE_INTERVAL", "UCX_TCP_KEEPIDLE", "UCX_TCP_KEEPINTVL",
                             "UCX_TCP_KEEPCNT", "UCX_TCP_MAX_CONN_RETRIES", "UCX_MM_ERROR_HANDLING",
                             "UCX_POSIX_ERROR_HANDLING", "UCX_SYSV_ERROR_HANDLING"})
      ::unsetenv(name);
    knows_short_names = true;
  }
  static const auto& ask(bool one_machine, bool rdma_adapters = true, bool gpus = true) {
    Library library;
    library.ucp_config_modify = modify;
    asked.clear();
    prefer(library, nullptr, {one_machine, rdma_adapters, gpus});
    return asked;
  }
};

TEST(UcxTls, NamesAndGroups) {
  EXPECT_TRUE(tls_leaves(nullptr, {"tcp"}));
  EXPECT_TRUE(tls_leaves("all", {"tcp"}));
  EXPECT_TRUE(tls_leaves("rc,tcp,self", {"tcp"}));
  EXPECT_TRUE(tls_leaves("tcp", {"sm", "tcp"}));
  EXPECT_TRUE(tls_leaves("^sm", {"tcp"}));
  EXPECT_TRUE(tls_leaves("^rc,ud", {"sm", "posix"}));
  EXPECT_FALSE(tls_leaves("", {"tcp"}));
  EXPECT_FALSE(tls_leaves("rc,sm", {"tcp"}));
  EXPECT_FALSE(tls_leaves("tcpx,xtcp", {"tcp"}));
  EXPECT_FALSE(tls_leaves("^tcp", {"tcp"}));
  EXPECT_FALSE(tls_leaves("^rc,sm", {"sm", "posix"}));
}

TEST_F(UcxPreferences, DeathIsSeenSoon) {
  const std::map<std::string, std::string> all = {{"KEEPALIVE_INTERVAL", "1s"},
                                                  {"KEEPIDLE", "1s"},
                                                  {"KEEPINTVL", "1s"},
                                                  {"KEEPCNT", "3"},
                                                  {"MAX_CONN_RETRIES", "1"}};
  EXPECT_EQ(ask(false), all);
  ::setenv("UCX_TLS", "all", 1);
  EXPECT_EQ(ask(false), all);
  ::setenv("UCX_TLS", "rc,cuda", 1);
  EXPECT_EQ(ask(false).size(), 1U);
}

TEST_F(UcxPreferences, OverSocketsTheKernelProbes) {
  EXPECT_EQ(ask(false, false).at("KEEPALIVE_INTERVAL"), "inf");
  EXPECT_EQ(ask(false, false).at("KEEPIDLE"), "1s");
  EXPECT_EQ(ask(true, false).at("KEEPALIVE_INTERVAL"), "1s");
  ::setenv("UCX_TLS", "tcp,cuda", 1);
  EXPECT_EQ(ask(false).at("KEEPALIVE_INTERVAL"), "inf");
  ::setenv("UCX_TLS", "tcp,rc", 1);
  EXPECT_EQ(ask(false).at("KEEPALIVE_INTERVAL"), "1s");
}

TEST_F(UcxPreferences, OtherNamesInOtherVersions) {
  knows_short_names = false;
  EXPECT_EQ(ask(false).count("TCP_KEEPIDLE"), 1U);
  EXPECT_EQ(ask(false).at("TCP_KEEPCNT"), "3");
}

TEST_F(UcxPreferences, VariablesOfTheUserWin) {
  ::setenv("UCX_KEEPALIVE_INTERVAL", "9s", 1);
  ::setenv("UCX_TCP_KEEPCNT", "9", 1);
  EXPECT_EQ(ask(false).count("KEEPALIVE_INTERVAL"), 0U);
  EXPECT_EQ(ask(false).count("KEEPCNT"), 0U);
  EXPECT_EQ(ask(false).count("KEEPIDLE"), 1U);
}

TEST_F(UcxPreferences, SharedMemoryForGpusOfOneMachineOnly) {
  EXPECT_EQ(ask(false).count("MM_ERROR_HANDLING"), 0U);
  EXPECT_EQ(ask(true).at("MM_ERROR_HANDLING"), "y");
  EXPECT_EQ(ask(true, true, false).count("MM_ERROR_HANDLING"), 0U);
  ::setenv("UCX_TLS", "posix,cuda", 1);
  EXPECT_EQ(ask(true).count("MM_ERROR_HANDLING"), 1U);
  ::setenv("UCX_TLS", "tcp,cuda", 1);
  EXPECT_EQ(ask(true).count("MM_ERROR_HANDLING"), 0U);
  ::unsetenv("UCX_TLS");
  ::setenv("UCX_SYSV_ERROR_HANDLING", "n", 1);
  EXPECT_EQ(ask(true).count("MM_ERROR_HANDLING"), 0U);
}

}  // namespace
