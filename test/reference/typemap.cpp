// SPDX-License-Identifier: BSD-3-Clause
// Type maps by definition; quadratic or worse by design, for small types only.
#include "reference/typemap.hpp"

#include <algorithm>
#include <limits>

namespace weft::reference {

using datatype::Combiner;
using datatype::Contents;
using datatype::Datatype;
using datatype::Distribution;
using datatype::Order;
using datatype::Width;

Count TypeMap::size() const {
  Count sum = 0;
  for (const Element& element : elements) sum += element.size;
  return sum;
}

Count TypeMap::true_lb() const {
  Count low = elements.empty() ? 0 : elements[0].displacement;
  for (const Element& element : elements) low = std::min(low, element.displacement);
  return low;
}

Count TypeMap::true_ub() const {
  Count high = elements.empty() ? 0 : elements[0].displacement + elements[0].size;
  for (const Element& element : elements) high = std::max(high, element.displacement + element.size);
  return high;
}

Count TypeMap::lb() const {
  return lb_markers.empty() ? true_lb() : *std::min_element(lb_markers.begin(), lb_markers.end());
}

Count TypeMap::ub() const {
  if (!ub_markers.empty()) return *std::max_element(ub_markers.begin(), ub_markers.end());
  Count alignment = 1;
  for (const Element& element : elements) alignment = std::max(alignment, element.alignment);
  Count ub = true_ub();
  for (const Count end : component_ends) ub = std::max(ub, end);
  while ((ub - lb()) % alignment != 0) ++ub;
  return ub;
}

namespace {

void add(TypeMap& map, const TypeMap& part, Count displacement) {
  for (Element element : part.elements) {
    element.displacement += displacement;
    map.elements.push_back(element);
  }
  if (!part.elements.empty()) map.component_ends.push_back(part.ub() + displacement);
  for (const Count marker : part.lb_markers) map.lb_markers.push_back(marker + displacement);
  for (const Count marker : part.ub_markers) map.ub_markers.push_back(marker + displacement);
}

void add_block(TypeMap& map, const TypeMap& part, Count copies, Count displacement) {
  const Count extent = part.extent();
  for (Count i = 0; i < copies; ++i) add(map, part, displacement + i * extent);
}

/// Reads the recorded arguments in order, of either integer width.
class Arguments {
 public:
  explicit Arguments(const Contents& contents) : contents_(contents) {}
  Count integer() { return contents_.integers[integer_++]; }
  Count count() { return contents_.width == Width::wide ? contents_.counts[count_++] : integer(); }
  Count address() {
    return contents_.width == Width::wide ? contents_.counts[count_++] : contents_.addresses[address_++];
  }
  template <class F>
  static std::vector<Count> list(Count n, F&& next) {
    std::vector<Count> values;
    for (Count i = 0; i < n; ++i) values.push_back(next());
    return values;
  }
  std::vector<Count> counts(Count n) {
    return list(n, [&] { return count(); });
  }
  std::vector<Count> addresses(Count n) {
    return list(n, [&] { return address(); });
  }
  std::vector<Count> integers(Count n) {
    return list(n, [&] { return integer(); });
  }

