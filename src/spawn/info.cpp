// SPDX-License-Identifier: BSD-3-Clause
// Values of the info keys of MPI_Comm_spawn that Weft interprets before the launcher sees them.
#include <charconv>
#include <sstream>

#include "base/text_file.hpp"
#include "spawn/spawn.hpp"

namespace weft::spawn {
namespace {

std::string_view trimmed(std::string_view text) {
  const size_t begin = text.find_first_not_of(" \t\r");
  if (begin == std::string_view::npos) return {};
  return text.substr(begin, text.find_last_not_of(" \t\r") + 1 - begin);
}

Error bad_soft(const std::string& soft) {
  return Error(Errc::info_value,
               "soft = " + soft + " is not a list of numbers and ranges such as 1,4:8,10:20:2");
}

/// Reads "a", "a:b" or "a:b:c" (MPI 5.0 section 11.8.4): numbers from a to b in steps of c.
bool parse_range(std::string_view text, int (&range)[3]) {
  range[0] = range[1] = 0;
  range[2] = 1;
  int parts = 0;
  for (size_t begin = 0; begin <= text.size(); ++parts) {
    const size_t end = std::min(text.find(':', begin), text.size());
    const std::string_view part = trimmed(text.substr(begin, end - begin));
    const char* const last = part.data() + part.size();
    if (parts == 3) return false;
    const auto [stop, code] = std::from_chars(part.data(), last, range[parts]);
    if (code != std::errc() || stop != last) return false;
    begin = end + 1;
  }
  if (parts == 1) range[1] = range[0];
  return range[2] != 0;
}

/// The largest number of a range that is at least 1 and at most `most`; 0: none.
int largest_in(const int (&range)[3], int most) {
  const int64_t first = range[0], last = range[1], step = range[2];
  if (step < 0) {
    if (first < last) return 0;
    const int64_t above = first > most ? (first - most - step - 1) / -step : 0;  // steps down to `most`
    const int64_t value = first + above * step;
    return value >= last && value >= 1 ? static_cast<int>(value) : 0;
  }
  const int64_t limit = std::min<int64_t>(last, most);
  if (limit < first) return 0;
  const int64_t value = first + (limit - first) / step * step;
  return value >= 1 ? static_cast<int>(value) : 0;
}

}  // namespace

Result<int> largest_of(const std::string& soft, int most) {
  int largest = 0;
  for (size_t begin = 0; begin <= soft.size();) {
    const size_t end = std::min(soft.find(',', begin), soft.size());
    int range[3];
    if (!parse_range(trimmed(std::string_view(soft).substr(begin, end - begin)), range))
      return bad_soft(soft);
    largest = std::max(largest, largest_in(range, most));
    begin = end + 1;
  }
  return largest;
}

Result<launch::Values> read_info_file(const std::string& path) {
  auto contents = read_text_file(path, Errc::info_value);
  if (!contents) return Error(Errc::info_value, "file = " + contents.error().message());
  std::istringstream file(*contents);
  launch::Values values;
  int number = 0;
  for (std::string line; std::getline(file, line);) {
    ++number;
    const std::string_view text = trimmed(line);
    if (text.empty() || text.front() == '#') continue;
    const size_t equals = text.find('=');
    const std::string_view key = trimmed(text.substr(0, equals));
    if (equals == std::string_view::npos || key.empty())
      return Error(Errc::info_value,
                   "line " + std::to_string(number) + " of " + path + " is not of the form key = value");
    values.emplace_back(key, trimmed(text.substr(equals + 1)));
  }
  return values;
}

}  // namespace weft::spawn
