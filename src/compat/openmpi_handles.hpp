// SPDX-License-Identifier: BSD-3-Clause
// Handles that are addresses: the native handle of an object, or the data symbol of a predefined object. A
// program that is not position-independent contains a copy of the symbol, so the contents, not the address,
// tell that it is one.
#pragma once
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <type_traits>

#include "api/foreign_handle.hpp"
#include "compat/native.hpp"
#include "compat/openmpi.hpp"

namespace weft::compat {

/// Handle values that are invalid for every kind of the standard ABI: of a handle that is none of this
/// interface, and of a predefined handle of the standard ABI.
inline constexpr uintptr_t kInvalidNative = api::kInvalidHandle, kStandardNative = api::kStandardInOpenMpi;
/// First word of a predefined object, which no object of libmpi_abi.so.1 begins with.
inline constexpr uint64_t kPredefinedMark = 0x9d3cf8e1b7a5426b;
/// No handle is below: the standard ABI has its predefined handles there.
inline constexpr uintptr_t kFirstAddress = 0x1000;

/// A data symbol whose address is a predefined handle. Its size is that of Open MPI, which programs contain.
template <size_t kBytes>
struct alignas(32) PredefinedObject {
  uint64_t mark;
  uintptr_t native;
  unsigned char unused[kBytes - 16];
};
#define WEFT_COMPAT_DECLARE(name, bytes, native) \
  extern "C" __attribute__((visibility("default"))) PredefinedObject<bytes> name;
WEFT_COMPAT_OBJECTS(WEFT_COMPAT_DECLARE)
#undef WEFT_COMPAT_DECLARE

/// Addresses of the data symbols by their values in the standard ABI.
class ForeignTable {
 public:
  constexpr ForeignTable() {
#define WEFT_COMPAT_ENTER(name, bytes, native) enter(&(name), native);
    WEFT_COMPAT_OBJECTS(WEFT_COMPAT_ENTER)
#undef WEFT_COMPAT_ENTER
  }
  [[nodiscard]] void* find(uintptr_t native) const {
    return native - kFirst < kSize ? handles_[native - kFirst] : nullptr;
  }

