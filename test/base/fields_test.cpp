// SPDX-License-Identifier: BSD-3-Clause
#include "base/fields.hpp"

#include <gtest/gtest.h>

namespace weft {
namespace {

TEST(Fields, PassesKeysAndValuesInOrder) {
  std::string seen;
  const auto accept = [&](const std::string& key, const std::string& value) {
    seen += key + ":" + value + ";";
    return true;
  };
  EXPECT_TRUE(parse_fields(" a=1  b= c=x=y ", "a, b, c", accept).ok());
  EXPECT_EQ(seen, "a:1;b:;c:x=y;");
  EXPECT_TRUE(parse_fields("", "nothing", accept).ok());
}

TEST(Fields, NamesTheFirstInvalidWord) {
  const auto only_a = [](const std::string& key, const std::string&) { return key == "a"; };
  for (const char* text : {"a=1 b=2 c=3", "a=1 b c=3"}) {
    const Status status = parse_fields(text, "a=NUMBER", only_a);
    ASSERT_FALSE(status.ok());
    EXPECT_EQ(status.error().code(), Errc::arg);
    EXPECT_EQ(status.error().message().find("'b"), 0u) << status.error().message();
    EXPECT_NE(status.error().message().find("use a=NUMBER"), std::string::npos);
  }
}

TEST(Fields, NumbersAreDecimalAndInRange) {
  EXPECT_EQ(parse_number("17", 1, 17), 17u);
  for (const char* text : {"", "0", "18", "-1", "0x2", "1k", "99999999999999999999999"})
    EXPECT_FALSE(parse_number(text, 1, 17).has_value()) << text;
}

}  // namespace
}  // namespace weft
