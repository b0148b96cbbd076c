// SPDX-License-Identifier: BSD-3-Clause
// Transfer of file descriptors of cuMemMap memory: the importer duplicates them with pidfd_getfd, which needs
// the same permission as process_vm_readv. Without that permission the exporter sends them (mailbox.hpp).
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
    "Mapping of cuMemMap memory in other processes, if it was created with a file descriptor as "
    "its handle type; off: such memory is packed or staged.",
    "memory that the program releases must be free at once although peers have mapped it (off)");
config::Size setting_descriptors(
    "gpu.ipc_max_descriptors", 4096, 1, size_t{1} << 20,
    "Largest number of file descriptors kept open for exported cuMemMap memory, and again for imported "
    "memory; limited to a quarter of RLIMIT_NOFILE. Beyond it such memory is packed.");

// System call numbers, equal on all architectures; older C libraries do not define them.
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

Error cannot_acquire(const std::string& why) {
  return Error(Errc::unsupported, "the descriptors of a peer's cuMemMap memory cannot be acquired (" + why +
                                      "): the message is packed or staged");
}

Error cannot_acquire(const char* call, int reason) {
  return cannot_acquire(std::string(call) + ": " + std::strerror(reason));
}

}  // namespace

bool descriptor_sharing_enabled() { return !setting_fd.is("off"); }

size_t max_open_descriptors() {
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0) return setting_descriptors;
  return std::min<size_t>(setting_descriptors, limit.rlim_cur / 4);
}

DescriptorList::DescriptorList(uint64_t epoch, uint64_t buffer_id,
                               std::vector<device::ShareableHandle> descriptors)
    : words_{epoch, buffer_id, descriptors.size()} {
  for (const auto& descriptor : descriptors) {
    words_.push_back(static_cast<uint64_t>(descriptor.fd));
    words_.push_back(descriptor.size);
  }
}

// Invalidates the list before its descriptors are closed: their numbers may then refer to other files.
DescriptorList::~DescriptorList() {
  for (size_t at = 0; at < kFirstDescriptor; ++at)
    if (at != kCount) std::atomic_ref(words_[at]).store(0, std::memory_order_seq_cst);
  std::atomic_thread_fence(std::memory_order_seq_cst);
  for (size_t i = 0; i < size(); ++i) ::close(static_cast<int>(words_[kFirstDescriptor + 2 * i]));
}

void DescriptorList::put_into(Region& region) const {
  const auto address = reinterpret_cast<uint64_t>(words_.data());
  std::memcpy(region.handle.data(), &address, sizeof address);
  region.descriptors = static_cast<uint16_t>(size());
  region.pid = ::getpid();
}

/// Returns the list; empty if it cannot be read or does not belong to the region.
std::vector<uint64_t> DescriptorList::read(const Region& region) {
  uint64_t address = 0;
  std::memcpy(&address, region.handle.data(), sizeof address);
  std::vector<uint64_t> words(kFirstDescriptor + 2 * size_t{region.descriptors});
  const iovec here{words.data(), words.size() * sizeof words[0]};
  const iovec there{reinterpret_cast<void*>(address), here.iov_len};
  const ssize_t got = ::process_vm_readv(region.pid, &here, 1, &there, 1, 0);
  const bool good = got == static_cast<ssize_t>(here.iov_len) && words[kEpoch] == region.epoch &&
                    words[kBufferId] == region.buffer_id && words[kCount] == region.descriptors;
  if (!good) words.clear();
  return words;
}

Status DescriptorList::send(uint64_t mailbox) const {
  std::vector<device::ShareableHandle> descriptors;
  for (size_t at = kFirstDescriptor; at < words_.size(); at += 2)
    descriptors.push_back({static_cast<int>(words_[at]), words_[at + 1]});
  return send_descriptors(mailbox, words_[kEpoch], words_[kBufferId], descriptors);
}

Result<std::vector<device::ShareableHandle>> DescriptorList::acquire(const Region& region) {
  if (region.descriptors > device::kMaxShareableHandles)
    return Error(Errc::intern, "a region has too many descriptors");
  const std::vector<uint64_t> words = read(region);
  if (words.empty())
    return cannot_acquire("their list cannot be read by process_vm_readv, or has been withdrawn");
  const Descriptor process(::syscall(kPidfdOpen, region.pid, 0));
  if (process.get() < 0) return cannot_acquire("pidfd_open", errno);
  std::vector<device::ShareableHandle> descriptors;
  for (size_t at = kFirstDescriptor; at < words.size(); at += 2) {
    const long fd = ::syscall(kPidfdGetfd, process.get(), static_cast<int>(words[at]), 0);
    if (fd < 0) {
      const int reason = errno;
      device::close_all(descriptors);
      return cannot_acquire("pidfd_getfd", reason);
    }
    descriptors.push_back({static_cast<int>(fd), words[at + 1]});
  }
  if (read(region) != words) {
    device::close_all(descriptors);
    return cannot_acquire("the exporter has withdrawn them");
  }
  return descriptors;
}

}  // namespace weft::transport::cuda_ipc
