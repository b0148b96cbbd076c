// SPDX-License-Identifier: BSD-3-Clause
// Tests of CUDA IPC between two processes: a child process of the same program that exports memory on
// request.
#pragma once
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "../reference/counted.hpp"
#include "cuda_test_support.hpp"
#include "device/ipc.hpp"
#include "transport/cuda_ipc/ipc.hpp"

namespace weft::test {

using transport::cuda_ipc::Drop;
using transport::cuda_ipc::Exporter;
using transport::cuda_ipc::Importer;
using transport::cuda_ipc::Mapping;
using transport::cuda_ipc::Peer;
using transport::cuda_ipc::Probe;
using transport::cuda_ipc::Region;
using Kind = Buffer::Kind;

inline constexpr const char* kChildVariable = "TEST_EXPORTER_SOCKET";
inline constexpr const char* kDeviceVariable = "TEST_EXPORTER_DEVICE";
inline constexpr Peer kPeer = 5, kMe = 9;

/// Request of the importer to the child, and its answer; both of fixed size.
struct Request {
  /// map, map_unshared: allocate cuMemMap memory. replace, remap: replace allocation number `size` by another
  /// one or by itself. describe: describe the first `size` bytes again. descriptors: return the number of
  /// open descriptors in `drops`. mail: from now on send descriptors to mailbox `size`.
  enum class Type {
    allocate,
    map,
    map_unshared,
    replace,
    remap,
    describe,
    free,
    fill,
    check,
    sweep,
    descriptors,
    mail,
    quit
  } type;
  size_t slot, size;
  unsigned seed;
};
struct Answer {
  bool ok, probe_due;
  Region region;
  Probe probe;
  uint64_t address;
  size_t drops;
  Drop drop[8];
  char refusal[300];  // reason if cuMemMap memory is not exported
};

inline void send_all(int socket, const void* data, size_t n) {
  if (::send(socket, data, n, MSG_NOSIGNAL) != static_cast<ssize_t>(n)) std::_Exit(10);
}
inline bool receive_all(int socket, void* data, size_t n) {
  return ::recv(socket, data, n, MSG_WAITALL) == static_cast<ssize_t>(n);
}

/// The exporting process: serves requests until the socket is closed.
class ExportServer {
 public:
  ExportServer(int socket, int device) : socket_(socket), device_(device) {}
  int serve() {
    Request request;
    while (receive_all(socket_, &request, sizeof request) && request.type != Request::Type::quit) {
      Answer answer{};
      answer.ok = handle(request, answer);
      send_all(socket_, &answer, sizeof answer);
    }
    exporter_.close();
    slots_.clear();
    return 0;
  }

