// SPDX-License-Identifier: BSD-3-Clause
// Conversion of the arguments of one call, in both directions. The generated functions consist of these.
#pragma once
#include <cstdlib>
#include <cstring>
#include <new>

#include "compat/handles.hpp"
#include "compat/native.hpp"
#include "datatype/darray_argument.hpp"

namespace weft::compat {

// --- integers ---
inline int in_rank(int rank) {
  if (rank >= 0) [[likely]]
    return rank;
  switch (rank) {
    case foreign::PROC_NULL:
      return MPI_PROC_NULL;
    case foreign::ANY_SOURCE:
      return MPI_ANY_SOURCE;
    case foreign::ROOT:
      return MPI_ROOT;
    case foreign::UNDEFINED:
      return MPI_UNDEFINED;
    default:
      return kUnknownValue;
  }
}
inline int out_rank(int rank) {
  if (rank >= 0) [[likely]]
    return rank;
  switch (rank) {
    case MPI_PROC_NULL:
      return foreign::PROC_NULL;
    case MPI_ANY_SOURCE:
      return foreign::ANY_SOURCE;
    case MPI_ROOT:
      return foreign::ROOT;
    case MPI_UNDEFINED:
      return foreign::UNDEFINED;
    default:
      return rank;
  }
}
inline int in_tag(int tag) {
  if (tag >= 0) [[likely]]
    return tag;
  return tag == foreign::ANY_TAG ? MPI_ANY_TAG : kUnknownValue;
}
inline int out_tag(int tag) { return tag == MPI_ANY_TAG ? foreign::ANY_TAG : tag; }
inline int in_distribution_argument(int value) {
  if (value == foreign::DISTRIBUTE_DFLT_DARG) return MPI_DISTRIBUTE_DFLT_DARG;
  if (value == MPI_DISTRIBUTE_DFLT_DARG) return datatype::kDistributionArgument19;  // blocks of 19 elements
  return value < 0 ? kUnknownValue : value;
}
inline int out_distribution_argument(int value) {
  if (value == MPI_DISTRIBUTE_DFLT_DARG) return foreign::DISTRIBUTE_DFLT_DARG;
  return value == datatype::kDistributionArgument19 ? MPI_DISTRIBUTE_DFLT_DARG : value;
}
/// Error codes that are not MPI_SUCCESS.
int convert_error_in(int code);
int convert_error_out(int code);
inline int in_error(int code) { return code == MPI_SUCCESS ? code : convert_error_in(code); }
inline int out_error(int code) {
  if (code == MPI_SUCCESS) [[likely]]
    return code;
  return convert_error_out(code);
}
/// Raises MPI_ERR_NO_MEM on MPI_COMM_SELF.
int out_of_memory();

// --- addresses ---
template <class T>
inline T* in_buffer(T* address) {
  if (kInPlace == MPI_IN_PLACE && kBufferAutomatic == MPI_BUFFER_AUTOMATIC) return address;  // both constant
  // One comparison: MPICH's special addresses are -2 and -1, those of the standard ABI 1 and 2.
  constexpr uintptr_t kSpecialAddresses = 5;
  const auto distance = reinterpret_cast<uintptr_t>(address) - reinterpret_cast<uintptr_t>(kBufferAutomatic);
  if (distance >= kSpecialAddresses) [[likely]]
    return address;
  if (address == kInPlace) return static_cast<T*>(MPI_IN_PLACE);
  if (address == kBufferAutomatic) return static_cast<T*>(MPI_BUFFER_AUTOMATIC);
  return nullptr;  // e.g. of an empty buffer, which some languages give the address 1
}
/// `address`: where MPI_Buffer_detach has stored the address of the buffer.
inline void out_buffer_address(void* address) {
  void* buffer;
  std::memcpy(&buffer, address, sizeof buffer);
  if (buffer == MPI_BUFFER_AUTOMATIC) std::memcpy(address, &kBufferAutomatic, sizeof buffer);
}
template <class T>
inline T* in_weights(T* weights) {
  if (weights == unweighted) return MPI_UNWEIGHTED;
  return weights == weights_empty ? MPI_WEIGHTS_EMPTY : weights;
}
inline MPI_Offset in_displacement(MPI_Offset disp) {
  if (disp == kDisplacementCurrent) return MPI_DISPLACEMENT_CURRENT;
  return disp == MPI_DISPLACEMENT_CURRENT ? kUnknownValue : disp;
}
/// Copies an attribute's value as MPI_COMM_DUP_FN does. Returns MPI_SUCCESS.
int duplicate_attribute(void* value, void* result, int* flag);
/// Copies a string of at most limit - 1 characters. `length`: the length to correct, or null.
void out_string(char* to, const char* from, int limit, int* length);

// --- arrays ---
/// A temporary array. Up to kInline elements need no allocation.
template <class T>
class Local {
 public:
  /// Throws std::bad_alloc. Negative sizes are errors that the called function reports.
  explicit Local(MPI_Count size) : size_(size < 0 ? 0 : static_cast<size_t>(size)) {
    if (size_ <= kInline) return;
    data_ = size_ > SIZE_MAX / sizeof(T) ? nullptr : static_cast<T*>(std::malloc(size_ * sizeof(T)));
    if (data_ == nullptr) throw std::bad_alloc();
  }
  ~Local() {
    if (data_ != inline_) std::free(data_);
  }
  Local(const Local&) = delete;
  Local& operator=(const Local&) = delete;
  [[nodiscard]] T* data() { return data_; }
  [[nodiscard]] size_t size() const { return size_; }
  T& operator[](size_t i) { return data_[i]; }

