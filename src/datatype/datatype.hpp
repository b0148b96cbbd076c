// SPDX-License-Identifier: BSD-3-Clause
// Datatypes: layout of typed buffers, and packing to and from a byte stream with random access. Knows only
// the integer handle values of the MPI ABI. Host memory only. Threading: reference counts and constructors
// under the instance lock; const functions on any thread.
#pragma once
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/result.hpp"
#include "datatype/basic.hpp"
#include "datatype/bounds.hpp"
#include "datatype/checked.hpp"
#include "datatype/layout.hpp"
#include "datatype/walk.hpp"
#include "device/pack.hpp"

namespace weft::datatype {

class Datatype;

/// Constructor of a type; the values are MPI_COMBINER_* of the ABI.
enum class Combiner : int {
  named = 101,
  dup,
  contiguous,
  vector,
  hvector,
  indexed,
  hindexed,
  indexed_block,
  hindexed_block,
  structure,
  subarray,
  darray,
  f90_real,
  f90_complex,
  f90_integer,
  resized,
  value_index
};
/// The values of MPI_ORDER_C and MPI_ORDER_FORTRAN.
enum class Order : int { c = 0xC, fortran = 0xF };
/// The values of MPI_DISTRIBUTE_*.
enum class Distribution : int { none = 16, block, cyclic };
constexpr int kDefaultDistributionArgument = 19;
/// The value of MPI_UNDEFINED, returned by elements() and whole_count() if there is no such number.
constexpr Count kUndefined = -32766;
/// `narrow`: created by a call with int counts; `wide`: by its large-count variant (`_c`). Determines the
/// form of MPI_Type_get_contents.
enum class Width : uint8_t { narrow, wide };

/// Constructor arguments as MPI_Type_get_contents returns them.
struct Contents {
  Combiner combiner = Combiner::named;
  Width width = Width::narrow;
  std::vector<int> integers;
  std::vector<Count> addresses;  ///< MPI_Aint arguments of narrow calls
  std::vector<Count> counts;     ///< counts and displacements of wide calls
  std::vector<Datatype*> types;  ///< retained by the Datatype
};

/// A block of `length` bytes at `displacement`, repeated along up to 3 dimensions (innermost first) in packed
/// order.
struct Strided {
  static constexpr int kMaxDimensions = 3;
  Count displacement = 0;
  Count length = 0;
  int dimensions = 0;
  Count count[kMaxDimensions] = {1, 1, 1};
  Count stride[kMaxDimensions] = {0, 0, 0};
};

/// A datatype. Derived types live in slab() with reference counts; predefined types are never destroyed.
class Datatype {
 public:
  /// Derived type: owns `contents` and retains its types. The caller gets one reference and one handle.
  Datatype(const Bounds& bounds, NodePtr layout, Contents contents);
  /// Predefined type with its ABI handle value.
  Datatype(uintptr_t handle, const char* name, Basic basic);
  /// Predefined type without name or ABI value (MPI_Type_create_f90_*): in the slab, never destroyed.
  Datatype(Basic basic, Contents contents);
  ~Datatype();
  Datatype(const Datatype&) = delete;
  Datatype& operator=(const Datatype&) = delete;

  [[nodiscard]] Count size() const { return bounds_.size; }
  [[nodiscard]] Count lb() const { return bounds_.lb; }
  [[nodiscard]] Count ub() const { return bounds_.ub; }
  [[nodiscard]] Count extent() const { return bounds_.ub - bounds_.lb; }
  [[nodiscard]] Count true_lb() const { return bounds_.true_lb; }
  [[nodiscard]] Count true_ub() const { return bounds_.true_ub; }
  [[nodiscard]] Count true_extent() const { return bounds_.true_ub - bounds_.true_lb; }
  [[nodiscard]] bool committed() const { return committed_; }
  [[nodiscard]] bool predefined() const { return predefined_; }
  /// True if n elements are the n * size() bytes at the buffer's address.
  [[nodiscard]] bool contiguous() const { return contiguous_; }
  /// Basic type of all elements; nullopt if the type is mixed or empty.
  [[nodiscard]] std::optional<Basic> basic() const;
  /// Number of basic elements in one element of this type; a pair counts two.
  [[nodiscard]] Count basic_elements() const { return bounds_.elements; }
  [[nodiscard]] const std::string& name() const { return name_; }
  void set_name(std::string name) { name_ = std::move(name); }
  [[nodiscard]] const Contents& contents() const { return contents_; }
  [[nodiscard]] const Bounds& bounds() const { return bounds_; }
  [[nodiscard]] const NodePtr& layout() const { return layout_; }
  /// Handle value: the ABI constant, or the object's address.
  [[nodiscard]] uintptr_t handle() const {
    return handle_ != 0 ? handle_ : reinterpret_cast<uintptr_t>(this);
  }

  void commit() { committed_ = true; }
  /// References by pending operations and derived types keep the object alive. No-ops on predefined types.
  void retain() { references_ += predefined() ? 0 : 1; }
  void release();
  /// Handles of the application: MPI_Type_get_contents opens one, MPI_Type_free closes one.
  void open_handle();
  void close_handle();
  [[nodiscard]] bool last_handle() const { return handles_ == 1; }
  [[nodiscard]] bool has_handle() const { return predefined() || handles_ > 0; }

  /// `count` elements as one strided block; nullopt if the layout is irregular or too deep.
  [[nodiscard]] std::optional<Strided> strided(Count count = 1) const;

