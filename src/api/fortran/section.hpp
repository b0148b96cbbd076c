// SPDX-License-Identifier: BSD-3-Clause
// Choice buffers of mpi_f08. A section that is not contiguous stands for the array of its elements without
// gaps (MPI 5.0 section 19.1.12): datatypes that describe its memory replace the arguments of the call.
#pragma once
#include <memory>
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

/// A datatype that is freed with its last user.
class OwnedType {
 public:
  explicit OwnedType(MPI_Datatype handle) : handle(handle) {}
  OwnedType(const OwnedType&) = delete;
  OwnedType& operator=(const OwnedType&) = delete;
  ~OwnedType() { PMPI_Type_free(&handle); }
  MPI_Datatype handle;
};
using SharedType = std::shared_ptr<const OwnedType>;

/// A committed datatype for `count` items of `type` in a section, at the address of its first element. Null
/// if there is no data. Throws Failure if the section has fewer elements.
SharedType block_type(const Descriptor& section, MPI_Count count, MPI_Datatype type);
/// A committed datatype for one item of `type` in a section whose extent leads to the next item. Throws
/// Failure unless `type` has no gaps, consists of whole elements, and all elements have one stride.
SharedType item_type(const Descriptor& section, MPI_Datatype type);

/// One block of data: buffer, count and datatype that belong together.
template <class Count>
class Block {
 public:
  Block(const Descriptor& buffer, Count given_count, int given_type)
      : address(choice(buffer.base)), count(given_count), type(in<Type>(given_type)) {
    if (contiguous(buffer)) [[likely]]
      return;
    own_ = block_type(buffer, count, type);
    if (own_ == nullptr) return;
    count = 1;
    type = own_->handle;
  }
  void* address;
  Count count;
  MPI_Datatype type;

 private:
  SharedType own_;
};

/// A buffer with several blocks of a nonblocking or persistent call: only the datatype is replaced.
class Items {
 public:
  Items(const Descriptor& buffer, int given_type) : address(choice(buffer.base)), type(in<Type>(given_type)) {
    if (contiguous(buffer)) [[likely]]
      return;
    own_ = item_type(buffer, type);
    type = own_->handle;
  }
  void* address;
  MPI_Datatype type;

 private:
  SharedType own_;
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
    if (own_ != nullptr) [[unlikely]]
      copy_out();
  }
  void* address;

 private:
  void copy_in(const Descriptor& buffer, MPI_Comm comm);
  void copy_out();
  SharedType own_;
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