 private:
  static constexpr size_t kInline = 64;
  size_t size_;
  T inline_[kInline];
  T* data_ = inline_;
};

template <class K>
class HandleArray {
 public:
  HandleArray(const ForeignOf<K>* handles, MPI_Count size)
      : native_(handles == nullptr ? 0 : size), null_(!handles) {
    for (size_t i = 0; i < native_.size(); ++i) native_[i] = in<K>(handles[i]);
  }
  [[nodiscard]] typename K::Native* data() const { return null_ ? nullptr : native_.data(); }

 private:
  mutable Local<typename K::Native> native_;
  bool null_;
};
class IntArray {
 public:
  IntArray(const int* values, MPI_Count size, int (*convert)(int))
      : native_(values ? size : 0), null_(!values) {
    for (size_t i = 0; i < native_.size(); ++i) native_[i] = convert(values[i]);
  }
  [[nodiscard]] const int* data() const { return null_ ? nullptr : native_.data(); }

 private:
  mutable Local<int> native_;
  bool null_;
};
inline void convert_array(int* values, MPI_Count size, int (*convert)(int)) {
  for (MPI_Count i = 0; values != nullptr && i < size; ++i) values[i] = convert(values[i]);
}
/// Requests that the call may complete: their handles become null. Loops keep members in registers.
class RequestArray {
 public:
  RequestArray(Handle* handles, MPI_Count size) : handles_(handles), native_(handles ? size : 0) {
    MPI_Request* const native = native_.data();
    const size_t count = native_.size();
    for (size_t i = 0; i < count; ++i) native[i] = in<Request>(handles[i]);
  }
  [[nodiscard]] MPI_Request* data() { return handles_ ? native_.data() : nullptr; }
  void finish() {
    const MPI_Request* const native = native_.data();
    Handle* const handles = handles_;
    const size_t count = native_.size();
    for (size_t i = 0; i < count; ++i) {
      if (native[i] != MPI_REQUEST_NULL || handles[i] == Request::foreign_null()) continue;
      release<Request>(handles[i]);
      handles[i] = Request::foreign_null();
    }
  }

 private:
  Handle* handles_;
  Local<MPI_Request> native_;
};
/// Datatypes that the call may return: elements that it leaves alone stay as they are.
class TypesOut {
 public:
  TypesOut(Handle* handles, MPI_Count size) : handles_(handles), native_(handles ? size : 0) {
    for (size_t i = 0; i < native_.size(); ++i) native_[i] = MPI_DATATYPE_NULL;
  }
  [[nodiscard]] MPI_Datatype* data() { return handles_ ? native_.data() : nullptr; }
  void finish() {
    for (size_t i = 0; i < native_.size(); ++i)
      if (native_[i] != MPI_DATATYPE_NULL) handles_[i] = out<Type>(native_[i]);
  }

 private:
  Handle* handles_;
  Local<MPI_Datatype> native_;
};

// --- handles ---
template <class K>
class HandleOut {
 public:
  explicit HandleOut(ForeignOf<K>* handle) : handle_(handle) {}
  [[nodiscard]] typename K::Native* get() { return handle_ == nullptr ? nullptr : &native_; }
  void finish() {
    if (handle_ != nullptr) *handle_ = out<K>(native_);
  }

