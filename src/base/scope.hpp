// SPDX-License-Identifier: BSD-3-Clause
// Scope: which settings all processes of a host, or of the job, must have alike, since each of them derives
// from the values what all have to do together. Threading: read-only once main() has begun.
#pragma once
#include <cstdint>
#include <initializer_list>
#include <string>
#include <string_view>

#include "base/config.hpp"

namespace weft::config {

/// Whose processes need the same value.
enum class Scope : uint8_t { process, host, job };

/// Declares the scope of settings, beside their users: "coll.nccl_library" is one setting, "coll.*" all whose
/// names begin so. The longest match holds; a setting without one is the process's own. Static storage only.
class Scopes {
 public:
  Scopes(Scope scope, std::initializer_list<const char*> patterns);
};
[[nodiscard]] Scope scope_of(const Setting& setting);

/// The values other than defaults that processes of one host (Scope::host) or of different hosts (Scope::job)
/// compare: "coll.device=off;", sorted by name. Mostly empty.
[[nodiscard]] std::string common_values(Scope scope);

/// What to report when the results of common_values() in two processes of a job differ, perhaps behind the
/// end of what is known of them. Names the first setting that differs.
[[nodiscard]] Error difference(std::string_view own, int rank, std::string_view other, int other_rank);

}  // namespace weft::config
