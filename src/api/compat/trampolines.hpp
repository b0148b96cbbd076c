// SPDX-License-Identifier: BSD-3-Clause
// Callbacks without an argument for state (user operations, error handlers): each function of the program
// gets a function of its own here, which knows the program's function by its number.
#pragma once
#include <atomic>
#include <mutex>
#include <utility>

#include "api/compat/handles.hpp"

namespace weft::compat {

/// The program's handle of an object for the time of a callback. An object that the program has freed, or
/// never had a handle of, gets a temporary one.
template <class K>
class Borrowed {
 public:
  explicit Borrowed(typename K::Native native) : handle_(out<K>(native)) {}
  ~Borrowed() { release<K>(handle_); }
  Borrowed(const Borrowed&) = delete;
  Borrowed& operator=(const Borrowed&) = delete;
  [[nodiscard]] ForeignOf<K> handle() const { return handle_; }

 private:
  ForeignOf<K> handle_;
};

/// Trampolines of one signature. `Traits` has the types Native and Foreign of function pointers and the
/// template call<number>, which calls the program's function of that number. Functions keep their number for
/// ever: an operation may be freed while a collective uses its function.
template <class Traits>
class Trampolines {
 public:
  /// Returns the native function for a function of the program; nullptr if kCount functions are in use.
  static typename Traits::Native find(typename Traits::Foreign function) {
    static std::mutex lock;
    const std::lock_guard guard(lock);
    for (size_t i = 0; i < kCount; ++i) {
      const auto known = functions[i].load(std::memory_order_relaxed);
      if (known != nullptr && known != function) continue;
      functions[i].store(function, std::memory_order_release);
      return natives(std::make_index_sequence<kCount>())[i];
    }
    return nullptr;
  }
  static inline std::atomic<typename Traits::Foreign> functions[256];

 private:
  static constexpr size_t kCount = sizeof functions / sizeof functions[0];
  template <size_t... I>
  static const typename Traits::Native* natives(std::index_sequence<I...>) {
    static constexpr typename Traits::Native kFunctions[] = {Traits::template call<I>...};
    return kFunctions;
  }
};

template <class Count>
struct UserOperation {
  using Native = void (*)(void*, void*, Count*, MPI_Datatype*);
  using Foreign = void (*)(void*, void*, Count*, Handle*);
  template <size_t I>
  static void call(void* in_values, void* values, Count* count, MPI_Datatype* type) {
    const Borrowed<Type> borrowed(*type);
    Handle handle = borrowed.handle();
    Trampolines<UserOperation>::functions[I].load(std::memory_order_acquire)(in_values, values, count,
                                                                             &handle);
  }
};

/// Converts a code for the program's error handler (translate.hpp).
int convert_error_out(int code);

template <class K>
struct UserErrorHandler {
  using Native = void (*)(typename K::Native*, int*, ...);
  using Foreign = void (*)(ForeignOf<K>*, int*, ...);
  template <size_t I>
  static void call(typename K::Native* object, int* code, ...) {
    const Borrowed<K> borrowed(*object);
    auto handle = borrowed.handle();
    int foreign_code = convert_error_out(*code);
    Trampolines<UserErrorHandler>::functions[I].load(std::memory_order_acquire)(&handle, &foreign_code);
  }
};

}  // namespace weft::compat
