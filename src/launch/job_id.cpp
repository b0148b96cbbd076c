// SPDX-License-Identifier: BSD-3-Clause
#include "launch/job_id.hpp"

#include <charconv>
#include <cstdio>

namespace weft::launch {
namespace {

/// FNV-1a, 64 bits, from a start value (Fowler, Noll, Vo).
uint64_t fnv1a(std::string_view text, uint64_t hash) {
  for (const char c : text) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3ULL;
  return hash;
}

/// Spreads a change of one bit over all bits (the finaliser of MurmurHash3): names differ in their last
/// digits.
uint64_t spread(uint64_t hash) {
  hash = (hash ^ (hash >> 33)) * 0xff51afd7ed558ccdULL;
  hash = (hash ^ (hash >> 33)) * 0xc4ceb9fe1a85ec53ULL;
  return hash ^ (hash >> 33);
}

}  // namespace

JobId JobId::of(std::string_view name) {
  return {{spread(fnv1a(name, 0xcbf29ce484222325ULL)), spread(fnv1a(name, 0x9ae16a3b2f90404fULL))}};
}

std::string JobId::text() const {
  char digits[33];
  std::snprintf(digits, sizeof digits, "%016llx%016llx", static_cast<unsigned long long>(words[0]),
                static_cast<unsigned long long>(words[1]));
  return digits;
}

Result<JobId> JobId::parse(std::string_view text) {
  JobId id;
  for (size_t i = 0; i < 2 && text.size() == 32; ++i) {
    const char* const begin = text.data() + 16 * i;
    if (std::from_chars(begin, begin + 16, id.words[i], 16).ptr != begin + 16) break;
    if (i == 1) return id;
  }
  return Error(Errc::arg, "'" + std::string(text) + "' is not the id of a job (32 hexadecimal digits)");
}

}  // namespace weft::launch
