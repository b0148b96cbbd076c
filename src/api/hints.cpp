// SPDX-License-Identifier: BSD-3-Clause
// Hints of communicators: assertions by the application, and collective settings.
#include "api/hints.hpp"

#include <string>

#include "api/memory_kinds.hpp"
#include "coll/schedule/hints.hpp"

namespace weft::api {
namespace {

constexpr std::string_view kAssertions[] = {"mpi_assert_no_any_tag", "mpi_assert_no_any_source",
                                            "mpi_assert_exact_length", "mpi_assert_allow_overtaking",
                                            "mpi_assert_strict_persistent_collective_ordering"};

constexpr const char* kKinds = "mpi_memory_alloc_kinds";
constexpr const char* kAssertedKinds = "mpi_assert_memory_alloc_kinds";

Status set_hint(core::Communicator& comm, std::string_view key, std::string_view value) {
  if (!comm.info) comm.info = core::Ref<core::Info>(core::Info::create());
  if (!comm.info) return Error(Errc::no_mem, "no more info objects are available: free some");
  comm.info->set(key, value);
  return {};
}

}  // namespace

core::Info* hints_of(const core::Communicator& comm) {
  core::Info* hints = comm.info ? core::Info::duplicate(*comm.info) : core::Info::create();
  if (hints == nullptr) return nullptr;
  const core::Session* session = comm.session();
  const auto kinds = session == nullptr ? std::nullopt : session->info->get(kKinds);
  hints->set(kKinds, kinds ? std::string(*kinds) : memory_kinds(std::nullopt));
  return hints;
}

Status apply_hints(core::Communicator& comm, const core::Info* info) {
  if (info == nullptr) return {};
  for (const std::string_view key : kAssertions) {
    const auto value = info->get(key);
    if (!value) continue;
    if (*value != "true" && *value != "false")
      return Error(Errc::info_value, "the hint " + std::string(key) + " = \"" + std::string(*value) +
                                         "\" is neither \"true\" nor \"false\"");
    WEFT_TRY(set_hint(comm, key, *value));
  }
  for (const config::Setting* setting : coll::hintable()) {
    const std::string key = coll::hint_key(*setting);
    const auto value = info->get(key);
    if (!value) continue;
    if (auto parsed = setting->read(*value); !parsed)
      return Error(Errc::info_value, "the hint " + key + ": " + parsed.error().message());
    WEFT_TRY(set_hint(comm, key, *value));
  }
  // An assertion about unsupported kinds is ignored like an unknown hint.
  if (const auto kinds = info->get(kAssertedKinds); kinds && are_memory_kinds(*kinds))
    WEFT_TRY(set_hint(comm, kAssertedKinds, *kinds));
  return {};
}

}  // namespace weft::api
