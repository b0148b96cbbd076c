// SPDX-License-Identifier: BSD-3-Clause
// Choosing among the machine's kinds as Fortran compilers here do: the smallest that reaches both wishes.
#include <limits>
#include <string>
#include <utility>

#include "datatype/unnamed.hpp"

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

Made kind(Basic basic, Combiner combiner, std::vector<int> arguments) {
  Contents contents;
  contents.combiner = combiner;
  contents.integers = std::move(arguments);
  return unnamed(basic, std::move(contents));
}

Made real_or_complex(Combiner combiner, int precision, int range) {
  if (precision == kUndefined && range == kUndefined)
    return Error(Errc::arg, "p and r are both MPI_UNDEFINED: give one of them");
  for (const RealKind& known : kReals)
    if (precision <= known.precision && range <= known.range)
      return kind(combiner == Combiner::f90_real ? known.real : known.complex, combiner, {precision, range});
  return Error(Errc::arg, "p = " + std::to_string(precision) + ", r = " + std::to_string(range) +
                              ": no real type here has this precision and range (33 digits, exponent 4931)");
}

}  // namespace

Made f90_real(int precision, int range) { return real_or_complex(Combiner::f90_real, precision, range); }

Made f90_complex(int precision, int range) {
  return real_or_complex(Combiner::f90_complex, precision, range);
}

Made f90_integer(int range) {
  for (const IntegerKind& known : kIntegers)
    if (range <= known.range) return kind(known.integer, Combiner::f90_integer, {range});
  return Error(Errc::arg,
               "r = " + std::to_string(range) + ": no integer type here has this range (38 digits)");
}

}  // namespace weft::datatype
