// SPDX-License-Identifier: BSD-3-Clause
// Datatypes: layout of typed buffers, and packing to and from a stream of bytes that any position can be
// reached in. Knows MPI only by the integer values of the ABI. Host memory only.
// Threading: reference counts and constructors under the instance lock; everything const is free-threaded.
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

/// How a type was made; the values are the ABI's MPI_COMBINER_*.
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
/// The value of MPI_UNDEFINED: what elements() and whole_count() answer when there is no such number.
constexpr Count kUndefined = -32766;
/// Whether the type was made by a call with int counts or by its `_c` twin: decides how get_contents tells
/// it.
enum class Width : uint8_t { narrow, wide };

/// The arguments of the constructor that made a type, as MPI_Type_get_contents returns them.
struct Contents {
  Combiner combiner = Combiner::named;
  Width width = Width::narrow;
  std::vector<int> integers;
  std::vector<Count> addresses;  ///< MPI_Aint arguments of narrow calls
  std::vector<Count> counts;     ///< all counts and displacements of wide calls
  std::vector<Datatype*> types;  ///< retained by the Datatype
};

/// A block of `length` bytes at `displacement`, repeated along up to 3 dimensions, innermost first, in packed
/// order.
struct Strided {
  static constexpr int kMaxDimensions = 3;
  Count displacement = 0;
  Count length = 0;
  int dimensions = 0;
  Count count[kMaxDimensions] = {1, 1, 1};
  Count stride[kMaxDimensions] = {0, 0, 0};
};

/// A datatype. Derived ones live in slab() and are counted; predefined ones live for ever.
class Datatype {
 public:
  /// Derived: takes over `contents`, retaining its types. One reference and one handle belong to the caller.
  Datatype(const Bounds& bounds, NodePtr layout, Contents contents);
  /// Predefined, with its handle value in the ABI.
  Datatype(uintptr_t handle, const char* name, Basic basic);
  /// Predefined without a name or a value in the ABI: MPI_Type_create_f90_*. In the slab, never destroyed.
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
  /// n elements are the n * size() bytes at the buffer's address.
  [[nodiscard]] bool contiguous() const { return contiguous_; }
  /// The basic type of a predefined type, or of every element of a derived type; nullopt when mixed or empty.
  [[nodiscard]] std::optional<Basic> basic() const;
  /// Basic elements in one element of this type; a pair counts two.
  [[nodiscard]] Count basic_elements() const { return bounds_.elements; }
  [[nodiscard]] const std::string& name() const { return name_; }
  void set_name(std::string name) { name_ = std::move(name); }
  [[nodiscard]] const Contents& contents() const { return contents_; }
  [[nodiscard]] const Bounds& bounds() const { return bounds_; }
  [[nodiscard]] const NodePtr& layout() const { return layout_; }
  /// The value an application holds: the ABI's constant, or this object's address.
  [[nodiscard]] uintptr_t handle() const {
    return handle_ != 0 ? handle_ : reinterpret_cast<uintptr_t>(this);
  }

  void commit() { committed_ = true; }
  /// References keep the object alive (a pending operation, a type made of it). No-ops on predefined types.
  void retain() { references_ += predefined() ? 0 : 1; }
  void release();
  /// Handles are the application's references: MPI_Type_free gives one back, MPI_Type_get_contents adds one.
  void open_handle();
  void close_handle();
  [[nodiscard]] bool last_handle() const { return handles_ == 1; }
  [[nodiscard]] bool has_handle() const { return predefined() || handles_ > 0; }

  /// `count` elements as one strided block, when they are.
  [[nodiscard]] std::optional<Strided> strided(Count count = 1) const;

  /// The runs of one element in the memory of the GPU of `near`, made on first use: see shape_of().
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
  mutable bool tabulated_ = true;  // no table has been refused
  mutable std::vector<std::unique_ptr<device::SegmentTable>> tables_;
};

/// The type behind a handle value; nullptr when it is not a live handle (foreign, freed, MPI_DATATYPE_NULL).
[[nodiscard]] Datatype* find(uintptr_t handle);
/// Derived types alive in this process.
[[nodiscard]] size_t live();

