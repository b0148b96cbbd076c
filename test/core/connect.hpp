// SPDX-License-Identifier: BSD-3-Clause
// The messages of the jobs of connect.cpp, and their counts of descriptors and mappings.
#pragma once
#include <cstdio>
#include <cstdlib>
#include <deque>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "../check.hpp"
#include "base/config.hpp"
#include "coll/bootstrap/group.hpp"
#include "datatype/predefined.hpp"
#include "p2p/p2p.hpp"

namespace weft::coll {

using Bytes = std::vector<std::byte>;
using core::Communicator;
using core::Instance;
using core::Ref;
using p2p::Transfer;

inline constexpr size_t kSizes[] = {0, 8, 3000, 20'000, 300'000};

/// Ends with the message of an error.
template <class T>
T checked(Result<T> result, const char* what) {
  if (!result) {
    std::fprintf(stderr, "%s: %s\n", what, result.error().message().c_str());
    std::_Exit(3);  // all objects are alive
  }
  return std::move(*result);
}

/// Of this process, from now on.
inline void set_connect_timeout(const char* seconds) {
  for (config::Setting* setting : config::all())
    if (std::string(setting->name) == "jobs.connect_timeout_s") CHECK(setting->parse(seconds).ok());
}

inline Bytes pattern(size_t size, int from, int to, int round) {
  Bytes data(size);
  for (size_t i = 0; i < size; ++i)
    data[i] = static_cast<std::byte>(i * 7 + static_cast<size_t>(from * 31 + to * 5 + round));
  return data;
}

/// Messages to and from all ranks of a communicator's (remote) group.
class Exchange {
 public:
  Exchange(Communicator& comm, int round) {
    for (int peer = 0; peer < comm.remote_size(); ++peer)
      for (const size_t size : kSizes) {
        const auto tag = static_cast<int>(size);
        Message& in = messages_.emplace_back(Transfer::Kind::receive, Bytes(size),
                                             pattern(size, peer, comm.rank(), round));
        p2p::post_receive(in.transfer, p2p::host_bytes(in.data.data(), size), peer, tag, comm);
        Message& out = messages_.emplace_back(Transfer::Kind::send, pattern(size, comm.rank(), peer, round),
                                              pattern(size, comm.rank(), peer, round));
        p2p::post_send(out.transfer, p2p::host_bytes(out.data.data(), size), peer, tag, comm);
      }
  }
  void finish(Instance& instance) {
    for (Message& message : messages_) {
      core::wait(instance, message.transfer);
      CHECK(message.transfer.outcome.ok());
      CHECK(message.data == message.expected);
    }
  }

 private:
  struct Message {
    Message(Transfer::Kind kind, Bytes bytes, Bytes wanted)
        : transfer(kind), data(std::move(bytes)), expected(std::move(wanted)) {}
    Transfer transfer;
    Bytes data, expected;
  };
  std::deque<Message> messages_;
};

/// Descriptors of sockets and segments. Descriptors that watch processes are opened at any time.
inline size_t open_descriptors() {
  size_t count = 0;
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd")) {
    std::error_code closed;
    const std::string target = std::filesystem::read_symlink(entry, closed).string();
    count += target.starts_with("socket:") || target.starts_with("/memfd:");
  }
  return count;
}

inline size_t mapped_segments() {
  std::ifstream maps("/proc/self/maps");
  size_t count = 0;
  for (std::string line; std::getline(maps, line);) count += line.find("memfd:weft (") != std::string::npos;
  return count;
}

inline void barrier(Communicator& comm) {
  Bytes all(static_cast<size_t>(comm.size()));
  CHECK(BootstrapGroup(comm, comm.next_collective_tag()).allgather(all.data(), 1).ok());
}

}  // namespace weft::coll
