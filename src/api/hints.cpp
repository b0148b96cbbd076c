// SPDX-License-Identifier: BSD-3-Clause
// Hints of communicators: assertions that the application makes.
#include "api/hints.hpp"

#include <string>

namespace weft::api {
namespace {

constexpr std::string_view kAssertions[] = {"mpi_assert_no_any_tag", "mpi_assert_no_any_source",
                                            "mpi_assert_exact_length", "mpi_assert_allow_overtaking",
                                            "mpi_assert_strict_persistent_collective_ordering"};

}  // namespace

Status apply_hints(core::Communicator& comm, const core::Info* info) {
  if (info == nullptr) return {};
  for (const std::string_view key : kAssertions) {
    const auto value = info->get(key);
    if (!value) continue;
    if (*value != "true" && *value != "false")
      return Error(Errc::info_value, "the hint " + std::string(key) + " = \"" + std::string(*value) +
                                         "\" is neither \"true\" nor \"false\"");
    if (!comm.info) comm.info = core::Ref<core::Info>(core::Info::create());
    if (!comm.info) return Error(Errc::no_mem, "no room for another info object: free some");
    comm.info->set(key, *value);
  }
  return {};
}

}  // namespace weft::api
