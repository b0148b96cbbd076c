// SPDX-License-Identifier: BSD-3-Clause
// Choosing among the machine's kinds as Fortran compilers here do: the smallest that reaches both wishes.
#include "datatype/f90.hpp"

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
constexpr RealKind kReals[] = {
    {6, 37, Basic::float32, Basic::complex_float32},
    {15, 307, Basic::float64, Basic::complex_float64},
    {std::numeric_limits<long double>::digits10, std::numeric_limits<long double>::max_exponent10,
     Basic::long_double, Basic::complex_long_double},
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

/// All that were made, by their arguments; destroyed when the library goes.
struct Registry {
  std::map<std::tuple<Combiner, std::vector<int>>, Datatype*> types;
  ~Registry() {
    for (const auto& [arguments, type] : types)
      if (type != nullptr) slab().destroy(type);
  }
};

/// The one type for these arguments.
Made unique(Basic basic, Combiner combiner, std::vector<int> arguments) {
  static Registry made;
  Datatype*& type = made.types[{combiner, arguments}];
  if (type != nullptr) return type;
  Contents contents;
  contents.combiner = combiner;
  contents.integers = std::move(arguments);
  type = slab().create(basic, std::move(contents));
  if (type == nullptr)
    return Error(Errc::no_mem,
                 "no datatype can be made (all handles are in use): free some with MPI_Type_free");
  return type;
}

Made real_or_complex(Combiner combiner, int precision, int range) {
  if (precision == kUndefined && range == kUndefined)
    return Error(Errc::arg, "p and r are both MPI_UNDEFINED: give one of them");
  for (const RealKind& kind : kReals)
    if (precision <= kind.precision && range <= kind.range)
      return unique(combiner == Combiner::f90_real ? kind.real : kind.complex, combiner, {precision, range});
  return Error(Errc::arg, "p = " + std::to_string(precision) + ", r = " + std::to_string(range) +
                              ": no real type here has this precision and range (33 digits, exponent 4931)");
}

}  // namespace

Made f90_real(int precision, int range) { return real_or_complex(Combiner::f90_real, precision, range); }

Made f90_complex(int precision, int range) {
  return real_or_complex(Combiner::f90_complex, precision, range);
}

Made f90_integer(int range) {
  for (const IntegerKind& kind : kIntegers)
    if (range <= kind.range) return unique(kind.integer, Combiner::f90_integer, {range});
  return Error(Errc::arg,
               "r = " + std::to_string(range) + ": no integer type here has this range (38 digits)");
}

}  // namespace weft::datatype
