// SPDX-License-Identifier: BSD-3-Clause
// Functions inside of MPICH that its libraries for C++ (libmpicxx.so.12) and Fortran (libmpifort.so.12)
// import beside functions of MPI. They name the caller of what the same thread has created last.
#include <atomic>
#include <cstring>
#include <mutex>
#include <new>
#include <unordered_map>

#include "compat/languages.hpp"
#include "compat/translate.hpp"

#define WEFT_COMPAT_EXPORT extern "C" __attribute__((visibility("default")))

namespace weft::compat {

Newest& newest() {
  static thread_local Newest created{};
  return created;
}

namespace {

// --- functions of C++ ---

/// The functions that MPI::Op::Init and MPI::Comm::Create_errhandler were called with, as many as there are
/// trampolines: of operations and of error handlers of three kinds.
class CxxFunctions {
 public:
  void add(Function function) {
    const std::lock_guard guard(lock_);
    if (has(function) || count_.load(std::memory_order_relaxed) == kCount) return;
    functions_[count_.load(std::memory_order_relaxed)] = function;
    count_.fetch_add(1, std::memory_order_release);
  }
  [[nodiscard]] bool has(Function function) const {
    const int count = count_.load(std::memory_order_acquire);
    for (int i = 0; i < count; ++i)
      if (functions_[i] == function) return true;
    return false;
  }

