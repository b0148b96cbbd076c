// SPDX-License-Identifier: BSD-3-Clause
// Two forked processes with remote memory access between them. Active messages go over a socket of limited
// capacity; with a network, the processes are on different hosts.
#pragma once
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <cstring>
#include <deque>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "../device/cuda_test_support.hpp"
#include "base/config.hpp"
#include "transport/ofi/ofi.hpp"
#include "transport/rma/rma.hpp"
#include "transport/ucx/ucx.hpp"

namespace weft::test {

using transport::Peer;
namespace am = transport::am;
namespace rma = transport::rma;
namespace cuda_ipc = transport::cuda_ipc;

/// Ends the calling process with an error message that names the line.
#define CHECK(condition)                                                                       \
  do {                                                                                         \
    if (!(condition)) {                                                                        \
      std::fprintf(stderr, "%s:%d: failed: %s (process %d)\n", __FILE__, __LINE__, #condition, \
                   static_cast<int>(::getpid()));                                              \
      std::fflush(stderr);                                                                     \
      ::_exit(1);                                                                              \
    }                                                                                          \
  } while (0)

constexpr int kSkipped = 77;
constexpr double kSeconds = 40;  // limit of a wait

/// How the two processes of a test are connected.
enum class Link { host, messages, ucx, ofi };

class Process final : public rma::Environment, public am::Sender, private transport::Directory {
 public:
  Process(Link link, Peer self, int socket)
      : link_(link), self_(self), socket_(socket), pid_(exchange_pids(socket)) {
    handlers_.add(
        kControl, am::kMinMessage,
        [](void* owner, Peer, const std::byte* message, size_t size) {
          static_cast<Process*>(owner)->received_.emplace_back(message + am::kMinMessage, message + size);
        },
        this);
    open_network();
    memory_access = std::make_unique<rma::Rma>(*this);
  }
  ~Process() {
    memory_access.reset();
    if (importer_) importer_->close();
    if (network_) network_->close();
  }

  // rma::Environment
  Peer self() const override { return self_; }
  am::HandlerTable& handlers() override { return handlers_; }
  am::Sender& sender() override { return *this; }
  Result<int> pid_of(Peer) override {
    if (link_ != Link::host) return Error(Errc::unsupported, "the test says so");
    return static_cast<int>(pid_);
  }
  bool same_host(Peer) override { return link_ == Link::host; }
  transport::Network* network(Peer peer) override { return peer == self_ ? nullptr : network_.get(); }
  cuda_ipc::Exporter& exporter() override {
    if (!exporter_) exporter_ = std::make_unique<cuda_ipc::Exporter>();
    return *exporter_;
  }
  cuda_ipc::Importer& importer() override {
    if (!importer_) importer_ = std::make_unique<cuda_ipc::Importer>();
    return *importer_;
  }

  // am::Sender
  void post(Peer, const void* message, size_t size) override {
    CHECK(size <= kMaxPosted);
    push({static_cast<const std::byte*>(message), static_cast<const std::byte*>(message) + size});
  }
  std::byte* reserve(Peer, size_t size) override {
    if (!unsent_.empty()) return nullptr;
    CHECK(size <= sizeof slot_);
    return slot_;
  }
  void commit(Peer, size_t size) override { push({slot_, slot_ + size}); }
  size_t max_message(Peer) override { return sizeof slot_; }

  bool poll() {
    flush();
    bool progressed = memory_access->poll();
    alignas(8) std::byte message[kMaxMessage];
    ssize_t n;
    for (; (n = ::recv(socket_, message, sizeof message, MSG_DONTWAIT)) > 0; progressed = true)
      handlers_.deliver(peer(), message, static_cast<size_t>(n));
    peer_ended_ = n == 0;
    if (network_) progressed |= network_->poll(handlers_, 64) != 0;
    return progressed;
  }
  void until(const std::function<bool()>& done) {
    const auto end = std::chrono::steady_clock::now() + std::chrono::duration<double>(kSeconds);
    while (!done()) {
      CHECK(std::chrono::steady_clock::now() < end);
      if (!poll()) ::usleep(20);
      CHECK(!peer_ended_ || done());
    }
  }
  /// Completes all operations on a target, of which none may have failed.
  void flush(rma::Target& target) {
    until([&] {
      auto flushed = memory_access->flush(target);
      if (!flushed) std::fprintf(stderr, "%s\n", flushed.error().message().c_str());
      CHECK(flushed.ok());
      return *flushed;
    });
  }
  /// Sends the other process a value.
  template <class T>
  void tell(const T& value) {
    std::vector<std::byte> message(am::kMinMessage + sizeof value);
    message[0] = static_cast<std::byte>(kControl);
    std::memcpy(message.data() + am::kMinMessage, &value, sizeof value);
    push(std::move(message));
  }
  /// Waits for a value from the other process.
  template <class T>
  T await() {
    until([&] { return !received_.empty(); });
    T value;
    CHECK(received_.front().size() == sizeof value);
    std::memcpy(&value, received_.front().data(), sizeof value);
    received_.pop_front();
    return value;
  }
  /// Returns when both processes have called it.
  void synchronise() {
    tell(kToken);
    CHECK(await<int>() == kToken);
  }
  [[nodiscard]] Peer peer() const { return 1 - self_; }

