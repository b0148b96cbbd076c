// SPDX-License-Identifier: BSD-3-Clause
#include "core/process_address.hpp"

#include <charconv>
#include <string_view>
#include <vector>

#include "base/version.hpp"

namespace weft::core {
namespace {

constexpr std::string_view kDigits = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
constexpr char kSeparator = ':';

/// Base64 of RFC 4648 section 5, without padding.
std::string encode(std::string_view bytes) {
  std::string text;
  uint32_t bits = 0;
  unsigned count = 0;  // of bits not yet written
  for (const char byte : bytes) {
    bits = bits << 8 | static_cast<unsigned char>(byte);
    for (count += 8; count >= 6; count -= 6) text += kDigits[bits >> (count - 6) & 63];
  }
  if (count != 0) text += kDigits[bits << (6 - count) & 63];
  return text;
}

bool decode(std::string_view text, std::string& bytes) {
  uint32_t bits = 0;
  unsigned count = 0;
  for (const char digit : text) {
    const size_t value = kDigits.find(digit);
    if (value == std::string_view::npos) return false;
    bits = bits << 6 | static_cast<uint32_t>(value);
    count += 6;
    if (count < 8) continue;
    count -= 8;
    bytes += static_cast<char>(bits >> count & 255);
  }
  return true;
}

bool decode(std::string_view text, uint32_t& number) {
  return std::from_chars(text.data(), text.data() + text.size(), number).ptr == text.data() + text.size();
}

/// FNV-1a. Addresses pass through scripts and name services, and UCX does not check its part of them.
std::string checksum(std::string_view text) {
  uint32_t hash = 2166136261;
  for (const char byte : text) hash = (hash ^ static_cast<unsigned char>(byte)) * 16777619;
  return std::to_string(hash);
}

}  // namespace

std::string ProcessAddress::text() const {
  std::string all = "weft:" + encode(kBuildVersion) + kSeparator + job.text();
  for (const uint32_t number : {size, rank, local_size, local_rank})
    all += kSeparator + std::to_string(number);
  for (const std::string* field : {&host, &segment, &network}) all += kSeparator + encode(*field);
  return all + kSeparator + checksum(all);
}

Result<ProcessAddress> ProcessAddress::parse(const std::string& text) {
  std::vector<std::string_view> fields;
  for (std::string_view rest = text;;) {
    const size_t end = rest.find(kSeparator);
    fields.push_back(rest.substr(0, end));
    if (end == std::string_view::npos) break;
    rest.remove_prefix(end + 1);
  }
  if (fields.size() < 2 || fields[0] != "weft")
    return Error(Errc::arg, "'" + text.substr(0, 80) + "' is not the address of a process");
  if (fields[1] != encode(kBuildVersion)) {
    std::string other;
    if (!decode(fields[1], other)) other = "of another version";
    return Error(Errc::arg, "the process at this address runs Weft " + other + ", and this one " +
                                kBuildVersion + ": use one Weft in both jobs");
  }
  ProcessAddress address;
  if (fields.size() == 11 && fields[10] == checksum(text.substr(0, text.rfind(kSeparator)))) {
    auto job = launch::JobId::parse(fields[2]);
    if (job && decode(fields[3], address.size) && decode(fields[4], address.rank) &&
        decode(fields[5], address.local_size) && decode(fields[6], address.local_rank) &&
        decode(fields[7], address.host) && decode(fields[8], address.segment) &&
        decode(fields[9], address.network) && address.rank < address.size &&
        address.local_rank < address.local_size && address.local_size <= address.size) {
      address.job = *job;
      if (address.text() == text) return address;
    }
  }
  return Error(Errc::arg, "'" + text.substr(0, 80) + "...' is an incomplete address of a process");
}

}  // namespace weft::core
