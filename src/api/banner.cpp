// SPDX-License-Identifier: BSD-3-Clause
#include "api/banner.hpp"

#include <dlfcn.h>
#include <unistd.h>

#include <climits>
#include <sstream>
#include <string>

#include "base/log.hpp"
#include "base/version.hpp"
#include "device/info.hpp"
#include "launch/cpus.hpp"
#include "p2p/p2p.hpp"

namespace weft::api {
namespace {

std::string library_path() {
  Dl_info info{};
  const bool found = ::dladdr(reinterpret_cast<void*>(&log_banner), &info) != 0 && info.dli_fname != nullptr;
  return found ? info.dli_fname : "an unknown file";
}

/// "launcher: weft mpiexec; ranks: 4, 4 on this host; ..."
std::string paths(const core::Instance& instance) {
  std::istringstream lines(p2p::describe_paths(&instance));
  std::string text;
  for (std::string line; std::getline(lines, line);) {
    const size_t tab = line.find('\t');
    if (tab == line.npos) continue;
    text += (text.empty() ? "" : "; ") + line.substr(0, tab) + ": " + line.substr(tab + 1);
  }
  return text;
}

/// Never initialises the driver: that is the program's business.
std::string gpus() {
  const auto devices = device::devices(device::Initialise::no);
  if (!devices) return "";
  std::string text;
  for (const device::DeviceInfo& device : *devices)
    text += ", GPU " + std::to_string(device.ordinal) + ": " + device.name + " at " + device.pci;
  return text;
}

}  // namespace

void log_banner(const core::Instance& instance, const char* thread_level) {
  if (!log::enabled(log::Level::info)) return;
  if (instance.self == 0) {
    log::write(log::Level::info, "Weft %s, MPI 5.0, %s, %s", kBuildVersion, thread_level,
               library_path().c_str());
    log::write(log::Level::info, "%s", paths(instance).c_str());
  }
  char host[HOST_NAME_MAX + 1] = "";
  (void)::gethostname(host, sizeof host - 1);
  log::write(log::Level::info, "rank %u of %u: host %s, pid %d, cores %s%s", instance.self, instance.size,
             host, static_cast<int>(::getpid()), launch::format_cpu_list(launch::allowed_cpus()).c_str(),
             gpus().c_str());
}

}  // namespace weft::api
