// SPDX-License-Identifier: BSD-3-Clause
#include "p2p/protocol/device_copy.hpp"

#include <vector>

namespace weft::p2p {
namespace {

using datatype::Count;

/// The memory runs of a range of a view's packed stream.
struct Run {
  std::byte* at;
  size_t length;
};

std::vector<Run> runs_of(const View& view, uint64_t offset, uint64_t n) {
  if (view.type == nullptr) return {{view.address + offset, n}};
  std::vector<Run> runs;
  datatype::for_each_run(*view.type, view.count, static_cast<Count>(offset), static_cast<Count>(n),
                         [&](Count at, Count length) {
                           runs.push_back({view.address + at, static_cast<size_t>(length)});
                         });
  return runs;
}

Result<device::Ticket> submit_ranges(const View& to, uint64_t to_offset, const View& from,
                                     uint64_t from_offset, uint64_t n, device::Lane lane) {
  if (to.type == nullptr && from.type == nullptr)
    return device::copy_async(to.address + to_offset, to.memory, from.address + from_offset, from.memory, n,
                              lane);
  const auto targets = runs_of(to, to_offset, n), sources = runs_of(from, from_offset, n);
  std::vector<device::Piece> pieces;
  pieces.reserve(std::max(targets.size(), sources.size()));
  size_t i = 0, j = 0, i_used = 0, j_used = 0;
  while (i < targets.size() && j < sources.size()) {
    const size_t length = std::min(targets[i].length - i_used, sources[j].length - j_used);
    pieces.push_back({targets[i].at + i_used, sources[j].at + j_used, length});
    if ((i_used += length) == targets[i].length) ++i, i_used = 0;
    if ((j_used += length) == sources[j].length) ++j, j_used = 0;
  }
  return device::copy_pieces_async(pieces.data(), pieces.size(), to.memory, from.memory, lane);
}

}  // namespace

View view_of(const Transfer& t) { return {t.data(), t.contiguous ? nullptr : t.type, t.count, t.memory}; }

Result<device::Ticket> submit(const View& to, const View& from, uint64_t bytes, device::Lane lane) {
  return submit_ranges(to, 0, from, 0, bytes, lane);
}

Result<device::Ticket> submit_part(const View& to, uint64_t offset, const View& from, size_t n,
                                   device::Lane lane) {
  return submit_ranges(to, offset, from, 0, n, lane);
}

Result<device::Ticket> submit_part_out(const View& to, const View& from, uint64_t offset, size_t n,
                                       device::Lane lane) {
  return submit_ranges(to, 0, from, offset, n, lane);
}

}  // namespace weft::p2p
