// SPDX-License-Identifier: BSD-3-Clause
// The devices that a process sees and shares. EMUCUDA_DEVICES: number of devices; EMUCUDA_CGROUP (indices):
// devices that a cgroup leaves to the process; CUDA_VISIBLE_DEVICES (indices among those, or UUIDs): visible
// devices; EMUCUDA_MIG=1: MIG instances; EMUCUDA_MPS=n: n clients of an MPS server share each device.
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <numeric>
#include <sstream>

#include "world.hpp"

namespace emucuda {
namespace {

constexpr int kMultiprocessors = 132;

/// UUID as nvidia-smi prints it.
std::string uuid_text(int physical) {
  std::string result = "GPU";
  for (size_t i = 0; i < 16; ++i) {
    char byte[4];
    std::snprintf(byte, sizeof byte, "%02x", static_cast<unsigned char>(uuid_of(physical)[i]));
    if (i == 0 || i == 4 || i == 6 || i == 8 || i == 10) result += '-';
    result += byte;
  }
  return result;
}

/// The device of an entry of CUDA_VISIBLE_DEVICES: an index in `present`, or the unique beginning of a UUID;
/// -1: none.
int device_of_entry(const std::string& entry, const std::vector<int>& present) {
  int found = -1;
  if (entry.rfind("GPU-", 0) == 0) {
    for (const int physical : present) {
      if (uuid_text(physical).rfind(entry, 0) != 0) continue;
      if (found >= 0) return -1;
      found = physical;
    }
    return found;
  }
  char* end = nullptr;
  const unsigned long index = std::strtoul(entry.c_str(), &end, 10);
  return end != entry.c_str() && *end == 0 && index < present.size() ? present[index] : -1;
}

/// The devices of a list in a variable; all without it. Like the driver: the list ends at the first invalid
/// entry.
std::vector<int> listed_devices(const char* variable, const std::vector<int>& present) {
  const char* list = std::getenv(variable);
  if (list == nullptr) return present;
  std::vector<int> listed;
  std::istringstream entries(list);
  for (std::string entry; std::getline(entries, entry, ',');) {
    const int physical = device_of_entry(entry, present);
    if (physical < 0) break;
    listed.push_back(physical);
  }
  return listed;
}

/// The devices of this process's cgroup.
const std::vector<int>& present_devices() {
  static const std::vector<int>& present = *[] {
    std::vector<int> all(number("EMUCUDA_DEVICES", 2));
    std::iota(all.begin(), all.end(), 0);
    return new std::vector<int>(listed_devices("EMUCUDA_CGROUP", all));
  }();
  return present;
}

}  // namespace

unsigned long number(const char* variable, unsigned long standard) {
  const char* text = std::getenv(variable);
  return text != nullptr && *text != 0 ? std::strtoul(text, nullptr, 10) : standard;
}

std::vector<int> visible_devices() { return listed_devices("CUDA_VISIBLE_DEVICES", present_devices()); }

bool mig() { return number("EMUCUDA_MIG", 0) != 0; }

int multiprocessors() {
  const unsigned long portion = mps_clients() != 0 ? number("CUDA_MPS_ACTIVE_THREAD_PERCENTAGE", 100) : 100;
  return std::max(1, kMultiprocessors * static_cast<int>(portion) / 100);
}
unsigned mps_clients() { return static_cast<unsigned>(number("EMUCUDA_MPS", 0)); }

bool peer_access() { return world().peer && !mig(); }

bool in_cgroup(int physical) {
  return std::count(present_devices().begin(), present_devices().end(), physical) != 0;
}

Mapper mapper_of(int physical, const ContextObject* context) {
  if (!in_cgroup(physical)) return {-1, Mapper::Reach::cut_off};
  int ordinal = local_ordinal(physical);
  const bool hidden = ordinal < 0;
  if (hidden) ordinal = context != nullptr ? context->device : 0;
  const bool same = !hidden && context != nullptr && ordinal == context->device;
  if (!same && !peer_access()) return {ordinal, Mapper::Reach::no_peer_access};
  return {ordinal, Mapper::Reach::works};
}

}  // namespace emucuda
