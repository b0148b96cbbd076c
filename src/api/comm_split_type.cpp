// SPDX-License-Identifier: BSD-3-Clause
// MPI_Comm_split_type: by host, hardware resource or process set (MPI 5.0 section 7.4.2), and what this
// process is restricted to (section 9.1.2).
#include <optional>
#include <string>

#include "api/hardware.hpp"
#include "api/hints.hpp"
#include "api/impl.hpp"
#include "api/objects.hpp"
#include "coll/construct.hpp"
#include "core/instance.hpp"
#include "launch/cpus.hpp"

namespace weft::api::impl {
namespace {

using coll::Made;
using core::Communicator;

constexpr const char* kResourceType = "mpi_hw_resource_type";
constexpr const char* kSharedMemory = "mpi_shared_memory";
constexpr int64_t kOfNone = -1;               // a color of processes that are in no part
constexpr int64_t kUnrestricted = INT64_MAX;  // of those that may use several instances of a resource

std::vector<HardwareResource> resources_here() { return hardware_resources("/sys", launch::allowed_cpus()); }

/// Instances are numbered on each host.
int64_t color_of(core::Instance& instance, const HardwareResource& resource) {
  if (resource.instance < 0) return kOfNone;
  return ((coll::host_color(instance) & INT32_MAX) << 32) | resource.instance;
}

int64_t color_of_resource(core::Instance& instance, std::string_view type) {
  if (type == kSharedMemory) return coll::host_color(instance);
  for (const HardwareResource& resource : resources_here())
    if (type == resource.type) return color_of(instance, resource);
  return kOfNone;
}

/// The members of a process set that is disjoint from those of the same name elsewhere.
int64_t color_of_process_set(core::Instance& instance, std::string_view name) {
  if (name == "mpi://WORLD") return 0;
  if (name == "mpi://SELF") return instance.self;
  return name == "mpix://SHARED" ? coll::host_color(instance) : kOfNone;
}

int64_t guided_color(core::Instance& instance, int split_type, const core::Info* info) {
  if (info == nullptr) return kOfNone;
  if (const auto type = info->get(kResourceType)) return color_of_resource(instance, *type);
  const auto set = info->get("mpi_pset_name");
  if (split_type == MPI_COMM_TYPE_RESOURCE_GUIDED && set) return color_of_process_set(instance, *set);
  return kOfNone;
}

struct Part {
  Communicator* comm;    ///< null: this process is in none
  std::string resource;  ///< that divided the parent
};

/// The widest resource that divides `whole`, whose processes are all on one host.
Result<Part> divide(Communicator& whole, int key) {
  for (const HardwareResource& resource : resources_here()) {
    const int64_t color = color_of(whole.instance, resource);
    auto child = coll::split_strictly(whole, color == kOfNone ? kUnrestricted : color, key);
    if (!child) return std::move(child).error();
    if (*child == nullptr) continue;
    if (color != kOfNone) return Part{*child, resource.type};
    (*child)->release();
    break;
  }
  return Part{nullptr, {}};
}

/// By the widest resource that gives parts smaller than `comm`: hosts, then what is inside one.
Result<Part> split_unguided(Communicator& comm, int key) {
  auto mates = coll::split(comm, coll::host_color(comm.instance), key);
  if (!mates) return std::move(mates).error();
  if ((*mates)->size() < comm.size()) return Part{*mates, kSharedMemory};
  // Nobody said MPI_UNDEFINED, and all are here: all take part in the further rounds.
  auto part = divide(**mates, key);
  (*mates)->release();
  return part;
}

Error bad_split_type(int split_type) {
  return {Errc::arg, "split_type = " + std::to_string(split_type) +
                         ": use MPI_COMM_TYPE_SHARED, _HW_GUIDED, _HW_UNGUIDED, _RESOURCE_GUIDED or "
                         "MPI_UNDEFINED"};
}

}  // namespace

Status Comm_split_type(Communicator& comm, int split_type, int key, core::Info* info, MPI_Comm* newcomm) {
  Result<Part> part = Part{nullptr, {}};
  if (split_type == MPI_COMM_TYPE_HW_UNGUIDED) {
    part = split_unguided(comm, key);
  } else {
    // Processes that say MPI_UNDEFINED cannot know what the others say, so all take part in one exchange.
    int64_t color = kOfNone;
    if (split_type == MPI_COMM_TYPE_SHARED)
      color = coll::host_color(comm.instance);
    else if (split_type == MPI_COMM_TYPE_HW_GUIDED || split_type == MPI_COMM_TYPE_RESOURCE_GUIDED)
      color = guided_color(comm.instance, split_type, info);
    else if (split_type != MPI_UNDEFINED)
      return bad_split_type(split_type);
    auto child = coll::split(comm, color, key);
    if (!child) return std::move(child).error();
    part = Part{*child, {}};
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
    made->set(kSharedMemory, "true");  // a process does not leave its host
    for (const HardwareResource& resource : resources_here())
      made->set(resource.type, resource.instance >= 0 ? "true" : "false");
  }
  return publish_new(made, hw_info);
}

}  // namespace weft::api::impl
