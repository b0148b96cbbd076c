// SPDX-License-Identifier: BSD-3-Clause
// Configuration overrides for UCX, and precedence of the user's variables.
#include <gtest/gtest.h>

#include <cstdlib>
#include <map>
#include <string>

#include "transport/ucx/preferences.hpp"

namespace {

using namespace weft::transport::ucx;

std::map<std::string, std::string> modified;
bool has_short_names;

api::Code modify(api::Config, const char* name, const char* value) {
  const std::string text(name);
  if (text.starts_with("KEEP") && text != "KEEPALIVE_INTERVAL" && !has_short_names)
    return api::Code::unreachable;
  modified[text] = value;
  return api::Code::ok;
}

class UcxPreferences : public testing::Test {
 protected:
  void SetUp() override {
    for (const char* name : {"UCX_TLS", "UCX_KEEPALIVE_INTERVAL", "UCX_TCP_KEEPIDLE", "UCX_TCP_KEEPINTVL",
                             "UCX_TCP_KEEPCNT", "UCX_TCP_CONN_NB", "UCX_TCP_MAX_CONN_RETRIES",
                             "UCX_MM_ERROR_HANDLING", "UCX_POSIX_ERROR_HANDLING", "UCX_SYSV_ERROR_HANDLING"})
      ::unsetenv(name);
    has_short_names = true;
  }
  static const auto& overrides(bool one_machine, bool rdma_adapters = true, bool gpus = true) {
    Library library;
    library.ucp_config_modify = modify;
    modified.clear();
    apply_overrides(library, nullptr, {one_machine, rdma_adapters, gpus});
    return modified;
  }
};

TEST(UcxTls, NamesAndGroups) {
  EXPECT_TRUE(tls_allows(nullptr, {"tcp"}));
  EXPECT_TRUE(tls_allows("all", {"tcp"}));
  EXPECT_TRUE(tls_allows("rc,tcp,self", {"tcp"}));
  EXPECT_TRUE(tls_allows("tcp", {"sm", "tcp"}));
  EXPECT_TRUE(tls_allows("^sm", {"tcp"}));
  EXPECT_TRUE(tls_allows("^rc,ud", {"sm", "posix"}));
  EXPECT_FALSE(tls_allows("", {"tcp"}));
  EXPECT_FALSE(tls_allows("rc,sm", {"tcp"}));
  EXPECT_FALSE(tls_allows("tcpx,xtcp", {"tcp"}));
  EXPECT_FALSE(tls_allows("^tcp", {"tcp"}));
  EXPECT_FALSE(tls_allows("^rc,sm", {"sm", "posix"}));
}

TEST_F(UcxPreferences, FailuresAreDetectedSoon) {
  const std::map<std::string, std::string> all = {{"KEEPALIVE_INTERVAL", "1s"},
                                                  {"KEEPIDLE", "1s"},
                                                  {"KEEPINTVL", "1s"},
                                                  {"KEEPCNT", "3"},
                                                  {"CONN_NB", "y"},
                                                  {"MAX_CONN_RETRIES", "2"}};
  EXPECT_EQ(overrides(false), all);
  ::setenv("UCX_TLS", "all", 1);
  EXPECT_EQ(overrides(false), all);
  ::setenv("UCX_TLS", "rc,cuda", 1);
  EXPECT_EQ(overrides(false).size(), 1U);
}

TEST_F(UcxPreferences, KernelKeepaliveOverSockets) {
  EXPECT_EQ(overrides(false, false).at("KEEPALIVE_INTERVAL"), "inf");
  EXPECT_EQ(overrides(false, false).at("KEEPIDLE"), "1s");
  EXPECT_EQ(overrides(true, false).at("KEEPALIVE_INTERVAL"), "1s");
  ::setenv("UCX_TLS", "tcp,cuda", 1);
  EXPECT_EQ(overrides(false).at("KEEPALIVE_INTERVAL"), "inf");
  ::setenv("UCX_TLS", "tcp,rc", 1);
  EXPECT_EQ(overrides(false).at("KEEPALIVE_INTERVAL"), "1s");
}

TEST_F(UcxPreferences, NamesOfOtherVersions) {
  has_short_names = false;
  EXPECT_EQ(overrides(false).count("TCP_KEEPIDLE"), 1U);
  EXPECT_EQ(overrides(false).at("TCP_KEEPCNT"), "3");
}

TEST_F(UcxPreferences, UserVariablesTakePrecedence) {
  ::setenv("UCX_KEEPALIVE_INTERVAL", "9s", 1);
  ::setenv("UCX_TCP_KEEPCNT", "9", 1);
  EXPECT_EQ(overrides(false).count("KEEPALIVE_INTERVAL"), 0U);
  EXPECT_EQ(overrides(false).count("KEEPCNT"), 0U);
  EXPECT_EQ(overrides(false).count("KEEPIDLE"), 1U);
}

TEST_F(UcxPreferences, SharedMemoryOnlyForGpusOfOneMachine) {
  EXPECT_EQ(overrides(false).count("MM_ERROR_HANDLING"), 0U);
  EXPECT_EQ(overrides(true).at("MM_ERROR_HANDLING"), "y");
  EXPECT_EQ(overrides(true, true, false).count("MM_ERROR_HANDLING"), 0U);
  ::setenv("UCX_TLS", "posix,cuda", 1);
  EXPECT_EQ(overrides(true).count("MM_ERROR_HANDLING"), 1U);
  ::setenv("UCX_TLS", "tcp,cuda", 1);
  EXPECT_EQ(overrides(true).count("MM_ERROR_HANDLING"), 0U);
  ::unsetenv("UCX_TLS");
  ::setenv("UCX_SYSV_ERROR_HANDLING", "n", 1);
  EXPECT_EQ(overrides(true).count("MM_ERROR_HANDLING"), 0U);
}

}  // namespace
