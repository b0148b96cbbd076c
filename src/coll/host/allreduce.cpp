// SPDX-License-Identifier: BSD-3-Clause
// Allreduce and reduce-scatter in shared memory. Allreduce: every rank reduces a whole small vector, or its
// own part of a larger vector. Reduce-scatter: every rank publishes its vector, which fits a page, and
// reduces its block.
#include <algorithm>
#include <cstring>

#include "coll/algorithm/reduction.hpp"
#include "coll/algorithm/tree.hpp"
#include "coll/host/run.hpp"

namespace weft::coll::host {

using algorithm::Part;

void Run::allreduce_redundant() {
  const size_t n = call_.bytes;
  const auto* mine = static_cast<const std::byte*>(call_.send.address);
  auto* result = static_cast<std::byte*>(call_.recv.address);
  // An intermediate result would overwrite this rank's term in place.
  const bool term_stays = !call_.in_place || call_.size == 2;
  exchange(
      1, [&](Step step, uint32_t) { publish(step, mine, n); },
      [&](Step step, uint32_t) {
        combine(result, call_.send.count, [&](int rank) {
          return rank == call_.rank && term_stays ? mine : wait_for(rank, step, n).data;
        });
        check_terms(step, n);
      });
}

void Run::reduce_scatter() {
  const algorithm::Part mine = algorithm::share(call_, call_.rank);
  const size_t all = call_.bytes, at = static_cast<size_t>(mine.first) * element();
  auto* result = static_cast<std::byte*>(call_.recv.address);
  exchange(
      1, [&](Step step, uint32_t) { publish(step, call_.send.address, all); },
      [&](Step step, uint32_t) {
        for_each_peer([&](int rank) { static_cast<void>(wait_for(rank, step, all)); });
        combine(result, mine.count, [&](int rank) { return wait_for(rank, step, all).data + at; });
        check_terms(step, all);
      });
}

void Run::allreduce_partitioned() {
  const int64_t page = static_cast<int64_t>(SlotSteps::kPageBytes / element()), count = call_.send.count;
  const int64_t group = page * SlotSteps::kPipelineSteps;
  for (int64_t first = 0; first < count; first += group) {
    const int64_t n = std::min(group, count - first);
    allreduce_group(first, n, static_cast<uint32_t>((n + page - 1) / page));
  }
}

// Page by page: each rank publishes its input except its own part, then its part of the result, which it
// combines in its receive buffer unless its input is there. A rank publishes the first input after it has
// read all earlier steps, and the result of a page after it has read the inputs of that page and of those
// before.
void Run::allreduce_group(int64_t first, int64_t n, uint32_t pages) {
  const size_t size = element();
  const int64_t page = static_cast<int64_t>(SlotSteps::kPageBytes / size);
  const auto* mine = static_cast<const std::byte*>(call_.send.address);
  auto* result = static_cast<std::byte*>(call_.recv.address);
  const auto elements = [&](uint32_t i) { return std::min(page, n - i * page); };
  const auto page_offset = [&](uint32_t i) { return static_cast<size_t>(first + i * page) * size; };
  const auto part = [&](uint32_t i, int rank) { return Part(elements(i), call_.size, rank); };
  const Step inputs = channel_.reserve_steps(2 * pages), results = inputs + pages;

  for (uint32_t i = 0; i < pages; ++i) {
    const size_t all = static_cast<size_t>(elements(i)) * size;
    const Part own = part(i, call_.rank);
    const size_t from = static_cast<size_t>(own.first) * size,
                 to = from + static_cast<size_t>(own.count) * size;
    const size_t published = outcome_.ok() ? all : 0;
    std::byte* slot = channel_.claim(inputs + i, published);
    if (published != 0) {
      std::memcpy(slot, mine + page_offset(i), from);
      std::memcpy(slot + to, mine + page_offset(i) + to, all - to);
    }
    channel_.publish(inputs + i, published);
  }
  for (uint32_t i = 0; i < pages; ++i) {
    const size_t all = static_cast<size_t>(elements(i)) * size;
    const Part own = part(i, call_.rank);
    const size_t at = static_cast<size_t>(own.first) * size, bytes = static_cast<size_t>(own.count) * size;
    for_each_peer([&](int rank) { static_cast<void>(wait_for(rank, inputs + i, all)); });
    channel_.all_have_read(inputs - 1);
    const size_t published = outcome_.ok() ? bytes : 0;
    std::byte* const slot = channel_.claim(results + i, published);
    std::byte* const target = call_.in_place ? slot : result + page_offset(i) + at;
    if (published != 0)
      combine(target, own.count, [&](int rank) {
        return rank == call_.rank ? mine + page_offset(i) + at
                                  : channel_.wait_published(rank, inputs + i).data + at;
      });
    check_terms(inputs + i, all);
    channel_.note_read(inputs + i);
    // A copy does not read the lines of the slot from the cores that read them last, as the operation would.
    if (target != slot && published != 0) std::memcpy(slot, target, bytes);
    channel_.publish(results + i, published);
  }
  for (uint32_t i = 0; i < pages; ++i)
    for (int rank = 0; rank < call_.size; ++rank) {
      const Part theirs = part(i, rank);
      if (rank == call_.rank && !call_.in_place) continue;
      receive(rank, results + i, result + page_offset(i) + static_cast<size_t>(theirs.first) * size,
              static_cast<size_t>(theirs.count) * size);
    }
  channel_.exchanged(results, results + pages - 1);
}

}  // namespace weft::coll::host
