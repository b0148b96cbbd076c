// SPDX-License-Identifier: BSD-3-Clause
// Placement: parses the values of --bind-to, --map-by and --per-host.
#pragma once
#include <string>
#include <utility>
#include <vector>

#include "base/result.hpp"
#include "mpiexec/options.hpp"

namespace weft::mpiexec {

/// `valid`: the valid values, in words.
Error bad_value(const std::string& name, const std::string& value, const std::string& valid);

/// Sets `target` to the meaning of the word `value`.
template <class E>
Status set_word(const std::string& name, const std::string& value,
                const std::vector<std::pair<const char*, E>>& words, E& target) {
  std::string valid;
  for (const auto& [word, meaning] : words) {
    if (value == word) {
      target = meaning;
      return {};
    }
    valid += valid.empty() ? word : std::string(", ") + word;
  }
  return bad_value(name, value, valid);
}

[[nodiscard]] Status set_bind(Options& options, const std::string& name, const std::string& value);
[[nodiscard]] Status set_map(Options& options, const std::string& name, const std::string& value);
[[nodiscard]] Status set_rank_order(Options& options, const std::string& name, const std::string& value);
[[nodiscard]] Status set_cpus(Options& options, const std::string& name, const std::string& value);
[[nodiscard]] Status set_input_rank(Options& options, const std::string& name, const std::string& value);
[[nodiscard]] Status set_output(Options& options, const std::string& name, const std::string& value);
/// The ranks' output to files as Open MPI's --output-filename.
[[nodiscard]] Status set_output_folder(Options& options, const std::string& name, const std::string& value);
[[nodiscard]] Status set_per_host(Options& options, const std::string& name, const std::string& value);

}  // namespace weft::mpiexec
