// SPDX-License-Identifier: BSD-3-Clause
// Choice buffers of mpi_f08. A section that is not contiguous stands for the array of its elements without
// gaps (MPI 5.0 section 19.1.12): datatypes that describe its memory replace the arguments of the call.
#pragma once
#include <utility>
#include <vector>

#include "api/fortran/convert.hpp"
#include "api/fortran/descriptor.hpp"

namespace weft::fortran {

/// Thrown by conversions: the call ends with this error. `reported`: its error handler has been called.
struct Failure {
  int code;
  bool reported;
};
/// Sets the error of the exception that is handled, after calling the error handler of the object of a call.
template <class K>
void fail(typename K::C object, int* ierror);

/// A datatype in use by one call. It is freed afterwards, unless the cache of type_cache.hpp keeps it.
class UsedType {
 public:
  UsedType() = default;
  /// `users`: counter of a datatype that the cache of this thread keeps, which includes this use.
  explicit UsedType(MPI_Datatype handle, int* users = nullptr) : handle(handle), users_(users) {}
  UsedType(UsedType&& other) noexcept
      : handle(std::exchange(other.handle, MPI_DATATYPE_NULL)),
        users_(std::exchange(other.users_, nullptr)) {}
  UsedType& operator=(UsedType&& other) noexcept {
    std::swap(handle, other.handle);
    std::swap(users_, other.users_);
    return *this;
  }
  ~UsedType() {
    if (handle == MPI_DATATYPE_NULL) return;
    if (users_ != nullptr)
      --*users_;
    else
      PMPI_Type_free(&handle);
  }
  explicit operator bool() const { return handle != MPI_DATATYPE_NULL; }
  MPI_Datatype handle = MPI_DATATYPE_NULL;

 private:
  int* users_ = nullptr;
};

/// A committed datatype for `count` items of `type` in a section, at the address of its first element. Null
/// if there is no data. Throws Failure if the section has fewer elements.
UsedType block_type(const Descriptor& section, MPI_Count count, MPI_Datatype type);
/// A committed datatype for one item of `type` in a section whose extent leads to the next item. Throws
/// Failure unless `type` has no gaps, consists of whole elements, and all elements have one stride.
UsedType item_type(const Descriptor& section, MPI_Datatype type);

/// One block of data: buffer, count and datatype that belong together.
template <class Count>
class Block {
 public:
  Block(const Descriptor& buffer, Count given_count, int given_type)
      : address(choice(buffer.base)),
        count(given_count),
        type(in<Type>(given_type)),
        // Not assigned later: to move two words that were just written takes the processor 20 cycles.
        own_(contiguous(buffer) ? UsedType() : block_type(buffer, count, type)) {
    if (!own_) [[likely]]
      return;
    count = 1;
    type = own_.handle;
  }
  void* address;
  Count count;
  MPI_Datatype type;

 private:
  UsedType own_;
};

/// A buffer with several blocks of a nonblocking or persistent call: only the datatype is replaced.
class Items {
 public:
  Items(const Descriptor& buffer, int given_type) : address(choice(buffer.base)), type(in<Type>(given_type)) {
    if (contiguous(buffer)) [[likely]]
      return;
    own_ = item_type(buffer, type);
    type = own_.handle;
  }
  void* address;
  MPI_Datatype type;

 private:
  UsedType own_;
};

/// A buffer of a blocking call whose blocks no single datatype describes: the call uses a contiguous copy.
class Staged {
 public:
  Staged(const Descriptor& buffer, MPI_Comm comm) : address(choice(buffer.base)) {
    if (!contiguous(buffer)) [[unlikely]]
      copy_in(buffer, comm);
  }
  /// Copies the result of the call to the section.
  void finish() {
    if (own_) [[unlikely]]
      copy_out();
  }
  void* address;

 private:
  void copy_in(const Descriptor& buffer, MPI_Comm comm);
  void copy_out();
  UsedType own_;
  std::vector<char> copy_;
  void* section_ = nullptr;
  MPI_Comm comm_ = MPI_COMM_NULL;
};

/// A buffer that must be contiguous: memory of windows, attached buffers, nonblocking reductions.
void* contiguous_only(const Descriptor& buffer);

/// A CHARACTER argument in a call with descriptors.
inline String string_of(const Descriptor& text) {
  return {static_cast<const char*>(text.base), text.element_bytes};
}

}  // namespace weft::fortran
