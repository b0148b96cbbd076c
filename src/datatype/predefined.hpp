// SPDX-License-Identifier: BSD-3-Clause
// Predefined datatypes: handle values of the standard ABI and of weft.h, names, machine types (x86-64 and
// aarch64, LP64). Fortran default kinds are those without -i8/-r8: 4-byte INTEGER, REAL and LOGICAL.
#pragma once
#include <cstdint>
#include <span>

#include "datatype/datatype.hpp"

namespace weft::datatype {

// X(handle value, MPI name, Basic)
#define WEFT_PREDEFINED_TYPES(X)                               \
  X(0x201, "MPI_AINT", aint)                                   \
  X(0x202, "MPI_COUNT", count)                                 \
  X(0x203, "MPI_OFFSET", offset)                               \
  X(0x207, "MPI_PACKED", packed)                               \
  X(0x208, "MPI_SHORT", int16)                                 \
  X(0x209, "MPI_INT", int32)                                   \
  X(0x20a, "MPI_LONG", int64)                                  \
  X(0x20b, "MPI_LONG_LONG_INT", int64)                         \
  X(0x20c, "MPI_UNSIGNED_SHORT", uint16)                       \
  X(0x20d, "MPI_UNSIGNED", uint32)                             \
  X(0x20e, "MPI_UNSIGNED_LONG", uint64)                        \
  X(0x20f, "MPI_UNSIGNED_LONG_LONG", uint64)                   \
  X(0x210, "MPI_FLOAT", float32)                               \
  X(0x212, "MPI_C_COMPLEX", complex_float32)                   \
  X(0x213, "MPI_CXX_FLOAT_COMPLEX", complex_float32)           \
  X(0x214, "MPI_DOUBLE", float64)                              \
  X(0x216, "MPI_C_DOUBLE_COMPLEX", complex_float64)            \
  X(0x217, "MPI_CXX_DOUBLE_COMPLEX", complex_float64)          \
  X(0x218, "MPI_LOGICAL", logical4)                            \
  X(0x219, "MPI_INTEGER", integer4)                            \
  X(0x21a, "MPI_REAL", float32)                                \
  X(0x21b, "MPI_COMPLEX", complex_float32)                     \
  X(0x21c, "MPI_DOUBLE_PRECISION", float64)                    \
  X(0x21d, "MPI_DOUBLE_COMPLEX", complex_float64)              \
  X(0x21e, "MPI_CHARACTER", character)                         \
  X(0x220, "MPI_LONG_DOUBLE", long_double)                     \
  X(0x224, "MPI_C_LONG_DOUBLE_COMPLEX", complex_long_double)   \
  X(0x225, "MPI_CXX_LONG_DOUBLE_COMPLEX", complex_long_double) \
  X(0x228, "MPI_FLOAT_INT", float_int)                         \
  X(0x229, "MPI_DOUBLE_INT", double_int)                       \
  X(0x22a, "MPI_LONG_INT", long_int)                           \
  X(0x22b, "MPI_2INT", two_int)                                \
  X(0x22c, "MPI_SHORT_INT", short_int)                         \
  X(0x22d, "MPI_LONG_DOUBLE_INT", long_double_int)             \
  X(0x230, "MPI_2REAL", two_real)                              \
  X(0x231, "MPI_2DOUBLE_PRECISION", two_double_precision)      \
  X(0x232, "MPI_2INTEGER", two_integer)                        \
  X(0x238, "MPI_C_BOOL", c_bool)                               \
  X(0x239, "MPI_CXX_BOOL", c_bool)                             \
  X(0x23c, "MPI_WCHAR", wide_character)                        \
  X(0x240, "MPI_INT8_T", int8)                                 \
  X(0x241, "MPI_UINT8_T", uint8)                               \
  X(0x242, "MPIX_FLOAT8_E4M3", float8_e4m3)                    \
  X(0x243, "MPI_CHAR", character)                              \
  X(0x244, "MPI_SIGNED_CHAR", int8)                            \
  X(0x245, "MPI_UNSIGNED_CHAR", uint8)                         \
  X(0x246, "MPIX_FLOAT8_E5M2", float8_e5m2)                    \
  X(0x247, "MPI_BYTE", byte)                                   \
  X(0x248, "MPI_INT16_T", int16)                               \
  X(0x249, "MPI_UINT16_T", uint16)                             \
  X(0x24a, "MPIX_C_FLOAT16", float16)                          \
  X(0x24b, "MPIX_BFLOAT16", bfloat16)                          \
  X(0x250, "MPI_INT32_T", int32)                               \
  X(0x251, "MPI_UINT32_T", uint32)                             \
  X(0x258, "MPI_INT64_T", int64)                               \
  X(0x259, "MPI_UINT64_T", uint64)                             \
  X(0x2c0, "MPI_LOGICAL1", logical1)                           \
  X(0x2c1, "MPI_INTEGER1", integer1)                           \
  X(0x2c8, "MPI_LOGICAL2", logical2)                           \
  X(0x2c9, "MPI_INTEGER2", integer2)                           \
  X(0x2ca, "MPI_REAL2", float16)                               \
  X(0x2d0, "MPI_LOGICAL4", logical4)                           \
  X(0x2d1, "MPI_INTEGER4", integer4)                           \
  X(0x2d2, "MPI_REAL4", float32)                               \
  X(0x2d3, "MPI_COMPLEX4", complex_float16)                    \
  X(0x2d8, "MPI_LOGICAL8", logical8)                           \
  X(0x2d9, "MPI_INTEGER8", integer8)                           \
  X(0x2da, "MPI_REAL8", float64)                               \
  X(0x2db, "MPI_COMPLEX8", complex_float32)                    \
  X(0x2e0, "MPI_LOGICAL16", logical16)                         \
  X(0x2e1, "MPI_INTEGER16", integer16)                         \
  X(0x2e2, "MPI_REAL16", float128)                             \
  X(0x2e3, "MPI_COMPLEX16", complex_float64)                   \
  X(0x2eb, "MPI_COMPLEX32", complex_float128)

/// Handle values of MPI_PACKED and MPI_BYTE.
inline constexpr uintptr_t kPacked = 0x207, kByte = 0x247;

/// The predefined type with this handle value; nullptr if there is none.
[[nodiscard]] Datatype* predefined(uintptr_t handle);
/// All predefined types in the order of their handle values.
[[nodiscard]] std::span<Datatype* const> all_predefined();

}  // namespace weft::datatype
