// SPDX-License-Identifier: BSD-3-Clause
// Runs forked processes of a simulated job that communicate over libfabric. The test process itself does not
// open libfabric, so that it can fork; FI_PROVIDER selects the provider.
#pragma once
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <deque>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/config.hpp"
#include "transport/ofi/ofi.hpp"

namespace weft::test {

using transport::Buffer;
using transport::Completion;
using transport::Peer;

inline double now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

constexpr int kSkipped = 77;

/// Ends the calling process with an error message that names the line.
#define CHECK(condition)                                                                       \
  do {                                                                                         \
    if (!(condition)) {                                                                        \
      std::fprintf(stderr, "%s:%d: failed: %s (process %u)\n", __FILE__, __LINE__, #condition, \
                   ::weft::test::Process::current);                                            \
      std::fflush(stderr);                                                                     \
      ::_exit(1);                                                                              \
    }                                                                                          \
  } while (0)

/// One process: its network, received messages and lost peers.
class Process final : public transport::Receiver, private transport::Directory {
 public:
  static inline Peer current = 0;
  Peer self;
  std::unique_ptr<transport::Network> net;
  using Handler = std::function<void(Peer, const std::byte*, size_t)>;
  std::vector<std::pair<Peer, std::string>> losses;
  std::vector<std::string> addresses;

  void deliver(Peer source, const std::byte* message, size_t size) override {
    CHECK(reinterpret_cast<uintptr_t>(message) % 8 == 0);
    if (handler_)
      handler_(source, message, size);
    else
      undelivered_.emplace_back(source, std::vector<std::byte>(message, message + size));
  }
  /// Passes stored and new messages to `handler` until done(); returns false on timeout.
  bool deliver_until(const Handler& handler, const std::function<bool()>& done, double seconds = 30) {
    handler_ = [&](Peer source, const std::byte* message, size_t size) {
      if (done())
        undelivered_.emplace_back(source, std::vector<std::byte>(message, message + size));
      else
        handler(source, message, size);
    };
    while (!undelivered_.empty() && !done()) {
      const auto [source, message] = std::move(undelivered_.front());
      undelivered_.pop_front();
      handler(source, message.data(), message.size());
    }
    const bool in_time = poll_until(done, seconds);
    handler_ = nullptr;
    return in_time;
  }
  void lost(Peer peer, const Error& why) override { losses.emplace_back(peer, why.message()); }
  Result<std::string> address(Peer peer) override { return addresses[peer]; }
  void start() { net->start(*this); }

  size_t poll() { return net->poll(*this, 64); }
  /// Polls until done(); returns false after `seconds`.
  bool poll_until(const std::function<bool()>& done, double seconds = 30) {
    const double end = now() + seconds;
    while (!done()) {
      if (now() > end) return false;
      poll();
    }
    return true;
  }
  void send(Peer to, const void* data, size_t size) {
    std::byte* message = nullptr;
    CHECK(poll_until([&] { return (message = net->reserve(to, size)) != nullptr; }));
    if (size != 0) std::memcpy(message, data, size);
    net->commit(to, size);
  }

 private:
  Handler handler_;
  std::deque<std::pair<Peer, std::vector<std::byte>>> undelivered_;
};

/// Completion of a get that records its outcome.
struct GetCompletion : Completion {
  bool completed = false;
  Status outcome;
  GetCompletion() : Completion{fire} {}
  static void fire(Completion& self, Status status) {
    auto& completion = static_cast<GetCompletion&>(self);
    CHECK(!completion.completed);
    completion.completed = true;
    completion.outcome = std::move(status);
  }
};

inline bool all_are(const std::vector<int>& codes, int value) {
  for (const int code : codes)
    if (code != value) return false;
  return true;
}
inline std::string text(const std::vector<int>& codes) {
  std::string all;
  for (const int code : codes) all += std::to_string(code) + " ";
  return all;
}

using Body = std::function<void(Process&)>;

/// Runs one process per body; addresses are exchanged before the bodies start. Returns the exit codes
/// (SIGKILL: -9; kSkipped without libfabric or the provider).
inline std::vector<int> run(const std::vector<Body>& bodies) {
  const size_t count = bodies.size();
  std::vector<std::array<int, 2>> up(count), down(count);
  for (size_t i = 0; i < count; ++i)
    if (::pipe(up[i].data()) != 0 || ::pipe(down[i].data()) != 0) return {};
  std::vector<pid_t> children;
  for (size_t i = 0; i < count; ++i) {
    const pid_t child = ::fork();
    if (child != 0) {
      children.push_back(child);
      continue;
    }
    ::alarm(100);
    Process process;
    process.self = Process::current = static_cast<Peer>(i);
    if (auto loaded = config::load(); !loaded) {
      std::fprintf(stderr, "%s\n", loaded.error().message().c_str());
      ::_exit(1);
    }
    launch::Job job;
    job.rank = static_cast<int>(i);
    job.size = static_cast<int>(count);
    job.local_rank = job.rank;  // of a list WEFT_NET_OFI_NIC, process i takes entry i
    job.local_size = job.size;
    job.id = "test";
    auto opened = transport::ofi::Ofi::open(job);
    std::string own(512, '\0');
    if (opened) {
      process.net = std::move(*opened);
      own = process.net->address();
    } else {
      std::fprintf(stderr, "skipped: needs libfabric1 and its provider: %s\n",
                   opened.error().message().c_str());
    }
    own.resize(512);
    CHECK(::write(up[i][1], own.data(), 512) == 512);
    for (size_t peer = 0; peer < count; ++peer) {
      std::string text(512, '\0');
      CHECK(::read(down[i][0], text.data(), 512) == 512);
      process.addresses.push_back(text);
    }
    if (!opened) ::_exit(kSkipped);
    process.start();
    bodies[i](process);
    process.net->close();
    ::_exit(0);
  }
  std::string all;
  for (size_t i = 0; i < count; ++i) {
    std::string text(512, '\0');
    if (::read(up[i][0], text.data(), 512) != 512) text[0] = '\0';
    all += text;
  }
  for (size_t i = 0; i < count; ++i)
    if (::write(down[i][1], all.data(), all.size()) != static_cast<ssize_t>(all.size())) return {};
  std::vector<int> codes;
  for (const pid_t child : children) {
    int status = 0;
    ::waitpid(child, &status, 0);
    codes.push_back(WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status));
  }
  for (size_t i = 0; i < count; ++i)
    for (const int fd : {up[i][0], up[i][1], down[i][0], down[i][1]}) ::close(fd);
  return codes;
}

}  // namespace weft::test
