// SPDX-License-Identifier: BSD-3-Clause
// Descriptors from process to process: the importer takes them itself (pidfd_getfd), with the permission by
// which it reads the exporter's memory (process_vm_readv). Where it may not, they are sent (mailbox.hpp).
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <utility>

#include "base/config.hpp"
#include "transport/cuda_ipc/ipc.hpp"

namespace weft::transport::cuda_ipc {
namespace {

config::Choice setting_fd(
    "gpu.ipc_fd", 0, {"on", "off"},
    "Let other processes map cuMemMap memory that was created with a file descriptor as "
    "its handle type");
config::Size setting_descriptors(
    "gpu.ipc_descriptors", 4096, 1, size_t{1} << 20,
    "File descriptors kept open for cuMemMap memory that other processes may keep "
    "mapped, but at most a quarter of what this process may open; where all are "
    "in use, other such memory is packed");

// The same numbers on all architectures; older C libraries do not name them.
constexpr long kPidfdOpen = 434, kPidfdGetfd = 438;

class Descriptor {
 public:
  explicit Descriptor(long fd) : fd_(static_cast<int>(fd)) {}
  ~Descriptor() {
    if (fd_ >= 0) ::close(fd_);
  }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  [[nodiscard]] int get() const { return fd_; }

 private:
  int fd_;
};

Error refused(const std::string& why) {
  return Error(Errc::unsupported, "the descriptors of a peer's cuMemMap memory cannot be taken (" + why +
                                      "): the message is packed or staged");
}

Error refused(const char* call, int reason) {
  return refused(std::string(call) + ": " + std::strerror(reason));
}

}  // namespace

bool shares_descriptors() { return !setting_fd.is("off"); }

size_t most_descriptors() {
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0) return setting_descriptors;
  return std::min<size_t>(setting_descriptors, limit.rlim_cur / 4);
}

DescriptorList::DescriptorList(uint64_t epoch, uint64_t buffer_id, std::vector<device::Descriptor> pieces)
    : words_{epoch, buffer_id, pieces.size()} {
  for (const auto& piece : pieces) {
    words_.push_back(static_cast<uint64_t>(piece.fd));
    words_.push_back(piece.size);
  }
}

// Peers must see that it is over before a descriptor's number can stand for something else.
DescriptorList::~DescriptorList() {
  for (size_t at = 0; at < kPieces; ++at)
    if (at != kCount) std::atomic_ref(words_[at]).store(0, std::memory_order_seq_cst);
  std::atomic_thread_fence(std::memory_order_seq_cst);
  for (size_t i = 0; i < size(); ++i) ::close(static_cast<int>(words_[kPieces + 2 * i]));
}

void DescriptorList::put_into(Region& region) const {
  const auto address = reinterpret_cast<uint64_t>(words_.data());
  std::memcpy(region.handle.data(), &address, sizeof address);
  region.descriptors = static_cast<uint32_t>(size());
  region.pid = ::getpid();
}

/// Empty where it cannot be read, or is not the region's.
std::vector<uint64_t> DescriptorList::read(const Region& region) {
  uint64_t address = 0;
  std::memcpy(&address, region.handle.data(), sizeof address);
  std::vector<uint64_t> words(kPieces + 2 * size_t{region.descriptors});
  const iovec here{words.data(), words.size() * sizeof words[0]};
  const iovec there{reinterpret_cast<void*>(address), here.iov_len};
  const ssize_t got = ::process_vm_readv(region.pid, &here, 1, &there, 1, 0);
  const bool good = got == static_cast<ssize_t>(here.iov_len) && words[kEpoch] == region.epoch &&
                    words[kBufferId] == region.buffer_id && words[kCount] == region.descriptors;
  if (!good) words.clear();
  return words;
}

Status DescriptorList::send(uint64_t mailbox) const {
  std::vector<device::Descriptor> pieces;
  for (size_t at = kPieces; at < words_.size(); at += 2)
    pieces.push_back({static_cast<int>(words_[at]), words_[at + 1]});
  return send_descriptors(mailbox, words_[kEpoch], words_[kBufferId], pieces);
}

Result<std::vector<device::Descriptor>> DescriptorList::fetch(const Region& region) {
  if (region.descriptors > device::kMostDescriptors) return Error(Errc::intern, "a region lists too many");
  const std::vector<uint64_t> words = read(region);
  if (words.empty()) return refused("their list cannot be read by process_vm_readv, or has been withdrawn");
  const Descriptor process(::syscall(kPidfdOpen, region.pid, 0));
  if (process.get() < 0) return refused("pidfd_open", errno);
  std::vector<device::Descriptor> pieces;
  for (size_t at = kPieces; at < words.size(); at += 2) {
    const long fd = ::syscall(kPidfdGetfd, process.get(), static_cast<int>(words[at]), 0);
    if (fd < 0) {
      const int reason = errno;
      device::close_all(pieces);
      return refused("pidfd_getfd", reason);
    }
    pieces.push_back({static_cast<int>(fd), words[at + 1]});
  }
  if (read(region) != words) {
    device::close_all(pieces);
    return refused("the exporter has withdrawn them");
  }
  return pieces;
}

}  // namespace weft::transport::cuda_ipc
