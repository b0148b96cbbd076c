// SPDX-License-Identifier: BSD-3-Clause
// Choice buffers of mpi_f08. A section that is not contiguous stands for the array of its elements without
// gaps (MPI 5.0 section 19.1.12): datatypes that describe its memory replace the arguments of the call.
#pragma once
#include <utility>

#include "fortran/convert.hpp"
#include "fortran/descriptor.hpp"

namespace weft::fortran {

/// Throws Failure if a call of the C library failed, which has called an error handler.
void require(int code);
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
/// A committed datatype for all bytes of a section, which any thread may free. Null if there are none.
UsedType section_type(const Descriptor& section);
/// A committed datatype for one item of `type` in a section whose extent leads to the next item. Null unless
/// `type` has no gaps, consists of whole elements, and all elements have one stride.
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

/// The buffer of MPI_Psend_init or MPI_Precv_init. The call gets the address and the program's arguments.
class Partitions {
 public:
  Partitions(const Descriptor& buffer, MPI_Count partitions, MPI_Count count, int type)
      : address(choice(buffer.base)) {
    if (!contiguous(buffer)) [[unlikely]]
      set_items(buffer, partitions, count, in<Type>(type));
  }
  /// Gives the section to the request of the call. Frees the request and throws Failure if there is no
  /// memory.
  void keep(MPI_Request* request) {
    if (item_) [[unlikely]]
      give_items(request);
  }
  void* const address;

 private:
  void set_items(const Descriptor& section, MPI_Count partitions, MPI_Count count, MPI_Datatype type);
  void give_items(MPI_Request* request);
  MPI_Count items_ = 0;  ///< of the datatype below; their bytes in order are the elements of the section
  UsedType item_;        ///< null: the array is contiguous, or there is no data
};

/// A buffer that must be contiguous: memory of windows, attached buffers.
void* contiguous_only(const Descriptor& buffer);
/// A buffer of one item, which one element of a section must hold.
void* one_item(const Descriptor& buffer, int type);

/// A CHARACTER argument in a call with descriptors.
inline String string_of(const Descriptor& text) {
  return {static_cast<const char*>(text.base), text.element_bytes};
}

}  // namespace weft::fortran