  /// Table of the runs of one element, in memory of the GPU that holds `near`. Created on first use; see
  /// shape_of().
  [[nodiscard]] Result<const device::SegmentTable*> table(const device::Memory& near) const;

  std::shared_ptr<void> attributes;  ///< owned by core

 private:
  Bounds bounds_;
  NodePtr layout_;
  Contents contents_;
  std::string name_;
  uintptr_t handle_ = 0;
  uint32_t references_ = 1;
  uint32_t handles_ = 1;
  bool predefined_ = false;
  bool committed_ = false;
  bool contiguous_ = false;
  mutable bool table_possible_ = true;  ///< false once creating a table failed
  mutable std::vector<std::unique_ptr<device::SegmentTable>> tables_;
};

/// The type of a handle value; nullptr if the handle is not live (foreign, freed, MPI_DATATYPE_NULL).
[[nodiscard]] Datatype* find(uintptr_t handle);
/// Number of live derived types of this process.
[[nodiscard]] size_t live();

// Constructors (MPI 5.0 sections 5.1.2 to 5.1.11). Displacements and strides are in bytes for h*, struct_ and
// resized, otherwise in extents of the old type. Errors: count, arg, type, dims; value_too_large on 64-bit
// overflow.
using Counts = std::span<const Count>;
using DatatypeResult = Result<Datatype*>;
[[nodiscard]] DatatypeResult dup(Datatype& old);
[[nodiscard]] DatatypeResult contiguous(Count count, Datatype& old, Width width = Width::narrow);
[[nodiscard]] DatatypeResult vector(Count count, Count blocklength, Count stride, Datatype& old,
                                    Width width = Width::narrow);
[[nodiscard]] DatatypeResult hvector(Count count, Count blocklength, Count stride, Datatype& old,
                                     Width width = Width::narrow);
[[nodiscard]] DatatypeResult indexed(Counts blocklengths, Counts displacements, Datatype& old,
                                     Width width = Width::narrow);
[[nodiscard]] DatatypeResult hindexed(Counts blocklengths, Counts displacements, Datatype& old,
                                      Width width = Width::narrow);
[[nodiscard]] DatatypeResult indexed_block(Count blocklength, Counts displacements, Datatype& old,
                                           Width width = Width::narrow);
[[nodiscard]] DatatypeResult hindexed_block(Count blocklength, Counts displacements, Datatype& old,
                                            Width width = Width::narrow);
[[nodiscard]] DatatypeResult struct_(Counts blocklengths, Counts displacements,
                                     std::span<Datatype* const> types, Width width = Width::narrow);
[[nodiscard]] DatatypeResult subarray(Counts sizes, Counts subsizes, Counts starts, Order order,
                                      Datatype& old, Width width = Width::narrow);
/// The part of a distributed array owned by `rank` of `processes`; ranks are row-major over psizes.
struct DarrayShape {
  int processes, rank;
  Counts gsizes;
  std::span<const int> distributions, arguments, psizes;
  Order order;
};
[[nodiscard]] DatatypeResult darray(const DarrayShape& shape, Datatype& old, Width width = Width::narrow);
[[nodiscard]] DatatypeResult resized(Datatype& old, Count lb, Count extent, Width width = Width::narrow);
/// A type whose single element, at the buffer's address, is bytes [offset, offset + n) of the packed stream
/// of (type, count). Precondition: the range lies in the stream and type.size() > 0.
[[nodiscard]] DatatypeResult slice(Datatype& type, Count count, Count offset, Count n);

// The packed stream of (type, count) has the bytes of the elements in type-map order without gaps. `buf` may
// be null (MPI_BOTTOM).
/// Size of the packed stream in bytes; nullopt on 64-bit overflow.
[[nodiscard]] inline std::optional<Count> packed_size(const Datatype& type, Count count) {
  Count bytes;
  if (__builtin_mul_overflow(type.size(), count, &bytes)) return std::nullopt;
  return bytes;
}
/// Packs bytes [offset, offset + n) of the stream into `out`; returns the bytes written.
size_t pack(const Datatype& type, Count count, const void* buf, Count offset, void* out, size_t n);
/// Unpacks `in` as bytes [offset, offset + n) of the stream; returns the bytes written.
size_t unpack(const Datatype& type, Count count, void* buf, Count offset, const void* in, size_t n);
/// Typed copy; returns the bytes copied, the shorter of both streams. The buffers must not overlap.
size_t copy(const void* source, Count source_count, const Datatype& source_type, void* target,
            Count target_count, const Datatype& target_type);

/// MPI_Get_elements: basic elements in the first `bytes` of a stream; kUndefined if one is incomplete.
[[nodiscard]] Count elements(const Datatype& type, Count bytes);
/// MPI_Get_count: elements of `type` in `bytes`; kUndefined if one is incomplete.
[[nodiscard]] Count whole_count(const Datatype& type, Count bytes);
/// MPI_Status_set_elements: size in bytes of the first `count` basic elements of a stream.
[[nodiscard]] Count bytes_of_elements(const Datatype& type, Count count);

/// Calls f(Count displacement_from_buf, Count length) for the contiguous runs of stream bytes
/// [offset, offset + n), in stream order. f returns void, or bool: false stops. Adjacent runs are merged only
/// if the layout merged them.
template <class F>
void for_each_run(const Datatype& type, Count count, Count offset, Count n, F&& f) {
  RunVisitor<F> visitor{f};
  walk_elements(type.layout().get(), count, type.extent(), offset, n, visitor);
}

}  // namespace weft::datatype
