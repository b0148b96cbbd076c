// SPDX-License-Identifier: BSD-3-Clause
// Describes the transports of a job, for `weft info` and MPIX_Describe_paths.
#include <set>
#include <string>

#include "device/memory.hpp"
#include "p2p/engine/engine.hpp"
#include "p2p/p2p.hpp"

namespace weft::p2p {
namespace {

std::string line(const std::string& part, const std::string& text) { return part + '\t' + text + '\n'; }

std::string describe_job(const launch::Job& job) {
  const std::set<int> hosts(job.host_of_rank.begin(), job.host_of_rank.end());
  const std::string version = job.launcher_version.empty() ? "" : " (" + job.launcher_version + ")";
  return line("launcher", job.launcher + version) +
         line("ranks", std::to_string(job.size) + ", " + std::to_string(job.local_size) + " on this host") +
         line("hosts", std::to_string(hosts.empty() ? 1 : hosts.size()));
}

std::string describe_gpus() {
  return line("gpus", device::available()
                          ? "CUDA driver is open; CUDA IPC inside a host where GPUs reach each other"
                          : device::absence());
}

}  // namespace

std::string describe_paths(const core::Instance* instance) {
  if (instance == nullptr || instance->messaging == nullptr)
    return describe_gpus() + transport::describe_networks();
  std::string lines = describe_job(instance->exchange->job()) + describe_gpus();
  if (instance->shm != nullptr) lines += line("inside a host", "shared memory");
  const transport::Network* const network = instance->network;
  if (network == nullptr) return lines + line("network", "none: all ranks are on one host");
  lines += line("network", std::string(network->name()) + ": " + network->description());
  return device::available() ? lines + engine_of(*instance).gpudirect.describe() : lines;
}

}  // namespace weft::p2p
