// SPDX-License-Identifier: BSD-3-Clause
// The Levenshtein distance, by which messages suggest the name that the user may have meant.
#pragma once
#include <algorithm>
#include <cstddef>
#include <string_view>
#include <vector>

namespace weft {

/// Returns the least number of characters to insert, delete or replace that makes a word of the other one.
inline size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<size_t> row(b.size() + 1);
  for (size_t j = 0; j <= b.size(); ++j) row[j] = j;
  for (size_t i = 1; i <= a.size(); ++i) {
    size_t diagonal = row[0];
    row[0] = i;
    for (size_t j = 1; j <= b.size(); ++j) {
      const size_t substitute = diagonal + (a[i - 1] == b[j - 1] ? 0 : 1);
      diagonal = row[j];
      row[j] = std::min({row[j] + 1, row[j - 1] + 1, substitute});
    }
  }
  return row[b.size()];
}

}  // namespace weft
