// SPDX-License-Identifier: BSD-3-Clause
// Callbacks without an argument for state (user operations, error handlers): each function of the program
// gets a function of its own here, which knows the program's function by its number.
#pragma once
#include <atomic>
#include <mutex>
#include <utility>

namespace weft::api {

/// Trampolines of one signature. `Traits` has the types Native and Foreign of function pointers and the
/// template call<number>, which calls the program's function of that number. It should do no more than that:
/// hundreds of them are compiled. Functions keep their number for ever: an operation may be freed while a
/// collective uses its function.
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
  /// Returns the program's function of a number.
  static typename Traits::Foreign function(size_t number) {
    return functions[number].load(std::memory_order_acquire);
  }

 private:
  static constexpr size_t kCount = 256;
  static inline std::atomic<typename Traits::Foreign> functions[kCount];
  template <size_t... I>
  static const typename Traits::Native* natives(std::index_sequence<I...>) {
    static constexpr typename Traits::Native kFunctions[] = {Traits::template call<I>...};
    return kFunctions;
  }
};

}  // namespace weft::api
