// SPDX-License-Identifier: BSD-3-Clause
// Datatypes of array sections.
#include "fortran/section.hpp"

#include <algorithm>
#include <atomic>
#include <vector>

#include "api/sections.hpp"
#include "fortran/type_cache.hpp"

namespace weft::fortran {

namespace {

/// An error class with a text of its own: MPI_Error_string returns it.
struct Problem {
  const int error_class;
  const char* const text;
  std::atomic<int> code{0};
};
Problem too_short{
    MPI_ERR_BUFFER,
    "the array section has fewer elements than count and datatype describe: pass a larger section"};
Problem negative_offset{MPI_ERR_TYPE,
                        "the datatype has data before the buffer, where an array section has none: pass an "
                        "array that is contiguous"};
Problem not_contiguous{
    MPI_ERR_BUFFER, "the array section is not contiguous, which this routine needs: pass a contiguous array"};

[[noreturn]] void raise(Problem& problem) {
  int code = problem.code.load();
  if (code == 0) {
    if (PMPI_Add_error_code(problem.error_class, &code) != MPI_SUCCESS) code = problem.error_class;
    if (code != problem.error_class) PMPI_Add_error_string(code, problem.text);
    problem.code.store(code);
  }
  throw Failure{code, false};
}

/// A datatype under construction. Predefined ones are not freed.
class Builder {
 public:
  explicit Builder(MPI_Datatype borrowed) : handle(borrowed) {}
  Builder(Builder&& other) noexcept
      : handle(std::exchange(other.handle, MPI_DATATYPE_NULL)), owned_(other.owned_) {}
  Builder& operator=(Builder&& other) noexcept {
    std::swap(handle, other.handle);
    std::swap(owned_, other.owned_);
    return *this;
  }
  ~Builder() {
    if (owned_ && handle != MPI_DATATYPE_NULL) PMPI_Type_free(&handle);
  }
  /// `create` makes a datatype; its last argument is the address of the handle.
  template <class Create, class... Arguments>
  static Builder make(Create* create, Arguments... arguments) {
    Builder made(MPI_DATATYPE_NULL);
    require(create(arguments..., &made.handle));
    made.owned_ = true;
    return made;
  }
  [[nodiscard]] UsedType commit() {
    if (!owned_) *this = make(PMPI_Type_dup, handle);
    require(PMPI_Type_commit(&handle));
    return UsedType(std::exchange(handle, MPI_DATATYPE_NULL));
  }
  MPI_Datatype handle;

