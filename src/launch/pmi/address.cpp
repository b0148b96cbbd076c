// SPDX-License-Identifier: BSD-3-Clause
#include "launch/pmi/address.hpp"

#include <sys/stat.h>

#include <algorithm>
#include <charconv>
#include <climits>

#include "launch/environment.hpp"

namespace weft::launch::pmi {

int descriptor_below(unsigned long limit) {
  constexpr unsigned long kMargin = 41, kHighest = 1024 - kMargin, kLowest = 3;
  return static_cast<int>(std::clamp(std::max(limit, kMargin) - kMargin, kLowest, kHighest));
}

ino_t socket_number(int fd) {
  struct stat status {};
  return ::fstat(fd, &status) == 0 && S_ISSOCK(status.st_mode) ? status.st_ino : 0;
}

std::string Address::text() const {
  return std::to_string(process) + ":" + std::to_string(descriptor) + ":" + std::to_string(inherited) + ":" +
         name + ":" + secret;
}

std::optional<Address> Address::parse(std::string_view text) {
  std::string_view parts[5];
  for (std::string_view& part : parts) {
    const size_t end = std::min(text.find(':'), text.size());
    part = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  const auto process = parse_int(parts[0], 0, INT_MAX), descriptor = parse_int(parts[1], 0, INT_MAX);
  unsigned long number = 0;
  const auto [end, error] = std::from_chars(parts[2].data(), parts[2].data() + parts[2].size(), number);
  const bool complete = error == std::errc() && end == parts[2].data() + parts[2].size();
  if (!process || !descriptor || !complete || parts[3].empty() || parts[4].empty() || !text.empty())
    return std::nullopt;
  return Address{*process, *descriptor, number, std::string(parts[3]), std::string(parts[4])};
}

}  // namespace weft::launch::pmi
