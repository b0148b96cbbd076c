// SPDX-License-Identifier: BSD-3-Clause
// Checks of (buffer, count, datatype): layouts with gaps, arrays of counts, error messages.
#include "api/data_check.hpp"

#include <optional>
#include <string>

#include "api/caller.hpp"

namespace weft::api {
namespace {

using datatype::Checked;
using datatype::Datatype;

/// Nothing is ever mapped in the first page.
constexpr MPI_Count kFirstPage = 4096;

/// Returns whether the first element at `displacement` bytes from a null address begins in the first page.
/// Elements at other addresses are legal: MPI_BOTTOM is null.
bool at_null(MPI_Count displacement, const Datatype& type) {
  Checked math;
  const MPI_Count first = math.add(displacement, type.true_lb());
  return !math.overflow() && first >= 0 && first < kFirstPage;
}

bool has_data(MPI_Count count, const Datatype& type) { return count > 0 && type.size() > 0; }

/// Checks the blocks of an array. `block(i)` returns {displacement in bytes, or nullopt on overflow; type}.
template <class Block>
size_t find_bad(const void* buffer, const CountArray& counts, size_t n, Block&& block) {
  Checked total;
  MPI_Count bytes = 0;
  for (size_t i = 0; i < n; ++i) {
    const MPI_Count count = counts[i];
    const auto [displacement, type] = block(i);
    if (!has_data(count, *type)) continue;
    if (!displacement || !valid_size(count, *type)) return i;
    if (buffer == nullptr && at_null(*displacement, *type)) return i;
    bytes = total.add(bytes, count * type->size());  // valid_size(): no overflow
    if (total.overflow()) return i;
  }
  return n;
}

struct Block {
  std::optional<MPI_Count> displacement;
  const Datatype* type;
};

Block block_in_extents(const CountArray& displacements, const Datatype& type, size_t i) {
  Checked math;
  const MPI_Count bytes = math.mul(displacements[i], type.extent());
  return {math.overflow() ? std::nullopt : std::optional<MPI_Count>(bytes), &type};
}

std::string elements(const std::string& count_name, MPI_Count count, const Datatype& type,
                     MPI_Count blocks = 1) {
  return count_name + " = " + std::to_string(count) + " (elements of " + std::to_string(type.size()) +
         " bytes and extent " + std::to_string(type.extent()) +
         (blocks == 1 ? "" : ", for each of " + std::to_string(blocks) + " blocks") + ")";
}

Error too_much_data(const std::string& count_name, MPI_Count count, const Datatype& type,
                    MPI_Count blocks = 1) {
  return {Errc::count, elements(count_name, count, type, blocks) +
                           " is more data than an address space holds: pass a smaller count"};
}

// int counts below 2^31 of at most 2^20 bytes cannot overflow in 2^12 blocks.
constexpr MPI_Count kSmallType = 1 << 20;
constexpr size_t kFewBlocks = 1 << 12;
bool small(const Datatype& type) { return type.contiguous() && type.size() <= kSmallType; }

}  // namespace

bool valid_size(MPI_Count count, const Datatype& type) {
  if (count <= 0) return true;
  Checked math;
  const MPI_Count packed = math.mul(count, type.size());
  const MPI_Count steps = math.mul(count - 1, type.extent());
  const MPI_Count span = math.add(steps < 0 ? math.sub(0, steps) : steps, type.true_extent());
  return !math.overflow() && packed >= 0 && span <= kMaxSpan;
}

bool valid_layout(const void* buffer, MPI_Count count, const Datatype& type) {
  if (!has_data(count, type)) return true;
  return valid_size(count, type) && !(buffer == nullptr && at_null(0, type));
}

MPI_Count sum_of(const CountArray& counts, int n) {
  Checked math;
  MPI_Count sum = 0;
  for (int i = 0; i < n; ++i) sum = math.add(sum, counts[static_cast<size_t>(i)]);
  return math.overflow() ? std::numeric_limits<MPI_Count>::max() : sum;
}

size_t find_bad_block(const void* buffer, const CountArray& counts, const CountArray& displacements,
                      const Datatype& type, size_t n) {
  if (buffer != nullptr && !counts.wide() && n <= kFewBlocks && small(type)) return n;
  return find_bad(buffer, counts, n, [&](size_t i) { return block_in_extents(displacements, type, i); });
}

size_t find_bad_block(const void* buffer, const CountArray& counts, const CountArray& displacements,
                      const DatatypeArray& types, size_t n) {
  size_t small_types = 0;
  if (buffer != nullptr && !counts.wide() && n <= kFewBlocks)
    while (small_types < n && small(types[small_types])) ++small_types;
  if (small_types == n) return n;
  return find_bad(buffer, counts, n, [&](size_t i) { return Block{displacements[i], &types[i]}; });
}

Error null_buffer(const char* name) {
  return {Errc::buffer, std::string(name) + " is a null pointer (there is data to move): pass a buffer"};
}

Error bad_data(const char* buffer_name, const char* count_name, MPI_Count count, const Datatype& type,
               MPI_Count blocks) {
  if (valid_size(times(count, blocks), type)) return null_buffer(buffer_name);
  return too_much_data(count_name, count, type, blocks);
}

namespace {

Error bad_block(const char* buffer_name, const void* buffer, const char* counts_name, MPI_Count count,
                const Block& block, size_t index) {
  const std::string element = element_name(counts_name, index);
  if (!valid_size(count, *block.type)) return too_much_data(element, count, *block.type);
  if (!block.displacement)
    return {Errc::arg, "the displacement of " + elements(element, count, *block.type) +
                           " exceeds 64 bits in bytes: displacements are in extents of the datatype"};
  if (buffer == nullptr && at_null(*block.displacement, *block.type)) return null_buffer(buffer_name);
  return {Errc::count, std::string("the sum of ") + counts_name + " exceeds 64 bits at " +
                           elements(element, count, *block.type) + ": pass smaller counts"};
}

}  // namespace

Error bad_block(const char* buffer_name, const void* buffer, const char* counts_name,
                const CountArray& counts, const CountArray& displacements, const Datatype& type,
                size_t index) {
  return bad_block(buffer_name, buffer, counts_name, counts[index],
                   block_in_extents(displacements, type, index), index);
}

Error bad_block(const char* buffer_name, const void* buffer, const char* counts_name,
                const CountArray& counts, const CountArray& displacements, const DatatypeArray& types,
                size_t index) {
  return bad_block(buffer_name, buffer, counts_name, counts[index],
                   Block{displacements[index], &types[index]}, index);
}

}  // namespace weft::api
