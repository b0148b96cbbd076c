// SPDX-License-Identifier: BSD-3-Clause
// Machine types of MPI's predefined datatypes and their groups, which determine the allowed reductions
// (MPI 5.0 section 6.9.2). One X-macro shared by host loops, GPU kernels and tests. C++17.
#pragma once
#include <cstddef>
#include <cstdint>

#ifdef __CUDACC__
#define WEFT_HOST_DEVICE __host__ __device__
#else
#define WEFT_HOST_DEVICE
#endif

namespace weft::element {

__extension__ typedef __int128 Int128;  // INTEGER*16, LOGICAL*16
__extension__ typedef unsigned __int128 UInt128;
#if defined(__SIZEOF_FLOAT128__) && !defined(__CUDACC__)
__extension__ typedef __float128 Float128;  // REAL*16
#else
typedef long double Float128;  // aarch64: long double is IEEE binary128; GPU code does not use it
#endif

/// Bit patterns of IEEE binary16, bfloat16, and the 8-bit formats E4M3 and E5M2 of the Open Compute Project
/// (OFP8, revision 1.0); arithmetic is done in float (element/convert.hpp).
struct Half {
  uint16_t bits;
};
struct BFloat16 {
  uint16_t bits;
};
/// No infinity; the largest number is 448.
struct Float8E4M3 {
  uint8_t bits;
};
struct Float8E5M2 {
  uint8_t bits;
};

/// Complex number with the layout of C and Fortran; plain arithmetic lets loops vectorise.
template <class T>
struct Complex {
  T re, im;
};

/// Value and index with the layout of the C struct {value; index}.
template <class T, class I>
struct Pair {
  T value;
  I index;
};

/// Type groups of MPI 5.0 section 6.9.2; `no_reduction`: no arithmetic operation is defined.
enum class Group : uint8_t {
  c_integer,
  fortran_integer,
  floating,
  complex,
  logical,
  byte,
  multi_language,
  pair,
  no_reduction
};

// X(enumerator, C++ type, group)
#define WEFT_BASIC_TYPES(X)                                         \
  X(int8, int8_t, c_integer)                                        \
  X(int16, int16_t, c_integer)                                      \
  X(int32, int32_t, c_integer)                                      \
  X(int64, int64_t, c_integer)                                      \
  X(uint8, uint8_t, c_integer)                                      \
  X(uint16, uint16_t, c_integer)                                    \
  X(uint32, uint32_t, c_integer)                                    \
  X(uint64, uint64_t, c_integer)                                    \
  X(integer1, int8_t, fortran_integer)                              \
  X(integer2, int16_t, fortran_integer)                             \
  X(integer4, int32_t, fortran_integer)                             \
  X(integer8, int64_t, fortran_integer)                             \
  X(integer16, element::Int128, fortran_integer)                    \
  X(float16, element::Half, floating)                               \
  X(bfloat16, element::BFloat16, floating)                          \
  X(float32, float, floating)                                       \
  X(float64, double, floating)                                      \
  X(long_double, long double, floating)                             \
  X(float128, element::Float128, floating)                          \
  X(complex_float16, element::Complex<element::Half>, complex)      \
  X(complex_float32, element::Complex<float>, complex)              \
  X(complex_float64, element::Complex<double>, complex)             \
  X(complex_long_double, element::Complex<long double>, complex)    \
  X(complex_float128, element::Complex<element::Float128>, complex) \
  X(c_bool, uint8_t, logical)                                       \
  X(logical1, int8_t, logical)                                      \
  X(logical2, int16_t, logical)                                     \
  X(logical4, int32_t, logical)                                     \
  X(logical8, int64_t, logical)                                     \
  X(logical16, element::Int128, logical)                            \
  X(byte, uint8_t, byte)                                            \
  X(aint, int64_t, multi_language)                                  \
  X(count, int64_t, multi_language)                                 \
  X(offset, int64_t, multi_language)                                \
  X(float_int, WEFT_PAIR(float, int), pair)                         \
  X(double_int, WEFT_PAIR(double, int), pair)                       \
  X(long_int, WEFT_PAIR(long, int), pair)                           \
  X(two_int, WEFT_PAIR(int, int), pair)                             \
  X(short_int, WEFT_PAIR(short, int), pair)                         \
  X(long_double_int, WEFT_PAIR(long double, int), pair)             \
  X(two_real, WEFT_PAIR(float, float), pair)                        \
  X(two_double_precision, WEFT_PAIR(double, double), pair)          \
  X(two_integer, WEFT_PAIR(int, int), pair)                         \
  X(character, char, no_reduction)                                  \
  X(wide_character, wchar_t, no_reduction)                          \
  X(packed, uint8_t, no_reduction)                                  \
  X(float8_e4m3, element::Float8E4M3, floating)                     \
  X(float8_e5m2, element::Float8E5M2, floating)

// Hides the comma of Pair<T, I> from the preprocessor.
#define WEFT_PAIR(T, I) element::Pair<T, I>

enum class Basic : uint8_t {
#define WEFT_X(name, type, group) name,
  WEFT_BASIC_TYPES(WEFT_X)
#undef WEFT_X
};
constexpr int kBasicCount = 0
#define WEFT_X(name, type, group) +1
    WEFT_BASIC_TYPES(WEFT_X)
#undef WEFT_X
    ;

}  // namespace weft::element
