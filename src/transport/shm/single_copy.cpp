// SPDX-License-Identifier: BSD-3-Clause
// Bulk data by process_vm_readv: one copy by the kernel, straight from the peer's memory.
#include <sys/uio.h>

#include <algorithm>
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
    "Whether large host messages are read straight from the sender (process_vm_readv)."};

constexpr size_t kVector = 64;             // pieces a call; IOV_MAX is 1024
constexpr size_t kCall = size_t{1} << 30;  // bytes a call; the kernel stops at 2 GiB minus a page

/// Walks a list of pieces, giving out at most `limit` bytes as iovecs.
class Walk {
 public:
  explicit Walk(std::span<const Piece> pieces) : pieces_(pieces) {}
  size_t fill(iovec* vector, size_t& used, size_t limit) const {
    size_t total = 0, at = index_, offset = offset_;
    for (used = 0; used < kVector && at < pieces_.size() && total < limit; ++used, ++at, offset = 0) {
      const size_t length = std::min(pieces_[at].length - offset, limit - total);
      vector[used] = {reinterpret_cast<void*>(pieces_[at].address + offset), length};
      total += length;
    }
    return total;
  }
  void advance(size_t bytes) {
    while (bytes != 0) {
      const size_t step = std::min(bytes, pieces_[index_].length - offset_);
      offset_ += step;
      bytes -= step;
      if (offset_ == pieces_[index_].length) ++index_, offset_ = 0;
    }
  }
  [[nodiscard]] bool done() const { return index_ == pieces_.size(); }

 private:
  std::span<const Piece> pieces_;
  size_t index_ = 0, offset_ = 0;
};

}  // namespace

Status Shm::can_get(Peer peer) {
  Outgoing& out = out_[local(peer)];
  if (out.readable < 0) {
    auto proof = probe(peer);
    out.readable = proof.ok() ? 1 : 0;
    return proof;
  }
  if (out.readable == 1) return {};
  return Error(Errc::unsupported, "process_vm_readv does not work here");
}

Status Shm::probe(Peer peer) {
  if (!single_copy.is("auto")) return Error(Errc::unsupported, "switched off by WEFT_SHM_SINGLE_COPY=off");
  const Area& area = this->area(peer);
  uint64_t found = 0;
  const Piece local{reinterpret_cast<uint64_t>(&found), sizeof found};
  const Piece remote{area.probe_address.load(std::memory_order_relaxed), sizeof found};
  WEFT_TRY(get(peer, {&local, 1}, {&remote, 1}));
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

Status Shm::get(Peer peer, std::span<const Piece> local, std::span<const Piece> remote) {
  const pid_t pid = area(peer).pid.load(std::memory_order_relaxed);
  Walk to(local), from(remote);
  while (!to.done() && !from.done()) {
    iovec to_vector[kVector], from_vector[kVector];
    size_t to_count = 0, from_count = 0;
    const size_t offered = to.fill(to_vector, to_count, kCall);
    from.fill(from_vector, from_count, offered);
    const ssize_t got = ::process_vm_readv(pid, to_vector, to_count, from_vector, from_count, 0);
    if (got <= 0) {
      const int reason = errno;
      return Error(got < 0 && reason != EFAULT ? Errc::unsupported : Errc::buffer,
                   std::string("process_vm_readv failed (") + std::strerror(reason) + ")");
    }
    to.advance(static_cast<size_t>(got));
    from.advance(static_cast<size_t>(got));
  }
  return {};
}

}  // namespace weft::transport::shm
