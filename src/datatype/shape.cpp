// SPDX-License-Identifier: BSD-3-Clause
#include "datatype/shape.hpp"

namespace weft::datatype {
namespace {

constexpr size_t kMaxRuns = size_t{1} << 22;  // the table takes 48 MiB

static_assert(Strided::kMaxDimensions == device::Shape::kDimensions);

device::Shape shape_of(const Strided& block, void* address) {
  device::Shape shape = device::contiguous_shape(address);
  shape.address += static_cast<uint64_t>(block.displacement);
  shape.length = block.length;
  shape.dimensions = block.dimensions;
  for (int i = 0; i < block.dimensions; ++i) {
    shape.count[i] = block.count[i];
    shape.stride[i] = block.stride[i];
  }
  return shape;
}

Result<std::unique_ptr<device::SegmentTable>> make_table(const Datatype& type, const device::Memory& near) {
  std::vector<device::Segment> runs;
  for_each_run(type, 1, 0, type.size(), [&](Count displacement, Count length) {
    runs.push_back({displacement, length});
    return runs.size() <= kMaxRuns;
  });
  if (runs.size() > kMaxRuns)
    return Error(Errc::unsupported, "an element of the datatype has more than 2^22 contiguous runs");
  return device::SegmentTable::create(runs, near);
}

}  // namespace

Result<const device::SegmentTable*> Datatype::table(const device::Memory& near) const {
  std::erase_if(tables_, [](const auto& table) { return !table->memory.alive(); });
  for (const auto& table : tables_)
    if (table->serves(near)) return table.get();
  if (!table_possible_) return Error(Errc::unsupported, "an earlier attempt to create the run table failed");
  auto made = make_table(*this, near);
  table_possible_ = made.ok();
  if (!made) return std::move(made).error();
  tables_.push_back(std::move(*made));
  return tables_.back().get();
}

Result<device::Shape> shape_of(const Datatype& type, Count count, void* address, Count offset,
                               const device::Memory& near) {
  device::Shape shape;
  if (const auto block = type.strided(count)) {
    shape = shape_of(*block, address);
  } else {
    auto table = type.table(near);
    if (!table) return std::move(table).error();
    shape = device::contiguous_shape(address);
    shape.table = *table;
    shape.stride[0] = type.extent();
  }
  shape.offset = static_cast<uint64_t>(offset);
  return shape;
}

}  // namespace weft::datatype