 private:
  constexpr void enter(void* symbol, uintptr_t native) {
    if (native != 0 && handles_[native - kFirst] == nullptr) handles_[native - kFirst] = symbol;
  }
  static constexpr uintptr_t kFirst = 32, kSize = 768;
  void* handles_[kSize] = {};
};
extern const ForeignTable foreign_table;

#define WEFT_COMPAT_KIND(tag, type, symbol, native_null) \
  struct tag {                                           \
    using Native = type;                                 \
    static constexpr auto& kNumbers = k##tag##Numbers;   \
    static Handle foreign_null() { return &(symbol); }   \
    static Native null() { return native_null; }         \
  };
WEFT_COMPAT_KIND(Comm, MPI_Comm, ompi_mpi_comm_null, MPI_COMM_NULL)
WEFT_COMPAT_KIND(Group, MPI_Group, ompi_mpi_group_null, MPI_GROUP_NULL)
WEFT_COMPAT_KIND(Type, MPI_Datatype, ompi_mpi_datatype_null, MPI_DATATYPE_NULL)
WEFT_COMPAT_KIND(Errhandler, MPI_Errhandler, ompi_mpi_errhandler_null, MPI_ERRHANDLER_NULL)
WEFT_COMPAT_KIND(File, MPI_File, ompi_mpi_file_null, MPI_FILE_NULL)
WEFT_COMPAT_KIND(Op, MPI_Op, ompi_mpi_op_null, MPI_OP_NULL)
WEFT_COMPAT_KIND(Info, MPI_Info, ompi_mpi_info_null, MPI_INFO_NULL)
WEFT_COMPAT_KIND(Win, MPI_Win, ompi_mpi_win_null, MPI_WIN_NULL)
WEFT_COMPAT_KIND(Request, MPI_Request, ompi_request_null, MPI_REQUEST_NULL)
WEFT_COMPAT_KIND(Message, MPI_Message, ompi_message_null, MPI_MESSAGE_NULL)
WEFT_COMPAT_KIND(Session, MPI_Session, ompi_mpi_instance_null, MPI_SESSION_NULL)
#undef WEFT_COMPAT_KIND
template <class K>
using ForeignOf = Handle;

/// Datatypes of weft.h, for programs that know them by their numbers: mpi4py's Datatype.fromhandle(0x24b).
template <class K>
inline bool is_extension(const void* handle) {
  return std::is_same_v<K, Type> && (handle == MPIX_BFLOAT16 || handle == MPIX_C_FLOAT16);
}

/// The native handle of a handle of the program. An invalid address is read, as in Open MPI; a small value
/// becomes an invalid native handle.
template <class K>
inline typename K::Native in(Handle handle) {
  const auto value = reinterpret_cast<uintptr_t>(handle);
  if (value < kFirstAddress) [[unlikely]]
    return reinterpret_cast<typename K::Native>(is_extension<K>(handle) ? value
                                                : value == 0            ? kInvalidNative
                                                                        : kStandardNative);
  uint64_t mark;
  std::memcpy(&mark, handle, sizeof mark);
  if (mark != kPredefinedMark) [[unlikely]]
    return static_cast<typename K::Native>(handle);
  uintptr_t native;
  std::memcpy(&native, static_cast<const char*>(handle) + sizeof mark, sizeof native);
  return reinterpret_cast<typename K::Native>(native);
}
/// The program's handle of a native handle.
template <class K>
inline Handle out(typename K::Native native) {
  const auto value = reinterpret_cast<uintptr_t>(native);
  if (value >= kFirstAddress) return static_cast<void*>(native);
  void* const object = foreign_table.find(value);
  return object == nullptr && is_extension<K>(native) ? native : object;
}
/// Handles take no memory of this library.
template <class K>
inline void release(Handle /*handle*/) {}
inline void expect_threads(bool /*several*/) {}

/// Numbers of the predefined handles of one kind in Fortran. Other objects have the numbers of the standard
/// ABI, which are larger.
template <class K>
class FortranNumbers {
 public:
  constexpr FortranNumbers() {
    for (int16_t& number : numbers_) number = -1;
    for (const FortranNumber& entry : K::kNumbers) {
      if (entry.number < 0) continue;
      handles_[entry.number] = entry.native;
      if (numbers_[entry.native] < 0) numbers_[entry.native] = static_cast<int16_t>(entry.number);
    }
  }
  /// The number of a native handle; -1 if it has none.
  [[nodiscard]] int number(uintptr_t native) const { return native < kNatives ? numbers_[native] : -1; }
  /// The native handle of a number; 0 if there is none.
  [[nodiscard]] uintptr_t native(int number) const {
    return static_cast<unsigned>(number) < kNumbers ? static_cast<uintptr_t>(handles_[number]) : 0;
  }

 private:
  static constexpr unsigned kNumbers = 128, kNatives = 800;
  int handles_[kNumbers] = {};
  int16_t numbers_[kNatives] = {};
};
template <class K>
inline constexpr FortranNumbers<K> kFortranNumbers{};

#define WEFT_COMPAT_TOINT(tag, name)                                                    \
  template <>                                                                           \
  inline int handle_to_int<tag>(Handle handle) {                                        \
    const tag::Native known = in<tag>(handle);                                          \
    const int number = kFortranNumbers<tag>.number(reinterpret_cast<uintptr_t>(known)); \
    return number >= 0 ? number : native.name##_toint(known);                           \
  }                                                                                     \
  template <>                                                                           \
  inline Handle handle_from_int<tag>(int handle) {                                      \
    const uintptr_t known = kFortranNumbers<tag>.native(handle);                        \
    if (known != 0) return out<tag>(reinterpret_cast<tag::Native>(known));              \
    return out<tag>(native.name##_fromint(handle));                                     \
  }
template <class K>
int handle_to_int(Handle handle);
template <class K>
Handle handle_from_int(int handle);
WEFT_COMPAT_TOINT(Comm, Comm)
WEFT_COMPAT_TOINT(Errhandler, Errhandler)
WEFT_COMPAT_TOINT(File, File)
WEFT_COMPAT_TOINT(Group, Group)
WEFT_COMPAT_TOINT(Info, Info)
WEFT_COMPAT_TOINT(Message, Message)
WEFT_COMPAT_TOINT(Op, Op)
WEFT_COMPAT_TOINT(Request, Request)
WEFT_COMPAT_TOINT(Session, Session)
WEFT_COMPAT_TOINT(Type, Type)
WEFT_COMPAT_TOINT(Win, Win)
#undef WEFT_COMPAT_TOINT

}  // namespace weft::compat
