// SPDX-License-Identifier: BSD-3-Clause
// PMI-1 lines, escaping of arbitrary bytes, and process mappings.
#include "launch/pmi/wire.hpp"

#include <gtest/gtest.h>

#include "launch/pmi/address.hpp"
#include "launch/pmi/mapping.hpp"

namespace weft::launch::pmi {
namespace {

TEST(Message, ParsesLines) {
  auto message = Message::parse("cmd=get_result rc=0 msg=success value=a=b,c");
  ASSERT_TRUE(message);
  EXPECT_EQ(message->command(), "get_result");
  EXPECT_EQ(message->find_int("rc"), 0);
  ASSERT_NE(message->find("value"), nullptr);
  EXPECT_EQ(*message->find("value"), "a=b,c");
  EXPECT_EQ(message->find("absent"), nullptr);
  EXPECT_FALSE(message->find_int("msg"));
}

TEST(Message, RejectsOtherLines) {
  for (const char* line : {"", "  ", "hello", "rc=0 cmd=put", "cmd=", "cmd"})
    EXPECT_FALSE(Message::parse(line)) << "'" << line << "'";
  EXPECT_TRUE(Message::parse("mcmd=spawn"));
}

TEST(Message, WritesOneLine) {
  EXPECT_EQ(Message("put").add("key", "k").add("value", -3).line(), "cmd=put key=k value=-3\n");
}

TEST(Escape, RoundTripsEveryByte) {
  std::string bytes;
  for (int c = 0; c < 256; ++c) bytes += static_cast<char>(c);
  const std::string text = escape(bytes);
  EXPECT_EQ(text.find_first_of(" \n=;'\"\\"), text.npos);
  EXPECT_EQ(unescape(text), bytes);
  EXPECT_EQ(escape("plain-text_1.2,3:4/5"), "plain-text_1.2,3:4/5");
}

TEST(Escape, RejectsMalformedEncoding) {
  for (const char* text : {"%", "%4", "%zz", "a%4"}) EXPECT_FALSE(unescape(text)) << text;
}

TEST(LineBuffer, SplitsAnyFragments) {
  LineBuffer lines;
  lines.append("cmd=a\ncmd");
  EXPECT_EQ(lines.next(), "cmd=a");
  EXPECT_FALSE(lines.next());
  lines.append("=b\n");
  EXPECT_EQ(lines.next(), "cmd=b");
  lines.append(std::string(kLineMax + 1, 'x'));
  EXPECT_FALSE(lines.next());
  EXPECT_TRUE(lines.overfull());
}

TEST(Address, TextIsReadAgain) {
  const Address address{7, 983, 123456789012, "weft-pmi-name", "secret"};
  EXPECT_EQ(address.text(), "7:983:123456789012:weft-pmi-name:secret");
  const auto read = Address::parse(address.text());
  ASSERT_TRUE(read);
  EXPECT_EQ(read->text(), address.text());
  for (const char* text :
       {"", "7", "7:3:1:name", "7:3:1:name:", "7:3:1::secret", "x:3:1:name:secret", "7:x:1:name:secret",
        "7:3:x:name:secret", "-1:3:1:name:secret", "7:3:1:name:secret:more"})
    EXPECT_FALSE(Address::parse(text)) << text;
}

TEST(Address, DescriptorIsHighAndBelowTheLimit) {
  EXPECT_EQ(descriptor_below(1024), 983);
  EXPECT_EQ(descriptor_below(~0UL), 983);
  EXPECT_EQ(descriptor_below(256), 215);
  EXPECT_EQ(descriptor_below(10), 3);
}

TEST(Mapping, AssignsHosts) {
  using Hosts = std::vector<int>;
  EXPECT_EQ(parse_mapping("(vector,(0,1,4))", 4), (Hosts{0, 0, 0, 0}));
  EXPECT_EQ(parse_mapping("(vector,(0,2,2))", 4), (Hosts{0, 0, 1, 1}));
  EXPECT_EQ(parse_mapping("(vector,(0,2,1))", 5), (Hosts{0, 1, 0, 1, 0}));  // the list is repeated
  EXPECT_EQ(parse_mapping("(vector,(0,1,3),(1,2,1))", 5), (Hosts{0, 0, 0, 1, 2}));
  EXPECT_EQ(parse_mapping(one_host_mapping(3), 3), (Hosts{0, 0, 0}));
}

TEST(Mapping, RejectsMalformedText) {
  for (const char* text : {"", "(vector)", "(vector,(0,1))", "(vector,(0,0,4))", "(vector,(0,1,0))",
                           "(vector,(0,1,4)", "(vector,(-1,1,4))", "(vector,(0,1,4))x", "vector"})
    EXPECT_FALSE(parse_mapping(text, 4)) << text;
}

}  // namespace
}  // namespace weft::launch::pmi
