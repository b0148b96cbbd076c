// SPDX-License-Identifier: BSD-3-Clause
// MPI_Comm_split_type by host, hardware resource or process set (MPI 5.0 section 7.4.2), and
// MPI_Get_hw_resource_info (section 9.1.2).
#include <optional>
#include <string>

#include "api/hardware.hpp"
#include "api/hints.hpp"
#include "api/impl.hpp"
#include "api/objects.hpp"
#include "coll/construct/communicators.hpp"
#include "core/instance.hpp"
#include "launch/cpus.hpp"

namespace weft::api::impl {
namespace {

using coll::NewCommunicator;
using core::Communicator;

constexpr const char* kResourceType = "mpi_hw_resource_type";
constexpr const char* kSharedMemory = "mpi_shared_memory";
constexpr int64_t kNoColor = -1;                   // color of processes in no part
constexpr int64_t kUnrestrictedColor = INT64_MAX;  // color of processes that may use several instances

std::vector<HardwareResource> resources_here() { return hardware_resources("/sys", launch::allowed_cpus()); }

/// Combines host and instance: instances are numbered per host.
int64_t color_of(core::Instance& instance, const HardwareResource& resource) {
  if (resource.instance < 0) return kNoColor;
  return ((coll::host_color(instance) & INT32_MAX) << 32) | resource.instance;
}

int64_t color_of_resource(core::Instance& instance, std::string_view type) {
  if (type == kSharedMemory) return coll::host_color(instance);
  for (const HardwareResource& resource : resources_here())
    if (type == resource.type) return color_of(instance, resource);
  return kNoColor;
}

/// Color of this process's instance of a process set.
int64_t color_of_process_set(core::Instance& instance, std::string_view name) {
  if (name == "mpi://WORLD") return 0;
  if (name == "mpi://SELF") return instance.self;
  return name == "mpix://SHARED" ? coll::host_color(instance) : kNoColor;
}

int64_t guided_color(core::Instance& instance, int split_type, const core::Info* info) {
  if (info == nullptr) return kNoColor;
  if (const auto type = info->get(kResourceType)) return color_of_resource(instance, *type);
  const auto set = info->get("mpi_pset_name");
  if (split_type == MPI_COMM_TYPE_RESOURCE_GUIDED && set) return color_of_process_set(instance, *set);
  return kNoColor;
}

struct SplitResult {
  Communicator* comm;    ///< null: this process is in no part
  std::string resource;  ///< resource type of the split
};

/// Splits `whole`, which is on one host, by the largest resource type that yields more than one part.
Result<SplitResult> split_by_resource(Communicator& whole, int key) {
  for (const HardwareResource& resource : resources_here()) {
    const int64_t color = color_of(whole.instance, resource);
    auto child = coll::split_proper(whole, color == kNoColor ? kUnrestrictedColor : color, key);
    if (!child) return std::move(child).error();
    if (*child == nullptr) continue;
    if (color != kNoColor) return SplitResult{*child, resource.type};
    (*child)->release();
    break;
  }
  return SplitResult{nullptr, {}};
}

/// Splits by the largest resource with parts smaller than `comm`: hosts, then resources inside a host.
Result<SplitResult> split_unguided(Communicator& comm, int key) {
  auto host_comm = coll::split(comm, coll::host_color(comm.instance), key);
  if (!host_comm) return std::move(host_comm).error();
  if ((*host_comm)->size() < comm.size()) return SplitResult{*host_comm, kSharedMemory};
  // All processes are on this host and none passed MPI_UNDEFINED: all take part in further splits.
  auto part = split_by_resource(**host_comm, key);
  (*host_comm)->release();
  return part;
}

Error bad_split_type(int split_type) {
  return {Errc::arg, "split_type = " + std::to_string(split_type) +
                         ": use MPI_COMM_TYPE_SHARED, _HW_GUIDED, _HW_UNGUIDED, _RESOURCE_GUIDED or "
                         "MPI_UNDEFINED"};
}

}  // namespace

Status Comm_split_type(Communicator& comm, int split_type, int key, core::Info* info, MPI_Comm* newcomm) {
  Result<SplitResult> part = SplitResult{nullptr, {}};
  if (split_type == MPI_COMM_TYPE_HW_UNGUIDED) {
    part = split_unguided(comm, key);
  } else {
    // Processes that pass MPI_UNDEFINED do not know the split_type of the others, so all call split once.
    int64_t color = kNoColor;
    if (split_type == MPI_COMM_TYPE_SHARED)
      color = coll::host_color(comm.instance);
    else if (split_type == MPI_COMM_TYPE_HW_GUIDED || split_type == MPI_COMM_TYPE_RESOURCE_GUIDED)
      color = guided_color(comm.instance, split_type, info);
    else if (split_type != MPI_UNDEFINED)
      return bad_split_type(split_type);
    auto child = coll::split(comm, color, key);
    if (!child) return std::move(child).error();
    part = SplitResult{*child, {}};
  }
  if (!part) return std::move(part).error();
  if (part->comm != nullptr && !part->resource.empty() && info != nullptr &&
      info != core::Info::environment())
    info->set(kResourceType, part->resource);
  *newcomm = part->comm == nullptr ? MPI_COMM_NULL : handle_of(*part->comm);
  return {};
}

Status Get_hw_resource_info(MPI_Info* hw_info) {
  core::Info* made = core::Info::create();
  if (made != nullptr) {
    made->set(kSharedMemory, "true");  // a process runs on one host
    for (const HardwareResource& resource : resources_here())
      made->set(resource.type, resource.instance >= 0 ? "true" : "false");
  }
  return return_new_object(made, hw_info);
}

}  // namespace weft::api::impl
