// SPDX-License-Identifier: BSD-3-Clause
#include "transport/ofi/connection.hpp"

#include <sys/stat.h>

#include <cstring>
#include <fstream>
#include <functional>
#include <string_view>

namespace weft::transport::ofi {
namespace {

struct Fixed {  // the header; provider name, entries and addresses of the adapters follow
  Secret secret;
  uint64_t net_namespace, machine;
  int64_t process;
  uint32_t provider_size, adapters;
};
struct Entry {
  uint64_t heartbeat_address, heartbeat_rkey;
  uint32_t loopback, address_size;
};

template <class T>
std::string_view bytes_of(const T& value) {
  return {reinterpret_cast<const char*>(&value), sizeof value};
}

/// Takes fields from the front of a text.
class Reader {
 public:
  explicit Reader(std::string_view text) : rest_(text) {}
  template <class T>
  [[nodiscard]] bool take(T& value) {
    std::string bytes;
    if (!take(bytes, sizeof value)) return false;
    std::memcpy(&value, bytes.data(), sizeof value);
    return true;
  }
  [[nodiscard]] bool take(std::string& bytes, size_t size) {
    if (rest_.size() < size) return false;
    bytes = rest_.substr(0, size);
    rest_.remove_prefix(size);
    return true;
  }

 private:
  std::string_view rest_;
};

/// Returns false if the text is truncated.
bool read(Reader text, PublishedAddress& published) {
  Fixed fixed;
  if (!text.take(fixed) || fixed.adapters == 0 || fixed.adapters > kMaxAdapters ||
      !text.take(published.provider, fixed.provider_size))
    return false;
  published.secret = fixed.secret;
  published.net_namespace = fixed.net_namespace;
  published.machine = fixed.machine;
  published.process = static_cast<pid_t>(fixed.process);
  for (uint32_t i = 0; i < fixed.adapters; ++i) {
    Entry entry;
    PublishedAddress::Adapter& adapter = published.adapters.emplace_back();
    if (!text.take(entry) || entry.address_size == 0 || !text.take(adapter.address, entry.address_size))
      return false;
    adapter.heartbeat_address = entry.heartbeat_address;
    adapter.heartbeat_rkey = entry.heartbeat_rkey;
    adapter.loopback = entry.loopback != 0;
  }
  return true;
}

}  // namespace

std::string PublishedAddress::text() const {
  const Fixed fixed{secret,
                    net_namespace,
                    machine,
                    process,
                    static_cast<uint32_t>(provider.size()),
                    static_cast<uint32_t>(adapters.size())};
  std::string text = std::string(bytes_of(fixed)) + provider;
  for (const Adapter& adapter : adapters) {
    const Entry entry{adapter.heartbeat_address, adapter.heartbeat_rkey, adapter.loopback ? 1U : 0U,
                      static_cast<uint32_t>(adapter.address.size())};
    text.append(bytes_of(entry)).append(adapter.address);
  }
  return text;
}

Result<PublishedAddress> PublishedAddress::parse(const std::string& text) {
  PublishedAddress published;
  if (!read(Reader(text), published))
    return Error(Errc::other, "the libfabric address of a peer is truncated (" + std::to_string(text.size()) +
                                  " bytes): the launcher's key-value exchange lost data");
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
