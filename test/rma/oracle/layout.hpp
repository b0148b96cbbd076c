// SPDX-License-Identifier: BSD-3-Clause
// Random layouts: a datatype and a count, and the offset of each element by the definitions of MPI 5.0
// chapter 5.
#pragma once
#include "rma/oracle/elements.hpp"

namespace oracle {

/// Frees its datatype when destroyed.
class Layout {
 public:
  /// One element.
  explicit Layout(const Element& element);
  /// `factors`: their product is the number of elements.
  Layout(Draw& draw, const Element& element, std::vector<int> factors);
  Layout(Layout&& other) noexcept;
  Layout& operator=(Layout&&) = delete;
  ~Layout();

  [[nodiscard]] MPI_Datatype type() const { return type_; }
  [[nodiscard]] int count() const { return count_; }
  [[nodiscard]] const Element& element() const { return *element_; }
  /// Offsets in bytes, of each element in the order of the datatype.
  [[nodiscard]] const std::vector<size_t>& at() const { return at_; }
  [[nodiscard]] size_t bytes() const { return bytes_; }  ///< from the buffer address to the last byte

 private:
  void contiguous(int n);
  void strided(Draw& draw, int n);
  void indexed(Draw& draw, int n);
  void structured(Draw& draw, int n);
  void resized(Draw& draw);
  void repeat(const std::vector<size_t>& places);
  void replace(MPI_Datatype type);

  const Element* element_;
  MPI_Datatype type_;
  int count_ = 1;
  bool owned_ = false;
  size_t lb_ = 0, ub_;  ///< of the datatype
  size_t bytes_;
  std::vector<size_t> at_{0};
};

}  // namespace oracle
