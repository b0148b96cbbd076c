// SPDX-License-Identifier: BSD-3-Clause
// Handles that are integers: a predefined handle is looked up in a table, any other is the index of a slot
// that holds the native handle. Reading a slot takes no lock.
#pragma once
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <type_traits>
#include <unordered_map>

#include "api/foreign_handle.hpp"
#include "compat/mpich.hpp"
#include "compat/native.hpp"

namespace weft::compat {

/// Handle values that are invalid for every kind of the standard ABI: of a handle that is none of this
/// interface, and of a predefined handle of the standard ABI.
inline constexpr uintptr_t kInvalidNative = api::kInvalidHandle, kStandardNative = api::kStandardInMpich;

/// The standard ABI has its predefined handles below. No handle of MPICH is.
inline constexpr uintptr_t kFirstAddress = 0x1000;

/// False if the program has started MPI through this library, with a level below MPI_THREAD_MULTIPLE. Another
/// library of the process may have started it with any level.
extern bool several_threads __attribute__((visibility("hidden")));
inline void expect_threads(bool several) { several_threads = several; }

/// A kind of handle. Its handles are 0xc0000000 | kind << 26 | index. Constants of the calls, not members of
/// Slots: the compiler computes with them.
struct SlotKind {
  uint32_t tag;
  bool shared;  ///< the same object may be returned several times and then has the same handle, counted
  [[nodiscard]] constexpr bool owns(Handle handle) const {
    return static_cast<uint32_t>(handle) >> 26 == tag;
  }
};

/// The slots of one kind of handle.
class Slots {
 public:
  constexpr Slots() = default;
  Slots(const Slots&) = delete;
  Slots& operator=(const Slots&) = delete;

  /// Precondition: the kind owns the handle. Returns kInvalidNative for a freed handle.
  [[nodiscard]] void* native(Handle handle) const {
    const Slot* chunk = chunks_[index(handle) / kChunk].load(std::memory_order_acquire);
    if (chunk == nullptr) [[unlikely]]
      return reinterpret_cast<void*>(kInvalidNative);
    return chunk[index(handle) % kChunk].native;
  }
  /// Returns the handle of a native handle, which counts one more reference. Throws std::bad_alloc.
  Handle add(void* native, SlotKind kind) {
    return kind.shared || several_threads ? add_locked(native, kind) : take(native, kind);
  }
  /// Drops a reference. Precondition: the kind owns the handle.
  void remove(Handle handle, SlotKind kind) {
    if (kind.shared || several_threads) return remove_locked(handle, kind);
    Slot* const chunk = chunks_[index(handle) / kChunk].load(std::memory_order_relaxed);
    if (chunk == nullptr) [[unlikely]]
      return;
    Slot& slot = chunk[index(handle) % kChunk];
    if (slot.native != reinterpret_cast<void*>(kInvalidNative)) give(slot, index(handle));
  }

 private:
  struct Slot {
    void* native;
    uint32_t references, next;
  };
  static constexpr uint32_t kChunk = 4096, kChunks = 4096, kNone = ~0u;

  static uint32_t index(Handle handle) { return static_cast<uint32_t>(handle) & (kChunk * kChunks - 1); }
  Slot& slot(uint32_t index) {
    return chunks_[index / kChunk].load(std::memory_order_relaxed)[index % kChunk];
  }
  Handle add_locked(void* native, SlotKind kind);
  void remove_locked(Handle handle, SlotKind kind);
  /// Adds a chunk to the list of free slots.
  void grow();
  Handle take(void* native, SlotKind kind) {
    if (free_ == kNone) [[unlikely]]
      grow();
    const uint32_t place = free_;
    Slot& slot = this->slot(place);
    free_ = slot.next;
    slot.native = native;
    slot.references = 1;
    return static_cast<Handle>(kind.tag << 26 | place);
  }
  void give(Slot& slot, uint32_t place) {
    slot.native = reinterpret_cast<void*>(kInvalidNative);
    slot.next = free_;
    free_ = place;
  }

  uint32_t free_ = kNone, used_ = 0;
  std::mutex lock_;
  std::unordered_map<void*, uint32_t>* known_ = nullptr;  // of shared kinds; never destroyed
  std::atomic<Slot*> chunks_[kChunks]{};
};

#define WEFT_COMPAT_KIND(tag, type, kind, shared, native_null)                             \
  struct tag {                                                                             \
    using Native = type;                                                                   \
    static inline constinit Slots slots{};                                                 \
    static constexpr SlotKind kSlots{0x30 | kind, shared};                                 \
    static constexpr const Predefined* kBegin = k##tag##Handles;                           \
    static constexpr size_t kCount = sizeof(k##tag##Handles) / sizeof(k##tag##Handles[0]); \
    static constexpr Handle kNull = k##tag##Handles[0].foreign;                            \
    static Handle foreign_null() { return kNull; }                                         \
    static Native null() { return native_null; }                                           \
  };
WEFT_COMPAT_KIND(Comm, MPI_Comm, 1, true, MPI_COMM_NULL)
WEFT_COMPAT_KIND(Group, MPI_Group, 2, true, MPI_GROUP_NULL)
WEFT_COMPAT_KIND(Type, MPI_Datatype, 3, true, MPI_DATATYPE_NULL)
WEFT_COMPAT_KIND(Errhandler, MPI_Errhandler, 5, true, MPI_ERRHANDLER_NULL)
WEFT_COMPAT_KIND(Op, MPI_Op, 6, true, MPI_OP_NULL)
WEFT_COMPAT_KIND(Info, MPI_Info, 7, true, MPI_INFO_NULL)
WEFT_COMPAT_KIND(Win, MPI_Win, 8, true, MPI_WIN_NULL)
WEFT_COMPAT_KIND(Request, MPI_Request, 11, false, MPI_REQUEST_NULL)
WEFT_COMPAT_KIND(Message, MPI_Message, 12, false, MPI_MESSAGE_NULL)
WEFT_COMPAT_KIND(Session, MPI_Session, 14, true, MPI_SESSION_NULL)
#undef WEFT_COMPAT_KIND
struct File {
  using Native = MPI_File;
  static FileHandle foreign_null() { return nullptr; }
  static Native null() { return MPI_FILE_NULL; }
};

/// Predefined handles by their lowest byte. Handles that share it with another one (of pairs of a value and
/// an index, and the null handle) are left to a search.
template <class K>
class PredefinedTable {
 public:
  constexpr PredefinedTable() {
    for (Predefined& entry : by_foreign_) entry = {0, static_cast<int>(kInvalidNative)};
    for (size_t i = 0; i < K::kCount; ++i) {
      by_native_[K::kBegin[i].native - kFirst] = K::kBegin[i].foreign;
      Predefined& entry = by_foreign_[place(K::kBegin[i].foreign)];
      if (entry.foreign == 0 || is_direct(K::kBegin[i].foreign)) entry = K::kBegin[i];
    }
  }
  /// The only entry that may be that of the handle; else search.
  [[nodiscard]] const Predefined& entry(Handle handle) const { return by_foreign_[place(handle)]; }
  [[nodiscard]] Handle foreign(uintptr_t native) const {
    return native - kFirst < kSize ? by_native_[native - kFirst] : 0;
  }

