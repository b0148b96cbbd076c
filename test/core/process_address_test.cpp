// SPDX-License-Identifier: BSD-3-Clause
// Addresses of processes: malformed ones, as a name service or a script may deliver them, are refused.
#include "core/process_address.hpp"

#include <gtest/gtest.h>

#include <random>
#include <string>

#include "base/version.hpp"

namespace weft::core {
namespace {

ProcessAddress sample() {
  ProcessAddress address;
  address.job = launch::JobId::of("a job");
  address.size = 12;
  address.rank = 7;
  address.local_size = 4;
  address.local_rank = 3;
  address.host = "node-17.cluster";
  address.segment = "weft-listener";
  address.network = std::string("ucx\0\xff\x80:address", 15);
  return address;
}

bool refused(const std::string& text) {
  const auto parsed = ProcessAddress::parse(text);
  return !parsed && parsed.error().code() == Errc::arg;
}

/// The text with the checksum (FNV-1a) that its fields have.
std::string with_checksum(std::string fields) {
  uint32_t hash = 2166136261;
  for (const char byte : fields) hash = (hash ^ static_cast<unsigned char>(byte)) * 16777619;
  return fields + ":" + std::to_string(hash);
}

std::string without_checksum(const ProcessAddress& address) {
  const std::string text = address.text();
  return text.substr(0, text.rfind(':'));
}

TEST(ProcessAddress, TextAndBack) {
  const ProcessAddress address = sample();
  auto parsed = ProcessAddress::parse(address.text());
  ASSERT_TRUE(parsed);
  EXPECT_TRUE(parsed->job == address.job);
  EXPECT_EQ(parsed->size, 12u);
  EXPECT_EQ(parsed->rank, 7u);
  EXPECT_EQ(parsed->local_size, 4u);
  EXPECT_EQ(parsed->local_rank, 3u);
  EXPECT_EQ(parsed->host, address.host);
  EXPECT_EQ(parsed->segment, address.segment);
  EXPECT_EQ(parsed->network, address.network);
  EXPECT_EQ(with_checksum(without_checksum(address)), address.text());
}

TEST(ProcessAddress, PartsAndChangedCharactersAreRefused) {
  const std::string text = sample().text();
  for (size_t length = 0; length < text.size(); ++length) {
    EXPECT_TRUE(refused(text.substr(0, length))) << length;
    EXPECT_TRUE(refused(text.substr(length + 1))) << length;
    for (const char other : {'0', 'A', ':', ' ', '\0', '\xff'}) {
      std::string changed = text;
      if (changed[length] == other) continue;
      changed[length] = other;
      EXPECT_TRUE(refused(changed)) << changed;
    }
  }
  for (const char* more : {":", "0", " ", ":0", "\n"}) EXPECT_TRUE(refused(text + more));
}

TEST(ProcessAddress, FieldsOutOfRangeAreRefusedInSpiteOfTheirChecksum) {
  using Change = void (*)(ProcessAddress&);
  const Change changes[] = {[](ProcessAddress& a) { a.rank = a.size; }, [](ProcessAddress& a) { a.size = 0; },
                            [](ProcessAddress& a) { a.local_rank = a.local_size; },
                            [](ProcessAddress& a) { a.local_size = a.size + 1; },
                            [](ProcessAddress& a) { a.local_size = 0; }};
  for (const Change change : changes) {
    ProcessAddress address = sample();
    change(address);
    EXPECT_TRUE(refused(address.text())) << address.text();
  }
}

TEST(ProcessAddress, OnlyTheExactTextIsAccepted) {
  const std::string fields = without_checksum(sample());
  ASSERT_TRUE(ProcessAddress::parse(with_checksum(fields)));
  const auto replaced = [&](const std::string& from, const std::string& to) {
    const size_t at = fields.find(from);
    EXPECT_NE(at, std::string::npos) << from;
    return with_checksum(std::string(fields).replace(at, from.size(), to));
  };
  for (const char* number : {"012", "", "+12", "-12", " 12", "12x", "4294967308", "99999999999999999999"})
    EXPECT_TRUE(refused(replaced(":12:", ":" + std::string(number) + ":"))) << number;
  const std::string version = fields.substr(4, fields.find(':', 5) - 3);  // with its separators
  EXPECT_TRUE(refused(replaced(version, ":0.0.0:")));
  EXPECT_TRUE(refused(replaced(version, "::")));
  const auto other = ProcessAddress::parse(replaced(version, ":MC4yLjAgKGNvbW1pdCAwKQ:"));  // in Base64
  ASSERT_FALSE(other);
  EXPECT_NE(
      other.error().message().find("runs Weft 0.2.0 (commit 0), and this one " + std::string(kBuildVersion)),
      std::string::npos)
      << other.error().message();
  EXPECT_TRUE(refused(replaced("weft:", "loom:")));
  EXPECT_TRUE(refused(replaced(fields.substr(fields.rfind(':')), ":=*")));  // no Base64
  EXPECT_TRUE(refused(with_checksum(fields + "A")));                        // bits beyond the last byte
  EXPECT_TRUE(refused(with_checksum(fields + ":")));
}

TEST(ProcessAddress, RandomTextIsRefused) {
  std::mt19937 random(1);
  const std::string text = sample().text();
  for (int i = 0; i < 20'000; ++i) {
    std::string changed = text;
    for (unsigned edits = 1 + random() % 4; edits != 0; --edits) {
      const size_t at = random() % changed.size(), other = random() % changed.size();
      switch (random() % 4) {
        case 0:
          changed[at] = static_cast<char>(random());
          break;
        case 1:
          changed.erase(at, 1 + random() % 8);
          break;
        case 2:
          changed.insert(at, changed.substr(other, random() % 40));
          break;
        default:
          changed = without_checksum(sample());
          changed = with_checksum(changed.substr(0, at % changed.rfind(':')));  // fields are missing
      }
      if (changed.empty()) changed = "weft";
    }
    if (changed == text) continue;
    EXPECT_TRUE(refused(changed)) << changed;
  }
}

}  // namespace
}  // namespace weft::core
