// SPDX-License-Identifier: BSD-3-Clause
// Selects the smallest machine kind that satisfies precision and range, as Fortran compilers on this platform
// do.
#include "datatype/f90.hpp"

#include <algorithm>
#include <limits>
#include <map>
#include <string>
#include <tuple>

#include "datatype/store.hpp"

namespace weft::datatype {
namespace {

struct RealKind {
  int precision, range;
  Basic real, complex;
};
/// Fortran's RANGE: both the largest and the smallest normal number count.
template <class T>
constexpr int kRange = std::min(std::numeric_limits<T>::max_exponent10,
                                -std::numeric_limits<T>::min_exponent10);

constexpr RealKind kReals[] = {
    {6, 37, Basic::float32, Basic::complex_float32},
    {15, 307, Basic::float64, Basic::complex_float64},
    {std::numeric_limits<long double>::digits10, kRange<long double>, Basic::long_double,
     Basic::complex_long_double},
    {33, 4931, Basic::float128, Basic::complex_float128},
};
struct IntegerKind {
  int range;
  Basic integer;
};
constexpr IntegerKind kIntegers[] = {{2, Basic::integer1},
                                     {4, Basic::integer2},
                                     {9, Basic::integer4},
                                     {18, Basic::integer8},
                                     {38, Basic::integer16}};

/// Types by their arguments; destroyed when the library is unloaded.
struct Registry {
  std::map<std::tuple<Combiner, std::vector<int>>, Datatype*> types;
  ~Registry() {
    for (const auto& [arguments, type] : types)
      if (type != nullptr) slab().destroy(type);
  }
};

/// Returns the type for these arguments; creates it on first use.
DatatypeResult find_or_create(Basic basic, Combiner combiner, std::vector<int> arguments) {
  static Registry registry;
  Datatype*& type = registry.types[{combiner, arguments}];
  if (type != nullptr) return type;
  Contents contents;
  contents.combiner = combiner;
  contents.integers = std::move(arguments);
  type = slab().create(basic, std::move(contents));
  if (type == nullptr)
    return Error(Errc::no_mem,
                 "no datatype can be created (all handles are in use): free some with MPI_Type_free");
  return type;
}

DatatypeResult real_or_complex(Combiner combiner, int precision, int range) {
  if (precision == kUndefined && range == kUndefined)
    return Error(Errc::arg, "p and r are both MPI_UNDEFINED: pass at least one");
  for (const RealKind& kind : kReals)
    if (precision <= kind.precision && range <= kind.range)
      return find_or_create(combiner == Combiner::f90_real ? kind.real : kind.complex, combiner,
                            {precision, range});
  return Error(Errc::arg,
               "p = " + std::to_string(precision) + ", r = " + std::to_string(range) +
                   ": no real type has this precision and range (at most 33 digits, exponent 4931)");
}

}  // namespace

DatatypeResult f90_real(int precision, int range) {
  return real_or_complex(Combiner::f90_real, precision, range);
}

DatatypeResult f90_complex(int precision, int range) {
  return real_or_complex(Combiner::f90_complex, precision, range);
}

DatatypeResult f90_integer(int range) {
  for (const IntegerKind& kind : kIntegers)
    if (range <= kind.range) return find_or_create(kind.integer, Combiner::f90_integer, {range});
  return Error(Errc::arg,
               "r = " + std::to_string(range) + ": no integer type has this range (at most 38 digits)");
}

}  // namespace weft::datatype