 private:
  bool owned_ = false;
};

/// Size and bounds of a datatype, in bytes.
struct Bounds {
  explicit Bounds(MPI_Datatype type) {
    require(PMPI_Type_size_c(type, &size));
    require(PMPI_Type_get_extent_c(type, &lower, &extent));
    require(PMPI_Type_get_true_extent_c(type, &true_lower, &true_extent));
  }
  [[nodiscard]] bool dense() const {
    return lower == 0 && extent == size && true_lower == 0 && true_extent == size;
  }
  MPI_Count size = 0, lower = 0, extent = 0, true_lower = 0, true_extent = 0;
};

/// The type of one element: of the program's datatype where its size allows, so that it converts well.
Builder element_type(MPI_Count element, const Bounds& bounds, MPI_Datatype type) {
  if (bounds.size == element) return Builder(type);
  if (bounds.size < element && element % bounds.size == 0)
    return Builder::make(PMPI_Type_contiguous_c, element / bounds.size, type);
  return Builder::make(PMPI_Type_contiguous_c, element, MPI_BYTE);
}

/// The first `elements` elements of a section, and the first bytes of the next one.
Builder first_elements(const Shape& shape, const Builder& element, MPI_Count elements,
                       MPI_Count bytes_after) {
  std::vector<MPI_Count> counts, offsets;
  std::vector<MPI_Datatype> types;
  std::vector<Builder> parts;
  // Whole slices of each dimension, the last one first: slice i of a dimension has `volume` elements.
  MPI_Count left = elements, offset = 0;
  for (size_t top = shape.dimensions().size(); top-- > 0;) {
    MPI_Count volume = 1;
    for (size_t i = 0; i < top; ++i) volume *= shape.dimensions()[i].extent;
    const MPI_Count slices = left / volume;
    const MPI_Count stride = shape.dimensions()[top].stride;
    left %= volume;
    if (slices > 0) {
      Builder slice(element.handle);
      for (size_t i = 0; i < top; ++i)
        slice = Builder::make(PMPI_Type_create_hvector_c, MPI_Count{shape.dimensions()[i].extent},
                              MPI_Count{1}, MPI_Count{shape.dimensions()[i].stride}, slice.handle);
      parts.push_back(Builder::make(PMPI_Type_create_hvector_c, slices, MPI_Count{1}, stride, slice.handle));
      counts.push_back(1);
      offsets.push_back(offset);
    }
    offset += slices * stride;
  }
  if (bytes_after > 0) {
    parts.push_back(Builder::make(PMPI_Type_contiguous_c, bytes_after, MPI_BYTE));
    counts.push_back(1);
    offsets.push_back(offset);
  }
  if (parts.size() == 1 && offsets[0] == 0) return std::move(parts[0]);
  for (const Builder& part : parts) types.push_back(part.handle);
  return Builder::make(PMPI_Type_create_struct_c, static_cast<MPI_Count>(parts.size()), counts.data(),
                       offsets.data(), types.data());
}

/// Offsets of all bytes of `count` items of a datatype with gaps, in the order of its type map. Found by
/// packing buffers whose bytes are parts of their own offsets.
std::vector<uint64_t> byte_offsets(MPI_Count count, MPI_Datatype type, const Bounds& bounds, MPI_Count span) {
  const auto bytes = static_cast<size_t>(count * bounds.size);
  std::vector<uint64_t> offsets(bytes, 0);
  std::vector<unsigned char> plane(static_cast<size_t>(span)), packed(bytes);
  for (int shift = 0; shift == 0 || static_cast<uint64_t>(span - 1) >> shift != 0; shift += 8) {
    for (size_t i = 0; i < plane.size(); ++i) plane[i] = static_cast<unsigned char>(i >> shift);
    MPI_Count position = 0;
    require(PMPI_Pack_c(plane.data(), count, type, packed.data(), static_cast<MPI_Count>(bytes), &position,
                        MPI_COMM_SELF));
    for (size_t i = 0; i < bytes; ++i) offsets[i] |= static_cast<uint64_t>(packed[i]) << shift;
  }
  return offsets;
}

/// The type map of `count` items of a datatype with gaps, moved into a section.
Builder mapped_type(const Shape& shape, MPI_Count count, MPI_Datatype type, const Bounds& bounds) {
  const MPI_Count first = bounds.true_lower + std::min<MPI_Count>(0, (count - 1) * bounds.extent);
  const MPI_Count span =
      bounds.true_lower + bounds.true_extent + std::max<MPI_Count>(0, (count - 1) * bounds.extent);
  if (first < 0) raise(negative_offset);
  const auto element = static_cast<MPI_Count>(shape.element_bytes);
  if (span > shape.elements() * element) raise(too_short);
  std::vector<MPI_Count> lengths, places;
  for (const uint64_t offset : byte_offsets(count, type, bounds, span)) {
    MPI_Count rest = static_cast<MPI_Count>(offset) / element;
    MPI_Count place = static_cast<MPI_Count>(offset) % element;
    for (const Dimension& dimension : shape.dimensions()) {
      place += rest % dimension.extent * dimension.stride;
      rest /= dimension.extent;
    }
    if (!places.empty() && places.back() + lengths.back() == place) {
      ++lengths.back();
    } else {
      places.push_back(place);
      lengths.push_back(1);
    }
  }
  return Builder::make(PMPI_Type_create_hindexed_c, static_cast<MPI_Count>(places.size()), lengths.data(),
                       places.data(), MPI_BYTE);
}

UsedType make_block(const Shape& shape, MPI_Count count, MPI_Datatype type) {
  const Bounds bounds(type);
  if (count <= 0 || bounds.size == 0) return {};
  if (!bounds.dense()) return mapped_type(shape, count, type, bounds).commit();
  const auto element = static_cast<MPI_Count>(shape.element_bytes);
  const MPI_Count bytes = count * bounds.size;
  if (bytes > shape.elements() * element) raise(too_short);
  const Builder one = element_type(element, bounds, type);
  return first_elements(shape, one, bytes / element, bytes % element).commit();
}

}  // namespace

void require(int code) {
  if (code != MPI_SUCCESS) throw Failure{code, true};
}

Shape::Shape(const Descriptor& section) : element_bytes(section.element_bytes) {
  for (int i = 0; i < section.rank; ++i) {
    const Dimension& next = section.dimensions[i];
    if (next.extent == 1) continue;
    Dimension* const last = count_ > 0 ? &dimensions_[count_ - 1] : nullptr;
    if (last != nullptr && next.stride == last->extent * last->stride)
      last->extent *= next.extent;
    else
      dimensions_[count_++] = {0, next.extent, next.stride};
  }
}

MPI_Count Shape::elements() const {
  MPI_Count product = 1;
  for (const Dimension& dimension : dimensions()) product *= dimension.extent;
  return product;
}

UsedType block_type(const Descriptor& section, MPI_Count count, MPI_Datatype type) {
  if (UsedType known = find_type(section, count, type)) return known;
  const Shape shape(section);
  if (shape.elements() == 0) return {};
  UsedType made = make_block(shape, count, type);
  return made ? keep_type(section, count, type, std::move(made)) : std::move(made);
}

UsedType section_type(const Descriptor& section) {
  const Shape shape(section);
  const MPI_Count bytes = shape.elements() * static_cast<MPI_Count>(shape.element_bytes);
  return bytes > 0 ? make_block(shape, bytes, MPI_BYTE) : UsedType();
}

UsedType item_type(const Descriptor& section, MPI_Datatype type) {
  const Shape shape(section);
  const Bounds bounds(type);
  const auto element = static_cast<MPI_Count>(shape.element_bytes);
  const bool regular = shape.dimensions().size() == 1 && element > 0 && bounds.dense() && bounds.size > 0 &&
                       bounds.size % element == 0;
  if (shape.elements() == 0) return Builder(type).commit();
  if (!regular) return {};
  const MPI_Count elements = bounds.size / element;
  const MPI_Count stride = shape.dimensions()[0].stride;
  const Builder one = element_type(element, bounds, type);
  const Builder item = Builder::make(PMPI_Type_create_hvector_c, elements, MPI_Count{1}, stride, one.handle);
  return Builder::make(PMPI_Type_create_resized_c, item.handle, MPI_Count{0}, elements * stride).commit();
}

// An item is a slice of the last dimension, so partitions of whole slices need no datatype of their own.
void Partitions::set_items(const Descriptor& section, MPI_Count partitions, MPI_Count count,
                           MPI_Datatype type) {
  const Shape shape(section);
  const Bounds bounds(type);
  MPI_Count all = 0, bytes = 0;
  if (partitions <= 0 || count <= 0 || bounds.size <= 0 || __builtin_mul_overflow(partitions, count, &all) ||
      __builtin_mul_overflow(all, bounds.size, &bytes))
    return;  // no data, or an error of the call
  const auto element = static_cast<MPI_Count>(shape.element_bytes);
  if (bytes > shape.elements() * element) raise(too_short);
  if (!bounds.dense()) {
    item_ = mapped_type(shape, all, type, bounds).commit();
    items_ = 1;
    return;
  }
  const Dimension last = shape.dimensions().back();
  Builder slice = element_type(element, bounds, type);
  for (const Dimension& inner : shape.dimensions().first(shape.dimensions().size() - 1))
    slice = Builder::make(PMPI_Type_create_hvector_c, MPI_Count{inner.extent}, MPI_Count{1},
                          MPI_Count{inner.stride}, slice.handle);
  item_ =
      Builder::make(PMPI_Type_create_resized_c, slice.handle, MPI_Count{0}, MPI_Count{last.stride}).commit();
  items_ = last.extent;
}

void Partitions::give_items(MPI_Request* request) {
  const int code = weft_set_partitioned_section(*request, items_, item_.handle);
  if (code == MPI_SUCCESS) return;
  PMPI_Request_free(request);
  throw Failure{code, false};
}

void* contiguous_only(const Descriptor& buffer) {
  if (!contiguous(buffer) && Shape(buffer).elements() != 0) raise(not_contiguous);
  return choice(buffer.base);
}

void* one_item(const Descriptor& buffer, int type) {
  if (contiguous(buffer)) [[likely]]
    return choice(buffer.base);
  MPI_Count size = 0;
  require(PMPI_Type_size_c(in<Type>(type), &size));
  return size <= static_cast<MPI_Count>(buffer.element_bytes) ? buffer.base : contiguous_only(buffer);
}

namespace {
/// The error of the exception that is handled.
Failure current_failure() {
  try {
    throw;
  } catch (const Failure& failure) {
    return failure;
  } catch (const std::bad_alloc&) {
    return {MPI_ERR_NO_MEM, false};
  }
}
}  // namespace

#define WEFT_FORTRAN_FAIL(K)                                                 \
  template <>                                                                \
  void fail<K>(K::C object, int* ierror) {                                   \
    const Failure failure = current_failure();                               \
    if (!failure.reported) PMPI_##K##_call_errhandler(object, failure.code); \
    set_error(ierror, failure.code);                                         \
  }
WEFT_FORTRAN_FAIL(Comm)
WEFT_FORTRAN_FAIL(Win)
WEFT_FORTRAN_FAIL(File)
WEFT_FORTRAN_FAIL(Session)
#undef WEFT_FORTRAN_FAIL

}  // namespace weft::fortran