 private:
  static constexpr size_t place(Handle handle) { return static_cast<uint8_t>(handle); }
  /// MPICH's "builtin" handles: the two highest bits are 01.
  static constexpr bool is_direct(Handle handle) { return static_cast<uint32_t>(handle) >> 30 == 1; }
  static constexpr uintptr_t kFirst = 32, kSize = 768;
  Predefined by_foreign_[256] = {};
  int by_native_[kSize] = {};
};
template <class K>
inline constexpr PredefinedTable<K> kPredefined{};

/// Datatypes of weft.h, for programs that know them by their numbers: mpi4py's Datatype.fromhandle(0x24b).
template <class K>
inline bool is_extension(uintptr_t handle) {
  return std::is_same_v<K, Type> && (handle == reinterpret_cast<uintptr_t>(MPIX_BFLOAT16) ||
                                     handle == reinterpret_cast<uintptr_t>(MPIX_C_FLOAT16));
}

/// A function of this translation unit that calls nothing: the compiler knows the registers that it changes,
/// and callers save no others (-fipa-ra).
template <class K>
[[gnu::noinline]] static typename K::Native in_slot(Handle handle) {
  if (K::kSlots.owns(handle)) return static_cast<typename K::Native>(K::slots.native(handle));
  for (size_t i = 0; i < K::kCount; ++i)
    if (K::kBegin[i].foreign == handle)
      return reinterpret_cast<typename K::Native>(static_cast<uintptr_t>(K::kBegin[i].native));
  const auto number = static_cast<uintptr_t>(handle);
  if (is_extension<K>(number)) return reinterpret_cast<typename K::Native>(number);
  const bool standard = number != 0 && number < kFirstAddress;
  return reinterpret_cast<typename K::Native>(standard ? kStandardNative : kInvalidNative);
}
/// The native handle of a handle of the program. Invalid handles become invalid native handles. A call for a
/// predefined handle would cost as much as the rest of a function, and for a request or a window, which are
/// predefined only as null handles.
template <class K>
[[gnu::always_inline]] inline typename K::Native in(Handle handle) {
  if (K::kCount == 1 && K::kSlots.owns(handle)) [[likely]]
    return static_cast<typename K::Native>(K::slots.native(handle));
  const Predefined& entry = kPredefined<K>.entry(handle);
  if (entry.foreign == handle) [[likely]]
    return reinterpret_cast<typename K::Native>(static_cast<uintptr_t>(entry.native));
  return in_slot<K>(handle);
}
/// The program's handle of a native handle, which the program owns from now on. Throws std::bad_alloc.
template <class K>
requires(!std::is_same_v<K, File>) inline Handle out(typename K::Native native) {
  const auto value = reinterpret_cast<uintptr_t>(native);
  if (value < 0x1000) return kPredefined<K>.foreign(value);
  return K::slots.add(native, K::kSlots);
}
/// Called when the object of the handle is freed.
template <class K>
inline void release(Handle handle) {
  if (K::kSlots.owns(handle)) K::slots.remove(handle, K::kSlots);
}
template <class K>
inline int handle_to_int(Handle handle) {
  return handle;
}
template <class K>
requires(!std::is_same_v<K, File>) inline Handle handle_from_int(int handle) { return handle; }

template <class K>
using ForeignOf = std::conditional_t<std::is_same_v<K, File>, FileHandle, Handle>;

template <class K>
requires(std::is_same_v<K, File>) inline MPI_File in(FileHandle file) {
  return file == nullptr ? MPI_FILE_NULL : static_cast<MPI_File>(file);
}
template <class K>
requires(std::is_same_v<K, File>) inline FileHandle out(MPI_File file) {
  return file == MPI_FILE_NULL ? nullptr : static_cast<FileHandle>(file);
}
template <class K>
requires(std::is_same_v<K, File>) inline int handle_to_int(FileHandle file) {
  return native.File_toint(in<File>(file));
}
template <class K>
requires(std::is_same_v<K, File>) inline FileHandle handle_from_int(int file) {
  return out<File>(native.File_fromint(file));
}
template <class K>
requires(std::is_same_v<K, File>) inline void release(FileHandle /*file*/) {}

}  // namespace weft::compat
