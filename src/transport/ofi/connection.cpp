// SPDX-License-Identifier: BSD-3-Clause
#include "transport/ofi/connection.hpp"

#include <sys/stat.h>

#include <cstring>
#include <fstream>
#include <functional>

namespace weft::transport::ofi {
namespace {

struct Fixed {  // header before the provider name and the address
  Secret secret;
  uint64_t net_namespace, machine, heartbeat_address, heartbeat_rkey;
  int64_t process;
  uint32_t provider_size;
  uint32_t loopback;
};

}  // namespace

std::string PublishedAddress::text() const {
  const Fixed fixed{secret,
                    net_namespace,
                    machine,
                    heartbeat_address,
                    heartbeat_rkey,
                    process,
                    static_cast<uint32_t>(provider.size()),
                    loopback ? 1U : 0U};
  return std::string(reinterpret_cast<const char*>(&fixed), sizeof fixed) + provider + address;
}

Result<PublishedAddress> PublishedAddress::parse(const std::string& text) {
  Fixed fixed;
  if (text.size() >= sizeof fixed) std::memcpy(&fixed, text.data(), sizeof fixed);
  if (text.size() < sizeof fixed || text.size() - sizeof fixed <= fixed.provider_size)
    return Error(Errc::other, "the libfabric address of a peer is truncated (" + std::to_string(text.size()) +
                                  " bytes): the launcher's key-value exchange lost data");
  PublishedAddress published;
  published.secret = fixed.secret;
  published.net_namespace = fixed.net_namespace;
  published.machine = fixed.machine;
  published.process = static_cast<pid_t>(fixed.process);
  published.heartbeat_address = fixed.heartbeat_address;
  published.heartbeat_rkey = fixed.heartbeat_rkey;
  published.loopback = fixed.loopback != 0;
  published.provider = text.substr(sizeof fixed, fixed.provider_size);
  published.address = text.substr(sizeof fixed + fixed.provider_size);
  return published;
}

uint64_t boot_and_namespace_id(const char* name) {
  std::ifstream in("/proc/sys/kernel/random/boot_id");
  std::string boot;
  std::getline(in, boot);
  struct stat space {};
  ::stat(name, &space);
  return std::hash<std::string>{}(boot) ^ space.st_ino;
}

uint64_t own_machine() { return boot_and_namespace_id("/proc/self/ns/pid"); }

uint64_t own_net_namespace() { return boot_and_namespace_id("/proc/self/ns/net"); }

}  // namespace weft::transport::ofi
