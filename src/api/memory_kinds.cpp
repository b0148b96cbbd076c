// SPDX-License-Identifier: BSD-3-Clause
#include "api/memory_kinds.hpp"

#include <algorithm>
#include <span>
#include <vector>

#include "base/config.hpp"
#include "device/info.hpp"

namespace weft::api {
namespace {

config::Text startup_kinds_setting{
    "memory.alloc_kinds", "",
    "Memory allocation kinds requested at start-up (mpiexec -memory-alloc-kinds): a "
    "comma-separated list of kind[:restrictor].",
    "the program queries the memory kinds and is not started by mpiexec with that option"};

using Words = std::span<const std::string_view>;
constexpr std::string_view kMpiRestrictors[] = {"alloc_mem", "win_allocate", "win_allocate_shared"};
constexpr std::string_view kCudaRestrictors[] = {"host", "device", "managed"};

bool cuda_available() {
  if (!device::available()) return false;
  auto devices = device::devices(device::Initialise::no);
  return !devices.ok() || !devices->empty();  // unknown until the application calls cuInit
}

std::vector<std::string_view> split(std::string_view text, char separator) {
  std::vector<std::string_view> parts;
  while (!text.empty()) {
    const size_t end = std::min(text.find(separator), text.size());
    if (end != 0) parts.push_back(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return parts;
}

bool contains(Words words, std::string_view word) {
  return std::find(words.begin(), words.end(), word) != words.end();
}

bool is_memory_kind(std::string_view text) {
  const auto words = split(text, ':');
  if (words.empty()) return false;
  Words restrictors;
  if (words[0] == "mpi")
    restrictors = kMpiRestrictors;
  else if (words[0] == "cuda" && cuda_available())
    restrictors = kCudaRestrictors;
  else if (words[0] != "system")
    return false;
  return std::all_of(words.begin() + 1, words.end(), [&](auto word) { return contains(restrictors, word); });
}

}  // namespace

bool are_memory_kinds(std::string_view list) {
  const auto kinds = split(list, ',');
  return std::all_of(kinds.begin(), kinds.end(), is_memory_kind);
}

device::AllocationKinds allocation_kinds(std::string_view list) {
  using device::MemoryKind;
  device::AllocationKinds kinds{std::string(list), {}};
  for (const std::string_view text : split(list, ',')) {
    const auto words = split(text, ':');
    const auto restrictors = words.empty() ? words : std::vector(words.begin() + 1, words.end());
    MemoryKind kind = MemoryKind::host;
    if (words.empty() || (words[0] == "system" && !restrictors.empty())) continue;
    if (words[0] == "cuda") {
      if (!std::all_of(restrictors.begin(), restrictors.end(),
                       [](auto word) { return contains(kCudaRestrictors, word); }))
        continue;
      kind = restrictors.empty() || contains(restrictors, "device") ? MemoryKind::cuda_device
             : contains(restrictors, "host")                        ? MemoryKind::host_pinned
                                                                    : MemoryKind::cuda_managed;
    } else if (!is_memory_kind(text)) {
      continue;
    }
    kinds.entries.push_back({std::string(text), kind});
  }
  return kinds;
}

std::optional<device::AllocationKinds> requested_kinds(const core::Info* info) {
  const auto list = info == nullptr ? std::nullopt : info->get("mpi_memory_alloc_kinds");
  if (!list) return std::nullopt;
  return allocation_kinds(*list);
}

const std::string& startup_memory_kinds() { return startup_kinds_setting.value(); }

std::string memory_kinds(std::optional<std::string_view> requested) {
  if (!requested && !startup_kinds_setting.value().empty()) requested = startup_kinds_setting.value();
  std::string kinds = "system,mpi";
  if (!requested) {
    if (cuda_available()) kinds += ",cuda,cuda:device,cuda:host,cuda:managed";
    return kinds;
  }
  for (const std::string_view kind : split(*requested, ','))
    if (is_memory_kind(kind) && kind != "system" && kind != "mpi") kinds += "," + std::string(kind);
  return kinds;
}

}  // namespace weft::api