 private:
  const Contents& contents_;
  size_t integer_ = 0, count_ = 0, address_ = 0;
};

/// Adds the elements of an array that `mine` accepts, in memory order, and marks the whole array.
template <class F>
void add_array(TypeMap& map, const TypeMap& part, const std::vector<Count>& sizes, Order order, F&& mine) {
  Count total = 1;
  for (const Count size : sizes) total *= size;
  std::vector<Count> index(sizes.size());
  for (Count position = 0; position < total; ++position) {
    Count rest = position;
    for (size_t i = 0; i < sizes.size(); ++i) {
      const size_t d = order == Order::c ? sizes.size() - 1 - i : i;
      index[d] = rest % sizes[d];
      rest /= sizes[d];
    }
    if (mine(index)) add(map, part, position * part.extent());
  }
  map.lb_markers = {0};
  map.ub_markers = {total * part.extent()};
}

void expand_subarray(TypeMap& map, const TypeMap& part, Arguments from) {
  const Count n = from.integer();
  const auto sizes = from.counts(n), subsizes = from.counts(n), starts = from.counts(n);
  add_array(map, part, sizes, static_cast<Order>(from.integer()), [&](const std::vector<Count>& index) {
    for (size_t d = 0; d < index.size(); ++d)
      if (index[d] < starts[d] || index[d] >= starts[d] + subsizes[d]) return false;
    return true;
  });
}

Count owner(Count index, Count size, Count processes, Count distribution, Count argument) {
  const bool standard = argument == datatype::kDefaultDistributionArgument;
  switch (static_cast<Distribution>(distribution)) {
    case Distribution::none:
      return 0;
    case Distribution::block:
      return index / (standard ? (size + processes - 1) / processes : argument);
    case Distribution::cyclic:
      return index / (standard ? 1 : argument) % processes;
  }
  return -1;
}

void expand_darray(TypeMap& map, const TypeMap& part, Arguments from) {
  from.integer();  // size
  Count rank = from.integer();
  const Count n = from.integer();
  const auto gsizes = from.counts(n), distributions = from.integers(n), arguments = from.integers(n),
             psizes = from.integers(n);
  std::vector<Count> mine(static_cast<size_t>(n));
  for (size_t d = mine.size(); d-- > 0; rank /= psizes[d]) mine[d] = rank % psizes[d];
  add_array(map, part, gsizes, static_cast<Order>(from.integer()), [&](const std::vector<Count>& index) {
    for (size_t d = 0; d < index.size(); ++d)
      if (owner(index[d], gsizes[d], psizes[d], distributions[d], arguments[d]) != mine[d]) return false;
    return true;
  });
}

TypeMap basic_map(const Datatype& type) {
  const auto& known = datatype::traits_of(*type.basic());
  TypeMap map;
  if (known.group == datatype::Group::pair) {
    const Count second = known.size - known.value_size;
    map.elements = {{0, known.value_size, known.value_size}, {known.index_offset, second, second}};
  } else {
    map.elements = {{0, known.size, known.alignment}};
  }
  return map;
}

void expand_vector(TypeMap& map, const TypeMap& part, Arguments from, bool bytes) {
  const Count count = from.count(), length = from.count(), stride = bytes ? from.address() : from.count();
  for (Count i = 0; i < count; ++i) add_block(map, part, length, i * stride * (bytes ? 1 : part.extent()));
}

void expand_indexed(TypeMap& map, const TypeMap& part, Arguments from, bool bytes, bool one_length) {
  const Count count = from.count();
  const auto lengths =
      one_length ? std::vector<Count>(static_cast<size_t>(count), from.count()) : from.counts(count);
  const auto displacements = bytes ? from.addresses(count) : from.counts(count);
  for (size_t i = 0; i < lengths.size(); ++i)
    add_block(map, part, lengths[i], displacements[i] * (bytes ? 1 : part.extent()));
}

void expand_struct(TypeMap& map, const Datatype& type, Arguments from) {
  const Count count = from.count();
  const auto lengths = from.counts(count), displacements = from.addresses(count);
  for (size_t i = 0; i < lengths.size(); ++i)
    add_block(map, typemap(*type.contents().types[i]), lengths[i], displacements[i]);
}

}  // namespace

TypeMap typemap(const Datatype& type) {
  if (type.predefined()) return basic_map(type);
  TypeMap map;
  const Contents& contents = type.contents();
  Arguments from(contents);
  if (contents.combiner == Combiner::structure) {
    expand_struct(map, type, from);
    return map;
  }
  const TypeMap part = typemap(*contents.types[0]);
  switch (contents.combiner) {
    case Combiner::dup:
      return part;
    case Combiner::contiguous:
      add_block(map, part, from.count(), 0);
      break;
    case Combiner::vector:
    case Combiner::hvector:
      expand_vector(map, part, from, contents.combiner == Combiner::hvector);
      break;
    case Combiner::indexed:
    case Combiner::indexed_block:
      expand_indexed(map, part, from, false, contents.combiner == Combiner::indexed_block);
      break;
    case Combiner::hindexed:
    case Combiner::hindexed_block:
      expand_indexed(map, part, from, true, contents.combiner == Combiner::hindexed_block);
      break;
    case Combiner::subarray:
      expand_subarray(map, part, from);
      break;
    case Combiner::darray:
      expand_darray(map, part, from);
      break;
    case Combiner::resized: {
      map = part;
      const Count lb = from.address();
      map.lb_markers = {lb};
      map.ub_markers = {lb + from.address()};
      break;
    }
    default:
      break;
  }
  return map;
}

std::vector<Count> byte_map(const TypeMap& map, Count count) {
  std::vector<Count> bytes;
  for (Count i = 0; i < count; ++i)
    for (const Element& element : map.elements)
      for (Count b = 0; b < element.size; ++b) bytes.push_back(i * map.extent() + element.displacement + b);
  return bytes;
}

Count elements(const TypeMap& map, Count bytes) {
  if (map.elements.empty()) return bytes == 0 ? 0 : datatype::kUndefined;
  Count found = 0;
  for (size_t i = 0; bytes > 0; i = (i + 1) % map.elements.size(), ++found) {
    if (bytes < map.elements[i].size) return datatype::kUndefined;
    bytes -= map.elements[i].size;
  }
  return found;
}

}  // namespace weft::reference