// Constructors (MPI 5.0 section 5.1.2 to 5.1.11). Displacements and strides of the h-forms, struct_ and
// resized in bytes, of the others in extents of the old type. Errors: count, arg, type, dims; value_too_large
// when 64 bits do not suffice.
using Counts = std::span<const Count>;
using Made = Result<Datatype*>;
[[nodiscard]] Made dup(Datatype& old);
[[nodiscard]] Made contiguous(Count count, Datatype& old, Width width = Width::narrow);
[[nodiscard]] Made vector(Count count, Count blocklength, Count stride, Datatype& old,
                          Width width = Width::narrow);
[[nodiscard]] Made hvector(Count count, Count blocklength, Count stride, Datatype& old,
                           Width width = Width::narrow);
[[nodiscard]] Made indexed(Counts blocklengths, Counts displacements, Datatype& old,
                           Width width = Width::narrow);
[[nodiscard]] Made hindexed(Counts blocklengths, Counts displacements, Datatype& old,
                            Width width = Width::narrow);
[[nodiscard]] Made indexed_block(Count blocklength, Counts displacements, Datatype& old,
                                 Width width = Width::narrow);
[[nodiscard]] Made hindexed_block(Count blocklength, Counts displacements, Datatype& old,
                                  Width width = Width::narrow);
[[nodiscard]] Made struct_(Counts blocklengths, Counts displacements, std::span<Datatype* const> types,
                           Width width = Width::narrow);
[[nodiscard]] Made subarray(Counts sizes, Counts subsizes, Counts starts, Order order, Datatype& old,
                            Width width = Width::narrow);
/// The part of a distributed array that process `rank` of `processes` has; rank order is row-major over
/// psizes.
struct DarrayShape {
  int processes, rank;
  Counts gsizes;
  std::span<const int> distributions, arguments, psizes;
  Order order;
};
[[nodiscard]] Made darray(const DarrayShape& shape, Datatype& old, Width width = Width::narrow);
[[nodiscard]] Made resized(Datatype& old, Count lb, Count extent, Width width = Width::narrow);
/// Bytes [offset, offset + n) of the packed stream of (type, count), which has them; the type has bytes. One
/// element of it at the address of those elements.
[[nodiscard]] Made slice(Datatype& type, Count count, Count offset, Count n);

// The packed stream of (type, count): the elements' bytes in type-map order without gaps. `buf` may be null
// (MPI_BOTTOM).
/// Bytes of the packed stream; nullopt when 64 bits do not suffice.
[[nodiscard]] inline std::optional<Count> packed_size(const Datatype& type, Count count) {
  Count bytes;
  if (__builtin_mul_overflow(type.size(), count, &bytes)) return std::nullopt;
  return bytes;
}
/// Writes bytes [offset, offset + n) of the stream to out; returns how many there were.
size_t pack(const Datatype& type, Count count, const void* buf, Count offset, void* out, size_t n);
/// Puts bytes [offset, offset + n) of the stream where they belong; returns how many there were room for.
size_t unpack(const Datatype& type, Count count, void* buf, Count offset, const void* in, size_t n);
/// Typed copy of the shorter of the two streams; returns its bytes. The buffers must not overlap.
size_t copy(const void* source, Count source_count, const Datatype& source_type, void* target,
            Count target_count, const Datatype& target_type);

/// MPI_Get_elements: basic elements in the first `bytes` of a stream of type; kUndefined when one is cut.
[[nodiscard]] Count elements(const Datatype& type, Count bytes);
/// MPI_Get_count: whole elements of type in `bytes`; kUndefined when one is cut.
[[nodiscard]] Count whole_count(const Datatype& type, Count bytes);
/// MPI_Status_set_elements: the bytes that the first `count` basic elements of a stream of type take.
[[nodiscard]] Count bytes_of_elements(const Datatype& type, Count count);

/// Calls f(Count displacement_from_buf, Count length) for the memory runs of bytes [offset, offset + n) of
/// the stream, in stream order. f returns void, or bool: false stops. Neighbours are merged only as far as
/// the layout is.
template <class F>
void for_each_run(const Datatype& type, Count count, Count offset, Count n, F&& f) {
  RunVisitor<F> visitor{f};
  walk_elements(type.layout().get(), count, type.extent(), offset, n, visitor);
}

}  // namespace weft::datatype