 private:
  bool handle(const Request& request, Answer& answer) {
    std::unique_ptr<Buffer>& slot = slots_[request.slot];
    switch (request.type) {
      case Request::Type::allocate:
        slot = std::make_unique<Buffer>(Kind::device, request.size, device_);
        slot->write(pattern(request.size, request.seed));
        return describe(*slot, request.size, answer);
      case Request::Type::map:
      case Request::Type::map_unshared:
        slot = std::make_unique<Buffer>(request.type == Request::Type::map ? Kind::mapped : Kind::unshared,
                                        request.size, device_);
        slot->write(pattern(request.size, request.seed));
        return describe(*slot, request.size, answer);
      case Request::Type::replace:
      case Request::Type::remap:
        slot->replace(request.size, request.type == Request::Type::replace);
        slot->write(pattern(slot->size(), request.seed));
        return describe(*slot, slot->size(), answer);
      case Request::Type::describe:
        return describe(*slot, request.size, answer);
      case Request::Type::descriptors:
        answer.drops = exporter_.descriptors();
        return true;
      case Request::Type::mail:
        exporter_.use_mailbox(kMe, request.size);
        return true;
      case Request::Type::free:
        slot.reset();
        return true;
      case Request::Type::fill:
        slot->write(pattern(request.size, request.seed));
        return true;
      case Request::Type::check: {
        auto seen = slot->read();
        seen.resize(request.size);
        return seen == pattern(request.size, request.seed);
      }
      case Request::Type::sweep: {
        const auto drops = exporter_.sweep_freed();
        answer.drops = drops.size();
        for (size_t i = 0; i < drops.size() && i < 8; ++i) answer.drop[i] = drops[i];
        return true;
      }
      default:
        return false;
    }
  }
  bool describe(const Buffer& buffer, size_t size, Answer& answer) {
    const Memory memory = device::widened(buffer.memory(), buffer.data(), size);
    auto exported = exporter_.export_region(memory, kMe);
    auto probe = exporter_.probe(memory);
    if (!exported && memory.mapped) {
      std::snprintf(answer.refusal, sizeof answer.refusal, "%s", exported.error().message().c_str());
      return probe.ok();
    }
    if (!exported || !probe) return false;
    answer.region = *exported->region;
    answer.probe = *probe;
    answer.probe_due = exporter_.probe_due(memory, kMe);
    exporter_.probe_sent(memory, kMe);
    answer.address = reinterpret_cast<uintptr_t>(buffer.data());
    return true;
  }
  int socket_, device_;
  Exporter exporter_;
  std::map<size_t, std::unique_ptr<Buffer>> slots_;
};

/// Importer side of an exporting child. TEST_EXPORTER_VISIBLE and TEST_EXPORTER_CGROUP: its
/// CUDA_VISIBLE_DEVICES and EMUCUDA_CGROUP, of which it uses the first device.
class ExportChild {
 public:
  explicit ExportChild(int device, const char* visible = std::getenv("TEST_EXPORTER_VISIBLE")) {
    const char* const cgroup = std::getenv("TEST_EXPORTER_CGROUP");
    if (visible != nullptr || cgroup != nullptr) device = 0;
    int pair[2];
    EXPECT_EQ(::socketpair(AF_UNIX, SOCK_STREAM, 0, pair), 0);
    pid_ = ::fork();
    if (pid_ == 0) {
      ::close(pair[0]);
      ::setenv(kChildVariable, std::to_string(pair[1]).c_str(), 1);
      ::setenv(kDeviceVariable, std::to_string(device).c_str(), 1);
      if (visible != nullptr) ::setenv("CUDA_VISIBLE_DEVICES", visible, 1);
      if (cgroup != nullptr) ::setenv("EMUCUDA_CGROUP", cgroup, 1);
      ::execl("/proc/self/exe", "exporter", static_cast<char*>(nullptr));
      std::_Exit(127);
    }
    ::close(pair[1]);
    socket_ = pair[0];
  }
  ~ExportChild() { end(); }
  ExportChild(const ExportChild&) = delete;
  ExportChild& operator=(const ExportChild&) = delete;

  Answer request(Request::Type type, size_t slot = 0, size_t size = 0, unsigned seed = 0) {
    const Request request{type, slot, size, seed};
    Answer answer{};
    send_all(socket_, &request, sizeof request);
    EXPECT_TRUE(receive_all(socket_, &answer, sizeof answer)) << "the exporter died";
    EXPECT_TRUE(answer.ok) << "the exporter failed";
    return answer;
  }
  void end() {
    if (socket_ < 0) return;
    ::close(socket_);
    socket_ = -1;
    int status = 0;
    EXPECT_EQ(::waitpid(pid_, &status, 0), pid_);
    EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << "the exporter's status is " << status;
  }

 private:
  int socket_ = -1;
  pid_t pid_ = -1;
};

class IpcTest : public CudaTest {
 protected:
  /// Copies the start of a mapped region and compares it.
  void expect_content(const Mapping& mapping, const Region& region, size_t n, unsigned seed) {
    Buffer local(Kind::device, n);
    EXPECT_OK(device::copy(local.data(), local.memory(), mapping.at(region.base), mapping.memory(), n));
    EXPECT_EQ(local.read(), pattern(n, seed)) << "seed " << seed;
  }
  void SetUp() override {
    CudaTest::SetUp();
    if (IsSkipped() || HasFatalFailure()) return;
    remote_device_ = cuda().devices - 1;  // another GPU if available
  }
  int remote_device_ = 0;
};

/// Growth of the importers' counters during a test.
struct IpcCounted {
  Counted opens{"gpu.ipc_opens"}, hits{"gpu.ipc_hits"}, closes{"gpu.ipc_closes"},
      evictions{"gpu.ipc_evictions"}, refusals{"gpu.ipc_refusals"};
};

}  // namespace weft::test
