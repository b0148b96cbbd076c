// SPDX-License-Identifier: BSD-3-Clause
// Subarray and darray constructors (MPI 5.0 sections 5.1.3 and 5.1.4): nested repeats, fastest dimension
// first.
#include <algorithm>
#include <string>
#include <utility>

#include "datatype/darray_argument.hpp"
#include "datatype/partial_type.hpp"

namespace weft::datatype {
namespace {

Error bad(std::string what) { return {Errc::arg, std::move(what)}; }

std::string in_dimension(size_t d) { return " in dimension " + std::to_string(d); }

/// The dimension that varies i-th fastest in memory.
size_t fastest(size_t i, size_t dimensions, Order order) {
  return order == Order::fortran ? i : dimensions - 1 - i;
}

/// Sets the bounds to the complete array: [0, product of sizes * extent).
void mark_whole(PartialType& partial, Count bytes) { partial.bounds.mark(0, bytes); }

Status check_order(Order order) {
  if (order == Order::c || order == Order::fortran) return {};
  return bad("order is " + std::to_string(static_cast<int>(order)) +
             ": pass MPI_ORDER_C or MPI_ORDER_FORTRAN");
}

Status check_subarray(Counts sizes, Counts subsizes, Counts starts) {
  if (sizes.empty() || subsizes.size() != sizes.size() || starts.size() != sizes.size())
    return bad("the number of dimensions is " + std::to_string(sizes.size()) + ": pass 1 or more");
  for (size_t d = 0; d < sizes.size(); ++d) {
    if (sizes[d] < 1) return bad("size " + std::to_string(sizes[d]) + in_dimension(d) + " (below 1)");
    if (subsizes[d] < 1 || subsizes[d] > sizes[d])
      return bad("subsize " + std::to_string(subsizes[d]) + in_dimension(d) + " is outside 1 to " +
                 std::to_string(sizes[d]));
    if (starts[d] < 0 || starts[d] > sizes[d] - subsizes[d])
      return bad("start " + std::to_string(starts[d]) + in_dimension(d) + " is outside 0 to " +
                 std::to_string(sizes[d] - subsizes[d]));
  }
  return {};
}

/// Indices of one dimension owned by one process: blocks of `block` elements, `step` apart, starting at
/// `first`, all below `size`.
struct Share {
  Count size, first, block, step;
};

/// Selects `share` of one dimension of `part`, whose elements are `stride` bytes apart.
PartialType distribute(const PartialType& part, const Share& share, Count stride, Checked& math) {
  PartialType none;
  if (share.first >= share.size) return none;
  const Count available = share.size - share.first;
  const Count whole = available < share.block ? 0 : (available - share.block) / share.step + 1;
  // The next block after the whole ones, unless it would begin beyond the dimension.
  const Count behind = whole == 0 ? 0 : (whole - 1) * share.step;
  const Count ahead = whole == 0 ? available : available - behind - std::min(share.step, available - behind);
  const Count tail = std::min(share.block, ahead);
  const Count tail_at = share.size - ahead;

  const PartialType block = repeat(part, share.block, stride, 0, math);
  const PartialType body =
      repeat(block, whole, math.mul(share.step, stride), math.mul(share.first, stride), math);
  const PartialType rest = repeat(part, tail, stride, math.mul(tail_at, stride), math);
  if (whole == 0) return rest;
  if (tail == 0) return body;
  PartialType both;
  both.bounds.place(body.bounds, 1, 0, 0, math);
  both.bounds.place(rest.bounds, 1, 0, 0, math);
  both.bounds.finish(math);
  if (!math.overflow()) both.layout = make_list({{0, 1, 0, body.layout}, {0, 1, 0, rest.layout}});
  return both;
}

/// The share of the process with `coordinate` in dimension d.
Result<Share> share_of(const DarrayShape& shape, size_t d, Count coordinate) {
  const Count size = shape.gsizes[d], processes = shape.psizes[d];
  const bool standard = shape.arguments[d] == kDefaultDistributionArgument;
  const Count argument = shape.arguments[d] == kDistributionArgument19 ? 19 : shape.arguments[d];
  if (!standard && argument < 1 && shape.distributions[d] != static_cast<int>(Distribution::none))
    return bad("distribution argument " + std::to_string(argument) + in_dimension(d) +
               ": pass 1 or more, or MPI_DISTRIBUTE_DFLT_DARG");
  switch (static_cast<Distribution>(shape.distributions[d])) {
    case Distribution::none:
      if (processes != 1)
        return bad("psize " + std::to_string(processes) + in_dimension(d) +
                   " must be 1 with MPI_DISTRIBUTE_NONE");
      return Share{size, 0, size, size};
    case Distribution::block: {
      const Count block = standard ? size / processes + (size % processes != 0) : argument;
      if (block < size / processes + (size % processes != 0))
        return bad("distribution argument " + std::to_string(block) + in_dimension(d) +
                   " is too small to cover the dimension with one block per process");
      return Share{size, block > size ? (coordinate == 0 ? 0 : size) : block * coordinate, block, size};
    }
    case Distribution::cyclic: {
      const Count block = standard ? 1 : argument;
      return Share{size, block * coordinate, block, block * processes};
    }
  }
  return bad("distribution " + std::to_string(shape.distributions[d]) + in_dimension(d) +
             ": pass MPI_DISTRIBUTE_BLOCK, _CYCLIC or _NONE");
}

Status check_darray(const DarrayShape& shape) {
  const size_t n = shape.gsizes.size();
  if (n == 0) return bad("the number of dimensions is 0: pass 1 or more");
  if (shape.distributions.size() != n || shape.arguments.size() != n || shape.psizes.size() != n)
    return bad("gsizes, distribs, dargs and psizes have different lengths");
  if (shape.processes < 1) return bad("size is " + std::to_string(shape.processes) + ": pass 1 or more");
  if (shape.rank < 0 || shape.rank >= shape.processes)
    return bad("rank " + std::to_string(shape.rank) + " is outside 0 to " +
               std::to_string(shape.processes - 1));
  Count grid = 1;
  for (size_t d = 0; d < n; ++d) {
    if (shape.gsizes[d] < 1) return bad("gsize " + std::to_string(shape.gsizes[d]) + in_dimension(d));
    if (shape.psizes[d] < 1) return bad("psize " + std::to_string(shape.psizes[d]) + in_dimension(d));
    if (__builtin_mul_overflow(grid, Count{shape.psizes[d]}, &grid)) return too_large();
  }
  if (grid != shape.processes)
    return bad("psizes multiply to " + std::to_string(grid) + ", not to size " +
               std::to_string(shape.processes));
  return check_order(shape.order);
}

}  // namespace

DatatypeResult subarray(Counts sizes, Counts subsizes, Counts starts, Order order, Datatype& old,
                        Width width) {
  WEFT_TRY(check_subarray(sizes, subsizes, starts));
  WEFT_TRY(check_order(order));
  Checked math;
  PartialType partial = partial_type_of(old);
  Count stride = old.extent();
  for (size_t i = 0; i < sizes.size(); ++i) {
    const size_t d = fastest(i, sizes.size(), order);
    partial = repeat(partial, subsizes[d], stride, math.mul(starts[d], stride), math);
    stride = math.mul(stride, sizes[d]);
  }
  mark_whole(partial, stride);
  if (math.overflow()) return too_large();
  Recorder record(Combiner::subarray, width);
  record.integer(static_cast<int>(sizes.size())).counts(sizes).counts(subsizes).counts(starts);
  return make(std::move(partial), record.integer(static_cast<int>(order)).type(old).take());
}

DatatypeResult darray(const DarrayShape& shape, Datatype& old, Width width) {
  WEFT_TRY(check_darray(shape));
  const size_t n = shape.gsizes.size();
  std::vector<Count> coordinates(n);
  for (Count i = static_cast<Count>(n) - 1, rank = shape.rank; i >= 0; --i) {
    const auto d = static_cast<size_t>(i);
    coordinates[d] = rank % shape.psizes[d];
    rank /= shape.psizes[d];
  }
  Checked math;
  PartialType partial = partial_type_of(old);
  Count stride = old.extent();
  for (size_t i = 0; i < n; ++i) {
    const size_t d = fastest(i, n, shape.order);
    auto share = share_of(shape, d, coordinates[d]);
    if (!share) return std::move(share).error();
    partial = distribute(partial, *share, stride, math);
    stride = math.mul(stride, shape.gsizes[d]);
  }
  mark_whole(partial, stride);
  if (math.overflow()) return too_large();
  Recorder record(Combiner::darray, width);
  record.integer(shape.processes).integer(shape.rank).integer(static_cast<int>(n)).counts(shape.gsizes);
  for (const auto list : {shape.distributions, shape.arguments, shape.psizes})
    for (const int value : list) record.integer(value);
  return make(std::move(partial), record.integer(static_cast<int>(shape.order)).type(old).take());
}

}  // namespace weft::datatype
