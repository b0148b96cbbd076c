// SPDX-License-Identifier: BSD-3-Clause
// Arguments of Fortran routines: handles are INTEGERs, strings have a hidden length and trailing blanks,
// special addresses are variables. A status has the layout of MPI_Status, and LOGICAL that of int.
#pragma once
#include <mpi.h>

#include <new>
#include <string>
#include <vector>

#include "fortran/addresses.hpp"

/// Defines pmpi_NAME_ and its weak alias mpi_NAME_, the symbols of mpif.h and module mpi.
#define WEFT_FORTRAN_F90(result, name, parameters)                                    \
  extern "C" __attribute__((visibility("default"))) result pmpi_##name##_ parameters; \
  extern "C" __attribute__((visibility("default"), weak, alias("pmpi_" #name "_")))   \
  result mpi_##name##_ parameters;                                                    \
  extern "C" result pmpi_##name##_ parameters
/// The symbols of mpi_f08 alone.
#define WEFT_FORTRAN_F08(result, name, parameters) WEFT_FORTRAN_F90(result, name##_f08, parameters)
/// The symbols of all interfaces: handles, statuses and absent arguments are passed alike.
#define WEFT_FORTRAN(result, name, parameters)                                      \
  extern "C" __attribute__((visibility("default"), weak, alias("pmpi_" #name "_"))) \
  result pmpi_##name##_f08_ parameters;                                             \
  extern "C" __attribute__((visibility("default"), weak, alias("pmpi_" #name "_"))) \
  result mpi_##name##_f08_ parameters;                                              \
  WEFT_FORTRAN_F90(result, name, parameters)

/// Routines of mpi_f08 with choice buffers: descriptors in this library, addresses as elsewhere in Open
/// MPI's.
#ifdef WEFT_FORTRAN_OPENMPI
#define WEFT_FORTRAN_CHOICE(result, name, parameters) WEFT_FORTRAN(result, name, parameters)
/// Gives a predefined callback the symbol of gfortran for the procedure of Open MPI's module.
#define WEFT_FORTRAN_IN_MODULE(result, name, parameters)                            \
  extern "C" __attribute__((visibility("default"), weak, alias("pmpi_" #name "_"))) \
  result weft_module_##name parameters __asm__("__mpi_f08_callbacks_MOD_mpi_" #name);
#else
#define WEFT_FORTRAN_CHOICE(result, name, parameters) WEFT_FORTRAN_F90(result, name, parameters)
#define WEFT_FORTRAN_IN_MODULE(result, name, parameters)
#endif

/// Defines the symbols of `name` again as those of `other`.
#define WEFT_FORTRAN_ALIAS(result, name, other, parameters)                         \
  extern "C" __attribute__((visibility("default"), weak, alias("pmpi_" #name "_"))) \
  result pmpi_##other##_ parameters;                                                \
  extern "C" __attribute__((visibility("default"), weak, alias("pmpi_" #name "_"))) \
  result mpi_##other##_ parameters;

namespace weft::fortran {

/// Conversion of one kind of handle.
#define WEFT_FORTRAN_HANDLE(name, type, function)                               \
  struct name {                                                                 \
    using C = type;                                                             \
    static C from_int(int number) { return PMPI_##function##_fromint(number); } \
    static int to_int(C handle) { return PMPI_##function##_toint(handle); }     \
  };
WEFT_FORTRAN_HANDLE(Comm, MPI_Comm, Comm)
WEFT_FORTRAN_HANDLE(Type, MPI_Datatype, Type)
WEFT_FORTRAN_HANDLE(Errhandler, MPI_Errhandler, Errhandler)
WEFT_FORTRAN_HANDLE(File, MPI_File, File)
WEFT_FORTRAN_HANDLE(Group, MPI_Group, Group)
WEFT_FORTRAN_HANDLE(Info, MPI_Info, Info)
WEFT_FORTRAN_HANDLE(Message, MPI_Message, Message)
WEFT_FORTRAN_HANDLE(Op, MPI_Op, Op)
WEFT_FORTRAN_HANDLE(Request, MPI_Request, Request)
WEFT_FORTRAN_HANDLE(Session, MPI_Session, Session)
WEFT_FORTRAN_HANDLE(Win, MPI_Win, Win)
#undef WEFT_FORTRAN_HANDLE

inline constexpr unsigned kPredefinedEnd =
    4096;  // handles below are their own numbers (MPI 5.0 section 20.3)

#ifdef WEFT_FORTRAN_FOREIGN  // for another MPI's binary interface (src/compat)
template <class K>
typename K::C in(int number) {
  return K::from_int(number);
}
template <class K>
int out(typename K::C handle) {
  return K::to_int(handle);
}
#else
template <class K>
typename K::C in(int number) {
  if (static_cast<unsigned>(number) < kPredefinedEnd)
    return reinterpret_cast<typename K::C>(static_cast<uintptr_t>(number));
  return K::from_int(number);
}
template <class K>
int out(typename K::C handle) {
  const auto value = reinterpret_cast<uintptr_t>(handle);
  return value < kPredefinedEnd ? static_cast<int>(value) : K::to_int(handle);
}
#endif

/// Memory for the C handles of an array; short arrays need no allocation.
template <class K>
class HandleArray {
 public:
  explicit HandleArray(MPI_Count count) : size_(count > 0 ? static_cast<size_t>(count) : 0) {
    if (size_ > kInline) heap_.resize(size_);
  }
  [[nodiscard]] typename K::C* data() { return size_ > kInline ? heap_.data() : inline_; }

 protected:
  size_t size_;

 private:
  static constexpr size_t kInline = 32;
  typename K::C inline_[kInline] = {};
  std::vector<typename K::C> heap_;
};
/// An array of handles that the call reads.
template <class K>
class HandlesIn : public HandleArray<K> {
 public:
  HandlesIn(const int* numbers, MPI_Count count) : HandleArray<K>(count) {
    for (size_t i = 0; i < this->size_; ++i) this->data()[i] = in<K>(numbers[i]);
  }
};
/// An array of handles that the call reads and writes.
template <class K>
class Handles : public HandlesIn<K> {
 public:
  Handles(int* numbers, MPI_Count count) : HandlesIn<K>(numbers, count), numbers_(numbers) {}
  void finish() {
    for (size_t i = 0; i < this->size_; ++i) numbers_[i] = out<K>(this->data()[i]);
  }

 private:
  int* numbers_;
};
/// An array of handles that the call writes, perhaps in part.
template <class K>
class HandlesOut : public HandleArray<K> {
 public:
  HandlesOut(int* numbers, MPI_Count count) : HandleArray<K>(count), numbers_(numbers) {}
  void finish() {
    for (size_t i = 0; i < this->size_ && this->data()[i] != typename K::C{}; ++i)
      numbers_[i] = out<K>(this->data()[i]);
  }

 private:
  int* numbers_;
};

/// A choice buffer. The result is not const: C has output buffers, and special addresses are not.
inline void* choice(const void* address) {
  if (address == &mpi_fortran_bottom_) return MPI_BOTTOM;
  if (address == &mpi_fortran_in_place_) return MPI_IN_PLACE;
#ifdef MPI_BUFFER_AUTOMATIC
  if (address == &mpi_fortran_buffer_automatic_) return MPI_BUFFER_AUTOMATIC;
#endif
  return const_cast<void*>(address);
}
inline MPI_Status* status_out(int* status) {
  auto* const c_status = reinterpret_cast<MPI_Status*>(status);
  const bool ignored = status == mpi_fortran_status_ignore_ || c_status == &mpi_fortran_f08_status_ignore_;
  return ignored ? MPI_STATUS_IGNORE : c_status;
}
inline MPI_Status* statuses_out(int* statuses) {
  auto* const c_statuses = reinterpret_cast<MPI_Status*>(statuses);
  const bool ignored =
      statuses == mpi_fortran_statuses_ignore_ || c_statuses == &mpi_fortran_f08_statuses_ignore_;
  return ignored ? MPI_STATUSES_IGNORE : c_statuses;
}
inline int* weight_array(const int* array) {
  if (array == &mpi_fortran_unweighted_) return MPI_UNWEIGHTED;
  if (array == &mpi_fortran_weights_empty_) return MPI_WEIGHTS_EMPTY;
  return const_cast<int*>(array);
}
/// Triplets (first, last, stride) of ranks; C's prototypes lack const.
inline int (*rank_triplets(const int* triplets))[3] {
  return reinterpret_cast<int(*)[3]>(const_cast<int*>(triplets));
}
/// Indices from C in place: Fortran counts from 1. `count` may be MPI_UNDEFINED.
inline void count_from_one(int* indices, int count) {
  for (int i = 0; i < count; ++i)
    if (indices[i] != MPI_UNDEFINED) ++indices[i];
}

/// A string from Fortran, without trailing blanks.
class String {
 public:
  String(const char* text, size_t length);
  [[nodiscard]] const char* text() const { return text_.c_str(); }
  [[nodiscard]] bool empty() const { return text_.empty(); }
  [[nodiscard]] char* data() { return text_.data(); }

 private:
  std::string text_;
};
/// A string without leading and trailing blanks: info keys and values, arguments of spawned programs (MPI 5.0
/// sections 10 and 11.8.2).
class Stripped : public String {
 public:
  Stripped(const char* text, size_t length);
};
/// Copies a C string to Fortran: truncated, or filled with blanks.
void copy_out(char* text, size_t length, const char* c_text);

/// Stores an error code; `ierror` is null where mpi_f08 leaves it out.
inline void set_error(int* ierror, int code) {
  if (ierror != nullptr) *ierror = code;
}
/// Calls the error handler for an allocation that failed.
void out_of_memory(int* ierror);

/// Number of processes that an all-to-all exchange on `comm` sends to or receives from.
MPI_Count peers(int comm, bool sending);
/// The same for a neighborhood collective.
MPI_Count neighbors(int comm, bool sending);

}  // namespace weft::fortran
