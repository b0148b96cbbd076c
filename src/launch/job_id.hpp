// SPDX-License-Identifier: BSD-3-Clause
// JobId: names a job towards the processes of other jobs.
#pragma once
#include <array>
#include <cstdint>
#include <string>
#include <string_view>

#include "base/result.hpp"

namespace weft::launch {

/// Names a job for ever: 128 bits, the same on all its processes.
struct JobId {
  std::array<uint64_t, 2> words{};
  bool operator==(const JobId&) const = default;
  auto operator<=>(const JobId&) const = default;
  /// The id of the job that the launcher calls `name`: a hash of the name and of what all its processes
  /// share.
  [[nodiscard]] static JobId of(std::string_view name);
  /// The short form that network messages carry. Connected jobs have different tags (ProcessTable::add_job).
  /// 31 bits.
  [[nodiscard]] uint32_t tag() const { return static_cast<uint32_t>(words[0] ^ (words[0] >> 32)) >> 1; }
  /// 32 hexadecimal digits.
  [[nodiscard]] std::string text() const;
  [[nodiscard]] static Result<JobId> parse(std::string_view text);
};

}  // namespace weft::launch