  std::unique_ptr<rma::Rma> memory_access;

 private:
  static constexpr am::HandlerId kControl = 200;
  static constexpr size_t kMaxMessage = 8192;
  static constexpr int kToken = 4711;

  static pid_t exchange_pids(int socket) {
    const pid_t own = ::getpid();
    pid_t other = 0;
    CHECK(::send(socket, &own, sizeof own, 0) == sizeof own);
    CHECK(::recv(socket, &other, sizeof other, 0) == sizeof other);
    return other;
  }
  void open_network() {
    if (link_ != Link::ucx && link_ != Link::ofi) return;
    launch::Job job;
    job.rank = static_cast<int>(self_);
    job.size = 2;
    job.id = "test";
    auto opened = link_ == Link::ucx ? transport::ucx::open(job) : transport::ofi::open(job);
    if (!opened) {
      std::fprintf(stderr, "skipped: %s\n", opened.error().message().c_str());
      ::_exit(kSkipped);
    }
    network_ = std::move(*opened);
    const std::string own = network_->address();
    CHECK(::send(socket_, own.data(), own.size(), 0) == static_cast<ssize_t>(own.size()));
    peer_address_.resize(4096);
    const ssize_t n = ::recv(socket_, peer_address_.data(), peer_address_.size(), 0);
    if (n <= 0) ::_exit(kSkipped);  // the other process has reported the reason
    peer_address_.resize(static_cast<size_t>(n));
    network_->start(*this);
  }
  Result<std::string> address(Peer) override { return peer_address_; }

  void push(std::vector<std::byte> message) {
    unsent_.push_back(std::move(message));
    flush();
  }
  void flush() {
    for (; !unsent_.empty(); unsent_.pop_front())
      if (::send(socket_, unsent_.front().data(), unsent_.front().size(), MSG_DONTWAIT | MSG_NOSIGNAL) < 0)
        return;
  }

  const Link link_;
  const Peer self_;
  const int socket_;
  const pid_t pid_;
  am::HandlerTable handlers_;
  std::unique_ptr<cuda_ipc::Exporter> exporter_;
  std::unique_ptr<cuda_ipc::Importer> importer_;
  std::unique_ptr<transport::Network> network_;
  std::string peer_address_;
  bool peer_ended_ = false;
  std::deque<std::vector<std::byte>> unsent_, received_;
  alignas(8) std::byte slot_[kMaxMessage];
};

using Body = std::function<void(Process&)>;

/// Runs two processes; returns 0, the exit code of a failed process, or kSkipped.
inline int run(Link link, const Body& first, const Body& second) {
  int sockets[2];
  if (::socketpair(AF_UNIX, SOCK_SEQPACKET, 0, sockets) != 0) return -1;
  pid_t children[2];
  for (Peer self = 0; self < 2; ++self) {
    children[self] = ::fork();
    if (children[self] != 0) continue;
    ::close(sockets[1 - self]);
    ::alarm(100);
    CHECK(settings_loaded().ok());
    {
      Process process(link, self, sockets[self]);
      (self == 0 ? first : second)(process);
      process.synchronise();
    }
    ::_exit(0);
  }
  ::close(sockets[0]);
  ::close(sockets[1]);
  int result = 0;
  for (const pid_t child : children) {
    int status = 0;
    ::waitpid(child, &status, 0);
    const int code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
    if (result == 0 || (result == kSkipped && code != 0)) result = code;
  }
  return result;
}

}  // namespace weft::test