 private:
  ForeignOf<K>* handle_;
  typename K::Native native_ = K::null();
};
/// Returns the code of `call`, which stores a native handle that becomes one of the program.
template <class K, class Call>
int with_handle(ForeignOf<K>* handle, Call&& call) try {
  HandleOut<K> made(handle);
  const int code = call(made.get());
  made.finish();
  return out_error(code);
} catch (const std::bad_alloc&) {
  return out_of_memory();
}
/// A handle that the call may free: it becomes null then.
template <class K>
class HandleInOut {
 public:
  explicit HandleInOut(ForeignOf<K>* handle)
      : handle_(handle), native_(handle == nullptr ? K::null() : in<K>(*handle)) {}
  [[nodiscard]] typename K::Native* get() { return handle_ == nullptr ? nullptr : &native_; }
  void finish() {
    if (native_ != K::null() || handle_ == nullptr) return;
    release<K>(*handle_);
    *handle_ = K::foreign_null();
  }

 private:
  ForeignOf<K>* handle_;
  typename K::Native native_;
};
template <class K>
inline typename K::Native in_pointer(const ForeignOf<K>* handle) {
  return handle == nullptr ? K::null() : in<K>(*handle);
}

// --- statuses ---
inline void to_native(MPI_Status& native, const ForeignStatus& status) {
  native = MPI_Status{in_rank(status.MPI_SOURCE), in_tag(status.MPI_TAG), in_error(status.MPI_ERROR), {}};
  api::set_bytes(native, foreign_bytes(status));
  api::set_cancelled(native, foreign_cancelled(status));
}
/// Everything but MPI_ERROR.
inline void to_foreign(ForeignStatus& status, const MPI_Status& native) {
  status.MPI_SOURCE = out_rank(native.MPI_SOURCE);
  status.MPI_TAG = out_tag(native.MPI_TAG);
  set_foreign(status, api::bytes_of(native), api::cancelled(native));
}
/// Value of a field that the call has not written: no rank, no tag, no error code.
inline constexpr int kNotWritten = -2000000000;

class StatusIn {
 public:
  explicit StatusIn(const ForeignStatus* status) : given_(status != nullptr && status != kStatusIgnore) {
    if (given_) to_native(native_, *status);
  }
  [[nodiscard]] const MPI_Status* get() const { return given_ ? &native_ : nullptr; }

 private:
  bool given_;
  MPI_Status native_;
};
class StatusOut {
 public:
  explicit StatusOut(ForeignStatus* status) : status_(status == kStatusIgnore ? nullptr : status) {
    if (status_ != nullptr) native_.MPI_SOURCE = native_.MPI_ERROR = kNotWritten;
  }
  [[nodiscard]] MPI_Status* get() { return status_ == nullptr ? MPI_STATUS_IGNORE : &native_; }
  void finish() {
    if (status_ == nullptr || native_.MPI_SOURCE == kNotWritten) return;
    to_foreign(*status_, native_);
    if (native_.MPI_ERROR != kNotWritten) status_->MPI_ERROR = out_error(native_.MPI_ERROR);
  }

 private:
  ForeignStatus* status_;
  MPI_Status native_;
};
class StatusInOut {
 public:
  explicit StatusInOut(ForeignStatus* status) : status_(status == kStatusIgnore ? nullptr : status) {
    if (status_ != nullptr) to_native(native_, *status_);
  }
  [[nodiscard]] MPI_Status* get() { return status_ == nullptr ? nullptr : &native_; }
  void finish() {
    if (status_ == nullptr) return;
    to_foreign(*status_, native_);
    status_->MPI_ERROR = out_error(native_.MPI_ERROR);
  }

 private:
  ForeignStatus* status_;
  MPI_Status native_;
};
class StatusArray {
 public:
  StatusArray(ForeignStatus* statuses, MPI_Count size)
      : statuses_(statuses == kStatusIgnore ? nullptr : statuses), native_(statuses_ == nullptr ? 0 : size) {
    for (size_t i = 0; i < native_.size(); ++i) native_[i].MPI_SOURCE = native_[i].MPI_ERROR = kNotWritten;
  }
  [[nodiscard]] MPI_Status* data() { return statuses_ == nullptr ? MPI_STATUSES_IGNORE : native_.data(); }
  void finish() {
    for (size_t i = 0; i < native_.size(); ++i) {
      const MPI_Status& native = native_[i];
      if (native.MPI_SOURCE != kNotWritten) to_foreign(statuses_[i], native);
      if (native.MPI_ERROR != kNotWritten) statuses_[i].MPI_ERROR = out_error(native.MPI_ERROR);
    }
  }

 private:
  ForeignStatus* statuses_;
  Local<MPI_Status> native_;
};

// --- lengths of the arrays of datatypes of MPI_Alltoallw and MPI_Neighbor_alltoallw ---
MPI_Count peers(Handle comm, bool sending);
MPI_Count neighbors(Handle comm, bool sending);

}  // namespace weft::compat
