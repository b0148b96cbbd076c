// SPDX-License-Identifier: BSD-3-Clause
// Counts: what the generated entry points hand to the implementations in place of C arrays and of functions
// that differ between a call and its large-count twin (`_c`). Views do not own: copy() before the call
// returns.
#pragma once
#include <mpi.h>

#include <cstddef>
#include <vector>

#include "datatype/datatype.hpp"

namespace weft::api {

/// An int[] or MPI_Count[]/MPI_Aint[] argument, read as MPI_Count. Empty when the argument is not significant
/// in this process (recvcounts away from the root, sendcounts with MPI_IN_PLACE).
class CountArray {
 public:
  CountArray() = default;
  explicit CountArray(const int* data) : data_(data) {}
  explicit CountArray(const MPI_Count* data) : data_(data), wide_(true) {}
  MPI_Count operator[](size_t i) const {
    return wide_ ? static_cast<const MPI_Count*>(data_)[i] : static_cast<const int*>(data_)[i];
  }
  [[nodiscard]] bool empty() const { return data_ == nullptr; }
  [[nodiscard]] bool wide() const { return wide_; }
  /// The first n values.
  [[nodiscard]] std::vector<MPI_Count> copy(size_t n) const {
    if (empty()) return {};
    if (wide_) return {static_cast<const MPI_Count*>(data_), static_cast<const MPI_Count*>(data_) + n};
    return {static_cast<const int*>(data_), static_cast<const int*>(data_) + n};
  }

 private:
  const void* data_ = nullptr;
  bool wide_ = false;
};

/// An MPI_Datatype[] argument whose handles were checked. Empty when not significant.
class DatatypeArray {
 public:
  DatatypeArray() = default;
  explicit DatatypeArray(const MPI_Datatype* handles) : handles_(handles) {}
  datatype::Datatype& operator[](size_t i) const;
  [[nodiscard]] bool empty() const { return handles_ == nullptr; }
  [[nodiscard]] const MPI_Datatype* handles() const { return handles_; }

 private:
  const MPI_Datatype* handles_ = nullptr;
};

/// A user function whose count parameter is int (MPI_User_function) or MPI_Count (MPI_User_function_c).
struct UserFunction {
  void (*function)();
  bool large;
};

/// What a caller's int gets for a count that it cannot hold (MPI 5.0 section 2.5.8 and the calls' own rules).
inline int narrow_or_undefined(MPI_Count value) {
  return value == static_cast<int>(value) ? static_cast<int>(value) : MPI_UNDEFINED;
}
inline bool fits_int(MPI_Count value) { return value == static_cast<int>(value); }

}  // namespace weft::api