 private:
  static constexpr int kCount = 4 * 256;
  std::mutex lock_;
  std::atomic<int> count_ = 0;
  Function functions_[kCount] = {};
};
CxxFunctions operations, errhandlers;

using OperationCaller = void (*)(void*, void*, int, Handle, Function);
using ErrhandlerCaller = void (*)(int, void*, int*, Function);
std::atomic<OperationCaller> operation_caller;
std::atomic<ErrhandlerCaller> errhandler_caller;

// --- attributes ---

enum AttributeType { kPointer = 0, kAddressInteger = 1, kInteger = 3 };

/// A value that Fortran has set. C sees its address (MPI 5.0 section 19.3.7).
struct Integers {
  std::mutex lock;
  std::unordered_map<const void*, AttributeType> set;
};
Integers& integers() {
  static auto* const known = new Integers;  // never destroyed: static destructors may call MPI
  return *known;
}
void* store(MPI_Aint value, AttributeType type) {
  auto* const stored = new MPI_Aint(value);  // its first bytes are an int of the same value
  const std::lock_guard guard(integers().lock);
  integers().set.emplace(stored, type);
  return stored;
}
void discard(void* stored) {
  {
    const std::lock_guard guard(integers().lock);
    if (integers().set.erase(stored) == 0) return;
  }
  delete static_cast<MPI_Aint*>(stored);
}
/// Returns the type of a value; replaces the address of an integer by the integer.
AttributeType load(void*& value) {
  const std::lock_guard guard(integers().lock);
  const auto found = integers().set.find(value);
  if (found == integers().set.end()) return kPointer;
  value = reinterpret_cast<void*>(*static_cast<MPI_Aint*>(value));
  return found->second;
}

template <class Set>
int set_attribute(Set* set, Handle object, int keyval, void* value, int type) try {
  if (type == kPointer) return set(object, keyval, value);
  void* const stored =
      store(reinterpret_cast<MPI_Aint>(value), type == kInteger ? kInteger : kAddressInteger);
  const int code = set(object, keyval, stored);
  if (code != MPI_SUCCESS) discard(stored);
  return code;
} catch (const std::bad_alloc&) {
  return out_of_memory();
}

/// A key of a predefined attribute is Fortran's, C's plus one: C gets the address of the value.
template <class Get>
int get_attribute(Get* get, Handle object, int keyval, void* value, int* flag, int type) {
  if (type == kPointer) return get(object, keyval, value, flag);
  const int predefined = in_keyval(keyval - 1);
  const bool is_predefined = predefined != keyval - 1;
  void* found = nullptr;
  const int code = get(object, is_predefined ? keyval - 1 : keyval, static_cast<void*>(&found), flag);
  if (code != MPI_SUCCESS || *flag == 0) return code;
  if (!is_predefined)
    load(found);
  else if (predefined == MPI_WIN_SIZE)
    found = reinterpret_cast<void*>(*static_cast<MPI_Aint*>(found));
  else if (predefined != MPI_WIN_BASE)
    found = reinterpret_cast<void*>(static_cast<intptr_t>(*static_cast<int*>(found)));
  std::memcpy(value, static_cast<const void*>(&found), sizeof found);
  return code;
}

}  // namespace

int call_copy(const Key& key, Handle object, int keyval, void* value, void* result, int* flag) try {
  using Caller = int (*)(Function, Handle, int, void*, AttributeType, void*, void**, int*);
  const AttributeType type = load(value);
  void* copied = nullptr;
  const int code = reinterpret_cast<Caller>(key.copy_caller)(key.copy, object, keyval, key.state, type, value,
                                                             &copied, flag);
  if (code != MPI_SUCCESS || *flag == 0) return code;
  if (type != kPointer) copied = store(reinterpret_cast<MPI_Aint>(copied), type);
  std::memcpy(result, static_cast<const void*>(&copied), sizeof copied);
  return code;
} catch (const std::bad_alloc&) {
  return out_error(MPI_ERR_NO_MEM);
}

int call_remove(const Key& key, Handle object, int keyval, void* value) {
  using Caller = int (*)(Function, Handle, int, AttributeType, void*, void*);
  void* const stored = value;
  const AttributeType type = load(value);
  const int code =
      reinterpret_cast<Caller>(key.remove_caller)(key.remove, object, keyval, type, value, key.state);
  if (code == MPI_SUCCESS) discard(stored);
  return code;
}

bool call_cxx_operation(Function function, void* in_values, void* values, int count, Handle type) {
  if (!operations.has(function)) return false;
  operation_caller.load(std::memory_order_acquire)(in_values, values, count, type, function);
  return true;
}

bool call_cxx_errhandler(Function function, int kind, void* object, int* code) {
  if (!errhandlers.has(function)) return false;
  newest().error = *code;
  errhandler_caller.load(std::memory_order_acquire)(kind, object, code, function);
  return true;
}

WEFT_COMPAT_EXPORT void MPII_Op_set_cxx(Handle /*op*/, Function caller) {
  operation_caller.store(reinterpret_cast<OperationCaller>(caller), std::memory_order_release);
  operations.add(newest().function);
}
WEFT_COMPAT_EXPORT void MPII_Errhandler_set_cxx(Handle /*errhandler*/, Function caller) {
  errhandler_caller.store(reinterpret_cast<ErrhandlerCaller>(caller), std::memory_order_release);
  errhandlers.add(newest().function);
}
WEFT_COMPAT_EXPORT void MPII_Keyval_set_proxy(int /*keyval*/, Function copy, Function remove) {
  if (newest().key == nullptr) return;  // it was not created
  newest().key->copy_caller = copy;
  newest().key->remove_caller = remove;
}
WEFT_COMPAT_EXPORT void MPII_Grequest_set_lang_f77(Handle /*request*/) {
  if (newest().request != nullptr) newest().request->fortran = true;
}

#define WEFT_COMPAT_TYPED_ATTRIBUTES(object)                                                                \
  extern "C" int weft_compat_P##object##_set_attr(Handle, int, void*) __asm__("PMPI_" #object "_set_attr"); \
  extern "C" int weft_compat_P##object##_get_attr(Handle, int, void*,                                       \
                                                  int*) __asm__("PMPI_" #object "_get_attr");               \
  WEFT_COMPAT_EXPORT int MPII_##object##_set_attr(Handle handle, int keyval, void* value, int type) {       \
    return set_attribute(weft_compat_P##object##_set_attr, handle, keyval, value, type);                    \
  }                                                                                                         \
  WEFT_COMPAT_EXPORT int MPII_##object##_get_attr(Handle handle, int keyval, void* value, int* flag,        \
                                                  int type) {                                               \
    return get_attribute(weft_compat_P##object##_get_attr, handle, keyval, value, flag, type);              \
  }
WEFT_COMPAT_TYPED_ATTRIBUTES(Comm)
WEFT_COMPAT_TYPED_ATTRIBUTES(Type)
WEFT_COMPAT_TYPED_ATTRIBUTES(Win)

}  // namespace weft::compat
