// SPDX-License-Identifier: BSD-3-Clause
// Basic: the machine types behind MPI's predefined datatypes, with the group that says which reductions
// are allowed (MPI 5.0 section 6.9.2). One X-macro, shared by the host loops and the GPU kernels.
#pragma once
#include <cstddef>
#include <cstdint>

namespace weft::datatype {

__extension__ typedef __int128 Int128;  // INTEGER*16, LOGICAL*16
#ifdef __SIZEOF_FLOAT128__
__extension__ typedef __float128 Float128;  // REAL*16
#else
typedef long double Float128;  // aarch64: long double is IEEE binary128
#endif

/// IEEE binary16 and bfloat16 as opaque bits: can be moved, not yet reduced.
struct Half {
  uint16_t bits;
};
struct BFloat16 {
  uint16_t bits;
};

/// Complex number with C's and Fortran's layout; plain arithmetic, so that loops vectorise.
template <class T>
struct Complex {
  T re, im;
};

/// Value and index, laid out as C lays out the struct {value; index}.
template <class T, class I>
struct Pair {
  T value;
  I index;
};

/// Which of the standard's groups a basic type belongs to. `unreduced`: a group that no arithmetic is defined
/// on here.
enum class Group : uint8_t {
  c_integer,
  fortran_integer,
  floating,
  complex,
  logical,
  byte,
  multi_language,
  pair,
  unreduced
};

// X(enumerator, C++ type, group)
#define WEFT_BASIC_TYPES(X)                                \
  X(int8, int8_t, c_integer)                               \
  X(int16, int16_t, c_integer)                             \
  X(int32, int32_t, c_integer)                             \
  X(int64, int64_t, c_integer)                             \
  X(uint8, uint8_t, c_integer)                             \
  X(uint16, uint16_t, c_integer)                           \
  X(uint32, uint32_t, c_integer)                           \
  X(uint64, uint64_t, c_integer)                           \
  X(integer1, int8_t, fortran_integer)                     \
  X(integer2, int16_t, fortran_integer)                    \
  X(integer4, int32_t, fortran_integer)                    \
  X(integer8, int64_t, fortran_integer)                    \
  X(integer16, Int128, fortran_integer)                    \
  X(float32, float, floating)                              \
  X(float64, double, floating)                             \
  X(long_double, long double, floating)                    \
  X(float128, Float128, floating)                          \
  X(complex_float32, Complex<float>, complex)              \
  X(complex_float64, Complex<double>, complex)             \
  X(complex_long_double, Complex<long double>, complex)    \
  X(complex_float128, Complex<Float128>, complex)          \
  X(c_bool, uint8_t, logical)                              \
  X(logical1, int8_t, logical)                             \
  X(logical2, int16_t, logical)                            \
  X(logical4, int32_t, logical)                            \
  X(logical8, int64_t, logical)                            \
  X(logical16, Int128, logical)                            \
  X(byte, uint8_t, byte)                                   \
  X(aint, int64_t, multi_language)                         \
  X(count, int64_t, multi_language)                        \
  X(offset, int64_t, multi_language)                       \
  X(float_int, WEFT_PAIR(float, int), pair)                \
  X(double_int, WEFT_PAIR(double, int), pair)              \
  X(long_int, WEFT_PAIR(long, int), pair)                  \
  X(two_int, WEFT_PAIR(int, int), pair)                    \
  X(short_int, WEFT_PAIR(short, int), pair)                \
  X(long_double_int, WEFT_PAIR(long double, int), pair)    \
  X(two_real, WEFT_PAIR(float, float), pair)               \
  X(two_double_precision, WEFT_PAIR(double, double), pair) \
  X(two_integer, WEFT_PAIR(int, int), pair)                \
  X(character, char, unreduced)                            \
  X(wide_character, wchar_t, unreduced)                    \
  X(packed, uint8_t, unreduced)                            \
  X(float16, Half, unreduced)                              \
  X(bfloat16, BFloat16, unreduced)                         \
  X(complex_float16, Complex<Half>, unreduced)

// Keeps the comma of Pair<T, I> away from the preprocessor.
#define WEFT_PAIR(T, I) Pair<T, I>

enum class Basic : uint8_t {
#define WEFT_X(name, type, group) name,
  WEFT_BASIC_TYPES(WEFT_X)
#undef WEFT_X
};
constexpr int kBasics = 0
#define WEFT_X(name, type, group) +1
    WEFT_BASIC_TYPES(WEFT_X)
#undef WEFT_X
    ;

/// What moving and counting need to know of a basic type. Sizes in bytes; `first` is the size of a pair's
/// value.
struct BasicFacts {
  const char* name;
  int64_t size;    ///< bytes of data: a pair's padding does not count
  int64_t extent;  ///< distance between array elements
  int64_t alignment;
  Group group;
  int64_t first;      ///< pair: bytes of the value; otherwise size
  int64_t second_at;  ///< pair: displacement of the index; otherwise 0
};

[[nodiscard]] const BasicFacts& facts(Basic basic);

}  // namespace weft::datatype
