// SPDX-License-Identifier: BSD-3-Clause
// Allreduce in shared memory: small vectors are reduced by every rank, larger ones a part by each.
#include <algorithm>
#include <cstring>

#include "coll/algorithm/tree.hpp"
#include "coll/shared/run.hpp"

namespace weft::coll::shared {

using algorithm::Part;

void Run::allreduce_all() {
  const size_t n = call_.bytes;
  auto* result = static_cast<std::byte*>(call_.recv.address);
  exchange(
      1, [&](uint32_t step, uint32_t) { put(step, call_.send.address, n); },
      [&](uint32_t step, uint32_t) {
        for (int rank = call_.size - 1; rank >= 0; --rank) {
          const Shown term = take(rank, step, n);
          if (!outcome_.ok()) continue;
          rank == call_.size - 1 ? p2p::copy_small(result, term.data, n)
                                 : fold(term.data, result, call_.send.count);
        }
      });
}

void Run::allreduce_parts() {
  const int64_t page = static_cast<int64_t>(Channel::kPageBytes / element()), count = call_.send.count;
  const int64_t group = page * Channel::kAhead;
  for (int64_t first = 0; first < count; first += group) {
    const int64_t n = std::min(group, count - first);
    allreduce_group(first, n, static_cast<uint32_t>((n + page - 1) / page));
  }
}

// A page at a time: the inputs are shown, but for the own part; each rank shows its part of the result.
void Run::allreduce_group(int64_t first, int64_t n, uint32_t pages) {
  const size_t size = element();
  const int64_t page = static_cast<int64_t>(Channel::kPageBytes / size);
  const auto* mine = static_cast<const std::byte*>(call_.send.address);
  auto* result = static_cast<std::byte*>(call_.recv.address);
  const auto elements = [&](uint32_t i) { return std::min(page, n - i * page); };
  const auto place_of = [&](uint32_t i) { return static_cast<size_t>(first + i * page) * size; };
  const auto part = [&](uint32_t i, int rank) { return Part(elements(i), call_.size, rank); };
  const uint32_t inputs = channel_.begin(2 * pages), results = inputs + pages;

  for (uint32_t i = 0; i < pages; ++i) {
    const size_t all = static_cast<size_t>(elements(i)) * size;
    const Part own = part(i, call_.rank);
    const size_t from = static_cast<size_t>(own.first) * size,
                 to = from + static_cast<size_t>(own.count) * size;
    const size_t shown = outcome_.ok() ? all : 0;
    std::byte* room = channel_.claim(inputs + i, shown);
    if (shown != 0) {
      std::memcpy(room, mine + place_of(i), from);
      std::memcpy(room + to, mine + place_of(i) + to, all - to);
    }
    channel_.show(inputs + i, shown);
  }
  for (uint32_t i = 0; i < pages; ++i) {
    const size_t all = static_cast<size_t>(elements(i)) * size;
    const Part own = part(i, call_.rank);
    const size_t at = static_cast<size_t>(own.first) * size, bytes = static_cast<size_t>(own.count) * size;
    others([&](int rank) { static_cast<void>(take(rank, inputs + i, all)); });
    channel_.met(inputs + i);
    const size_t shown = outcome_.ok() ? bytes : 0;
    std::byte* target = channel_.claim(results + i, shown);
    for (int rank = call_.size - 1; rank >= 0 && shown != 0; --rank) {
      const std::byte* term =
          rank == call_.rank ? mine + place_of(i) + at : channel_.await(rank, inputs + i).data + at;
      rank == call_.size - 1 ? p2p::copy_small(target, term, bytes) : fold(term, target, own.count);
    }
    channel_.show(results + i, shown);
  }
  for (uint32_t i = 0; i < pages; ++i)
    for (int rank = 0; rank < call_.size; ++rank) {
      const Part theirs = part(i, rank);
      get(rank, results + i, result + place_of(i) + static_cast<size_t>(theirs.first) * size,
          static_cast<size_t>(theirs.count) * size);
    }
  channel_.met(results + pages - 1);
}

}  // namespace weft::coll::shared
