// SPDX-License-Identifier: BSD-3-Clause
#include "base/scope.hpp"

#include <gtest/gtest.h>

namespace weft::config {
namespace {

Size first{"scope_test.first", 1, 0, 100, "a setting of the job"};
Size second{"scope_test.second", 2, 0, 100, "a setting of the host"};
Size own{"scope_test.second_own", 3, 0, 100, "a setting of the process"};
Size other{"scope_other.setting", 4, 0, 100, "a setting without a scope"};
const Scopes of_process{Scope::process, {"scope_test.second_own"}};
const Scopes of_host{Scope::host, {"scope_test.second*"}};
const Scopes of_job{Scope::job, {"scope_test.*"}};

TEST(Scope, LongestMatchHolds) {
  EXPECT_EQ(scope_of(first), Scope::job);
  EXPECT_EQ(scope_of(second), Scope::host);
  EXPECT_EQ(scope_of(own), Scope::process);
  EXPECT_EQ(scope_of(other), Scope::process);
}

TEST(Scope, ComparesWhatIsNotDefault) {
  EXPECT_EQ(common_values(Scope::host), "");
  for (Size* setting : {&first, &second, &own, &other}) ASSERT_TRUE(setting->parse("50"));
  EXPECT_EQ(common_values(Scope::job), "scope_test.first=50;");
  EXPECT_EQ(common_values(Scope::host), "scope_test.first=50;scope_test.second=50;");
}

TEST(Scope, NamesTheFirstDifference) {
  const auto message = [](const char* here, const char* there) {
    return difference(here, 3, there, 0).message();
  };
  EXPECT_NE(
      message("scope_test.second=5;", "").find("WEFT_SCOPE_TEST_SECOND is 5 in process 3 but 2 in process 0"),
      std::string::npos);
  EXPECT_NE(message("scope_test.first=1;scope_test.second=5;", "scope_test.second=7;").find("SECOND is 5"),
            std::string::npos);
  EXPECT_NE(message("", "").find("differ between process 3 and process 0"), std::string::npos);
}

}  // namespace
}  // namespace weft::config
