// SPDX-License-Identifier: BSD-3-Clause
// Datatypes of recently used sections: a loop that passes the same section again needs no new datatype.
#pragma once
#include <span>

#include "fortran/section.hpp"

namespace weft::fortran {

/// A section without its address: dimensions of one element are left out, adjacent ones are merged.
struct Shape {
  explicit Shape(const Descriptor& section);
  [[nodiscard]] MPI_Count elements() const;
  [[nodiscard]] std::span<const Dimension> dimensions() const { return {dimensions_, count_}; }
  size_t element_bytes;

 private:
  size_t count_ = 0;
  Dimension dimensions_[15];  ///< extent and stride; lower is 0
};

/// A datatype that keep_type() got for the same arguments, or none.
UsedType find_type(const Descriptor& section, MPI_Count count, MPI_Datatype type);
/// Keeps a datatype for this thread until another replaces it or MPI_Finalize begins. Only those of
/// predefined `type`s are kept: the handle of another may be reused. Returns the datatype for the use of the
/// caller.
UsedType keep_type(const Descriptor& section, MPI_Count count, MPI_Datatype type, UsedType made);

}  // namespace weft::fortran
