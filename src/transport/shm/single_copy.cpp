// SPDX-License-Identifier: BSD-3-Clause
#include "transport/shm/single_copy.hpp"

#include <sys/uio.h>

#include <algorithm>
#include <bit>
#include <cerrno>
#include <cstring>

#include "base/clock.hpp"
#include "base/config.hpp"
#include "transport/shm/shm.hpp"

namespace weft::transport::shm {
namespace {

config::Choice single_copy{
    "shm.single_copy",
    0,
    {"auto", "off"},
    "Single-copy transfer of large host messages by process_vm_readv; off: copied through shared memory.",
    "a problem may be in process_vm_readv, or a security policy ends programs that call it (off)"};

constexpr size_t kMaxIovsPerCall = 64;                // IOV_MAX is 1024
constexpr size_t kMaxBytesPerCall = size_t{1} << 30;  // the kernel's limit is 2 GiB minus a page

/// Position in a list of memory ranges.
class IovCursor {
 public:
  explicit IovCursor(std::span<const Iov> iovs) : iovs_(iovs) {}
  /// Fills `vector` with the next ranges, at most `limit` bytes and kMaxIovsPerCall entries; returns the
  /// bytes.
  size_t fill(iovec* vector, size_t& used, size_t limit) const {
    size_t total = 0, at = index_, offset = offset_;
    for (used = 0; used < kMaxIovsPerCall && at < iovs_.size() && total < limit; ++used, ++at, offset = 0) {
      const size_t length = std::min(iovs_[at].length - offset, limit - total);
      vector[used] = {reinterpret_cast<void*>(iovs_[at].address + offset), length};
      total += length;
    }
    return total;
  }
  void advance(size_t bytes) {
    while (bytes != 0) {
      const size_t step = std::min(bytes, iovs_[index_].length - offset_);
      offset_ += step;
      bytes -= step;
      if (offset_ == iovs_[index_].length) ++index_, offset_ = 0;
    }
  }
  [[nodiscard]] bool done() const { return index_ == iovs_.size(); }

 private:
  std::span<const Iov> iovs_;
  size_t index_ = 0, offset_ = 0;
};

using ProcessCopy = ssize_t (*)(pid_t, const iovec*, unsigned long, const iovec*, unsigned long,
                                unsigned long);

Status copy_process(ProcessCopy copy, const char* name, pid_t process, std::span<const Iov> local,
                    std::span<const Iov> remote) {
  IovCursor here(local), there(remote);
  while (!here.done() && !there.done()) {
    iovec own[kMaxIovsPerCall], other[kMaxIovsPerCall];
    size_t own_count = 0, other_count = 0;
    const size_t requested = here.fill(own, own_count, kMaxBytesPerCall);
    there.fill(other, other_count, requested);
    const ssize_t copied = copy(process, own, own_count, other, other_count, 0);
    if (copied <= 0) {
      const int reason = copied < 0 ? errno : EFAULT;
      const Errc code = reason == EFAULT  ? Errc::buffer
                        : reason == ESRCH ? Errc::proc_aborted
                                          : Errc::unsupported;
      return Error(code, std::string(name) + " on pid " + std::to_string(process) + " failed (" +
                             std::strerror(reason) + ")");
    }
    here.advance(static_cast<size_t>(copied));
    there.advance(static_cast<size_t>(copied));
  }
  return {};
}

}  // namespace

bool single_copy_enabled() { return single_copy.is("auto"); }

namespace {

Error disabled() { return {Errc::unsupported, "disabled by WEFT_SHM_SINGLE_COPY=off"}; }

}  // namespace

Status Shm::can_get(Peer peer) {
  Outgoing& out = out_[local(peer)];
  if (out.readable < 0) {
    auto outcome = probe(peer);
    if (outcome.ok() || outcome.error().code() != Errc::proc_aborted) out.readable = outcome.ok() ? 1 : 0;
    return outcome;
  }
  if (out.readable == 1) return {};
  if (!single_copy_enabled()) return disabled();
  return Error(Errc::unsupported, "process_vm_readv failed in an earlier test");
}

Status Shm::probe(Peer peer) {
  if (!single_copy_enabled()) return disabled();
  const Area& area = this->area(peer);
  uint64_t found = 0;
  const Iov local{reinterpret_cast<uint64_t>(&found), sizeof found};
  const Iov remote{area.probe_address.load(std::memory_order_relaxed), sizeof found};
  if (Status got = get(peer, {&local, 1}, {&remote, 1}); !got) {
    // In another PID namespace, no process may have the peer's pid.
    const bool ended = got.error().code() != Errc::proc_aborted || pid_of(peer).ok();
    return ended ? std::move(got) : Status(Error(Errc::unsupported, got.error().message()));
  }
  if (found != area.probe_value.load(std::memory_order_relaxed))
    return Error(Errc::unsupported, "process_vm_readv reads another process (separate PID namespaces)");
  return {};
}

Result<uint64_t> Shm::get_cost(Peer peer) {
  WEFT_TRY(can_get(peer));
  uint64_t least = UINT64_MAX;
  for (int i = 0; i < 4; ++i) {
    const uint64_t begin = monotonic_ns();
    WEFT_TRY(probe(peer));
    least = std::min(least, monotonic_ns() - begin);
  }
  return least;
}

Status Shm::get(Peer peer, std::span<const Iov> local, std::span<const Iov> remote) {
  return copy_process(::process_vm_readv, "process_vm_readv", area(peer).pid.load(std::memory_order_relaxed),
                      local, remote);
}

Status Shm::put(Peer peer, std::span<const Iov> local, std::span<const Iov> remote) {
  return copy_process(::process_vm_writev, "process_vm_writev",
                      area(peer).pid.load(std::memory_order_relaxed), local, remote);
}

std::optional<uint32_t> Shm::lease_shared_copy() {
  const auto index = static_cast<uint32_t>(std::countr_one(shared_copies_used_));
  if (index >= kSharedCopies) return std::nullopt;
  shared_copies_used_ |= 1U << index;
  return index;
}

Status read_process(pid_t process, std::span<const Iov> local, std::span<const Iov> remote) {
  if (!single_copy_enabled()) return disabled();
  return copy_process(::process_vm_readv, "process_vm_readv", process, local, remote);
}

Status write_process(pid_t process, std::span<const Iov> local, std::span<const Iov> remote) {
  if (!single_copy_enabled()) return disabled();
  return copy_process(::process_vm_writev, "process_vm_writev", process, local, remote);
}

}  // namespace weft::transport::shm
