// SPDX-License-Identifier: BSD-3-Clause
// Run: what several collectives share, and which function does which.
#include "coll/shared/run.hpp"

#include <cstring>
#include <string>

namespace weft::coll::shared {
namespace {

/// Bytes of one buffer up to which all ranks reduce everything, instead of a part each.
constexpr size_t kReduceAll = 2 << 10;

/// What a rank shows of data that others read in its memory.
struct Address {
  uint64_t address, failed;
};

}  // namespace

Error Run::size_error(int rank, size_t shown, size_t awaited) {
  return Error(Errc::truncate, "rank " + std::to_string(rank) + " gave " + std::to_string(shown) +
                                   " bytes where " + std::to_string(awaited) +
                                   " were awaited: make counts and types of both sides agree");
}

void Run::put_address(uint32_t step, const void* address) {
  const Address shown{reinterpret_cast<uint64_t>(address), outcome_.ok() ? 0u : 1u};
  std::memcpy(channel_.claim(step, sizeof shown), &shown, sizeof shown);
  channel_.show(step, sizeof shown);
}

void Run::get_direct(int rank, uint32_t step, void* to, uint64_t offset, size_t n) {
  Address shown;
  std::memcpy(&shown, channel_.await(rank, step).data, sizeof shown);
  if (shown.failed != 0)
    note(Error(Errc::truncate, "rank " + std::to_string(rank) + " has nothing to give, it failed before"));
  if (outcome_.ok()) note(channel_.get(rank, to, shown.address + offset, n));
}

/// Shows bytes [first, first + n) of all blocks but the own.
void Run::write_blocks(uint32_t step, const std::byte* blocks, uint64_t first, uint64_t n) {
  const size_t shown = outcome_.ok() ? n * static_cast<size_t>(call_.size - 1) : 0;
  std::byte* room = channel_.claim(step, shown);
  if (shown != 0)
    others([&](int rank) {
      p2p::copy_small(room + place(rank, call_.rank) * n,
                      blocks + static_cast<uint64_t>(rank) * call_.bytes + first, n);
    });
  channel_.show(step, shown);
}

Status Run::operator()() {
  switch (call_.what) {
    case Collective::barrier:
      barrier();
      break;
    case Collective::bcast:
      bcast();
      break;
    case Collective::reduce:
      reduce();
      break;
    case Collective::allreduce:
      call_.bytes* static_cast<uint64_t>(call_.size) <= kReduceAll ? allreduce_all() : allreduce_parts();
      break;
    case Collective::allgather:
      allgather();
      break;
    case Collective::alltoall:
      alltoall();
      break;
    case Collective::gather:
      gather();
      break;
    default:
      scatter();
  }
  return std::move(outcome_);
}

}  // namespace weft::coll::shared
