// SPDX-License-Identifier: BSD-3-Clause
#include "transport/ofi/contact.hpp"

#include <sys/stat.h>

#include <cstring>
#include <fstream>
#include <functional>

namespace weft::transport::ofi {
namespace {

struct Fixed {  // what stands before the provider's name and the address
  uint64_t place, machine, pulse, pulse_key;
  int64_t process;
  uint32_t provider_size;
  uint32_t loopback;
};

}  // namespace

std::string Card::text() const {
  const Fixed fixed{
      place, machine, pulse, pulse_key, process, static_cast<uint32_t>(provider.size()), loopback ? 1U : 0U};
  return std::string(reinterpret_cast<const char*>(&fixed), sizeof fixed) + provider + address;
}

Result<Card> Card::parse(const std::string& text) {
  Fixed fixed;
  if (text.size() >= sizeof fixed) std::memcpy(&fixed, text.data(), sizeof fixed);
  if (text.size() < sizeof fixed || text.size() - sizeof fixed <= fixed.provider_size)
    return Error(Errc::other, "the libfabric address of a peer is cut short (" + std::to_string(text.size()) +
                                  " bytes): the launcher's key-value exchange lost something");
  Card card;
  card.place = fixed.place;
  card.machine = fixed.machine;
  card.process = static_cast<pid_t>(fixed.process);
  card.pulse = fixed.pulse;
  card.pulse_key = fixed.pulse_key;
  card.loopback = fixed.loopback != 0;
  card.provider = text.substr(sizeof fixed, fixed.provider_size);
  card.address = text.substr(sizeof fixed + fixed.provider_size);
  return card;
}

uint64_t boot_and(const char* name) {
  std::ifstream in("/proc/sys/kernel/random/boot_id");
  std::string boot;
  std::getline(in, boot);
  struct stat space {};
  ::stat(name, &space);
  return std::hash<std::string>{}(boot) ^ space.st_ino;
}

uint64_t own_place() { return boot_and("/proc/self/ns/net"); }

}  // namespace weft::transport::ofi
