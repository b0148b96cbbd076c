// SPDX-License-Identifier: BSD-3-Clause
// Counts: arguments that the generated entry points pass instead of C arrays and callbacks whose type differs
// between a function and its large-count variant (`_c`). Views do not own: copy() what outlives the call.
#pragma once
#include <mpi.h>

#include <cstddef>
#include <vector>

#include "datatype/datatype.hpp"

namespace weft::api {

/// View of an int[], MPI_Count[] or MPI_Aint[] argument as MPI_Count. Empty if the argument is not
/// significant in this process (recvcounts at non-root processes, sendcounts with MPI_IN_PLACE).
class CountArray {
 public:
  CountArray() = default;
  explicit CountArray(const int* data) : data_(data) {}
  explicit CountArray(const MPI_Count* data) : data_(data), wide_(true) {}
  MPI_Count operator[](size_t i) const {
    return wide_ ? static_cast<const MPI_Count*>(data_)[i] : static_cast<const int*>(data_)[i];
  }
  [[nodiscard]] bool empty() const { return data_ == nullptr; }
  [[nodiscard]] const void* data() const { return data_; }
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

/// View of an MPI_Datatype[] argument with validated handles. Empty if not significant.
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

/// MPI_User_function (int count), or with `large` MPI_User_function_c (MPI_Count).
struct UserFunction {
  void (*function)();
  bool large;
};

/// Converts a count to int; MPI_UNDEFINED if it does not fit (MPI 5.0 section 2.5.8).
inline int narrow_or_undefined(MPI_Count value) {
  return value == static_cast<int>(value) ? static_cast<int>(value) : MPI_UNDEFINED;
}
inline bool fits_int(MPI_Count value) { return value == static_cast<int>(value); }

}  // namespace weft::api
