// SPDX-License-Identifier: BSD-3-Clause
// Scope: settings that must be equal in all processes of a host or of the job, because each process derives
// from them how all processes cooperate. Threading: read-only once main() has begun.
#pragma once
#include <cstdint>
#include <initializer_list>
#include <string>
#include <string_view>

#include "base/config.hpp"

namespace weft::config {

/// The processes that need the same value.
enum class Scope : uint8_t { process, host, job };

/// Declares the scope of settings, next to their users. Patterns: a name, or a prefix and `*`. The longest
/// match decides; a setting without a match has the scope `process`. Static storage only.
class Scopes {
 public:
  Scopes(Scope scope, std::initializer_list<const char*> patterns);
};
[[nodiscard]] Scope scope_of(const Setting& setting);

/// Declares settings that may change while MPI is running: their users read them at each use, under the
/// instance lock or as one word. Static storage only.
class Adjustable {
 public:
  Adjustable(std::initializer_list<const char*> names);
};
[[nodiscard]] bool adjustable(const Setting& setting);

/// The values other than defaults that processes of one host (Scope::host) or of different hosts (Scope::job)
/// compare, e.g. "coll.gpu=off;", sorted by name. Usually empty.
[[nodiscard]] std::string common_values(Scope scope);

/// The error if the results of common_values() differ in two processes of a job. Names the first setting that
/// differs; the texts may be cut off.
[[nodiscard]] Error difference(std::string_view own, int rank, std::string_view other, int other_rank);

}  // namespace weft::config
