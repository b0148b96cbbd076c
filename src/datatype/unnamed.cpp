// SPDX-License-Identifier: BSD-3-Clause
#include "datatype/unnamed.hpp"

#include <map>
#include <tuple>
#include <utility>

#include "datatype/store.hpp"

namespace weft::datatype {
namespace {

/// All that were made, by their arguments; destroyed when the library goes.
struct Registry {
  std::map<std::tuple<Combiner, std::vector<int>, std::vector<Datatype*>>, Datatype*> types;
  ~Registry() {
    for (const auto& [arguments, type] : types)
      if (type != nullptr) slab().destroy(type);
  }
};

constexpr struct {
  Basic value, index, pair;
} kPairs[] = {
    {Basic::int16, Basic::int32, Basic::short_int},
    {Basic::int32, Basic::int32, Basic::two_int},
    {Basic::int64, Basic::int32, Basic::long_int},
    {Basic::uint32, Basic::int32, Basic::uint32_int32},
    {Basic::uint64, Basic::int32, Basic::uint64_int32},
    {Basic::float32, Basic::int32, Basic::float_int},
    {Basic::float64, Basic::int32, Basic::double_int},
    {Basic::long_double, Basic::int32, Basic::long_double_int},
    {Basic::int32, Basic::int64, Basic::int32_int64},
    {Basic::int64, Basic::int64, Basic::int64_int64},
    {Basic::uint32, Basic::int64, Basic::uint32_int64},
    {Basic::uint64, Basic::int64, Basic::uint64_int64},
    {Basic::float32, Basic::int64, Basic::float32_int64},
    {Basic::float64, Basic::int64, Basic::float64_int64},
};

}  // namespace

Made unnamed(Basic basic, Contents contents) {
  static Registry made;
  Datatype*& type = made.types[{contents.combiner, contents.integers, contents.types}];
  if (type != nullptr) return type;
  type = slab().create(basic, std::move(contents));
  if (type == nullptr)
    return Error(Errc::no_mem,
                 "no datatype can be made (all handles are in use): free some with MPI_Type_free");
  return type;
}

Made value_index(Datatype& value, Datatype& index) {
  const auto named = [](const Datatype& type) {
    return type.predefined() && type.contents().combiner == Combiner::named;
  };
  if (!named(value) || !named(index)) return static_cast<Datatype*>(nullptr);
  for (const auto& known : kPairs) {
    if (known.value != value.basic() || known.index != index.basic()) continue;
    Contents contents;
    contents.combiner = Combiner::value_index;
    contents.types = {&value, &index};
    return unnamed(known.pair, std::move(contents));
  }
  return static_cast<Datatype*>(nullptr);
}

}  // namespace weft::datatype
