// SPDX-License-Identifier: BSD-3-Clause
// Values of the info keys soft and file.
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdio>
#include <string>

#include "spawn/spawn.hpp"

namespace weft::spawn {
namespace {

int largest(const std::string& soft, int most) {
  const auto number = largest_of(soft, most);
  EXPECT_TRUE(number) << soft;
  return number ? *number : -1;
}

TEST(Soft, LargestNumber) {
  EXPECT_EQ(largest("4", 8), 4);
  EXPECT_EQ(largest("1:8", 5), 5);
  EXPECT_EQ(largest("1:8:3", 8), 7);
  EXPECT_EQ(largest("8:1:-3", 6), 5);
  EXPECT_EQ(largest("2, 16 , 3:4", 8), 4);
  EXPECT_EQ(largest("0:0", 8), 0);
  EXPECT_EQ(largest("9:20", 8), 0);
  EXPECT_EQ(largest("-5:-1", 8), 0);
}

TEST(Soft, AgreesWithEnumeration) {
  for (int a = -4; a <= 9; ++a)
    for (int b = -4; b <= 9; ++b)
      for (int c = -3; c <= 3; ++c)
        for (int most = 1; c != 0 && most <= 9; ++most) {
          int expected = 0;
          for (int n = a; c > 0 ? n <= b : n >= b; n += c)
            if (n >= 1 && n <= most) expected = std::max(expected, n);
          const std::string soft = std::to_string(a) + ":" + std::to_string(b) + ":" + std::to_string(c);
          EXPECT_EQ(largest(soft, most), expected) << soft << " most " << most;
        }
}

TEST(Soft, Malformed) {
  for (const char* soft : {"", "a", "1:", ":", "1:2:0", "1:2:3:4", "1,,2", "99999999999"})
    EXPECT_EQ(largest_of(soft, 8).error().code(), Errc::info_value) << soft;
}

TEST(InfoFile, LinesOfKeysAndValues) {
  char path[] = "/tmp/weft-spawn-XXXXXX";
  const int fd = ::mkstemp(path);
  const std::string text = "# comment\n\n wdir = /tmp/a b \nenv=A=B\n";
  ASSERT_EQ(::write(fd, text.data(), text.size()), static_cast<ssize_t>(text.size()));
  ::close(fd);
  const auto values = read_info_file(path);
  ASSERT_TRUE(values);
  EXPECT_EQ(*values, (launch::Values{{"wdir", "/tmp/a b"}, {"env", "A=B"}}));
  ASSERT_EQ(::truncate(path, 5), 0);
  ::unlink(path);
  EXPECT_EQ(read_info_file(path).error().code(), Errc::info_value);
}

}  // namespace
}  // namespace weft::spawn
