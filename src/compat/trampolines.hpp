// SPDX-License-Identifier: BSD-3-Clause
// Callbacks without an argument for state: signatures of user operations and error handlers.
#pragma once
#include "api/trampolines.hpp"
#include "compat/handles.hpp"
#include "compat/languages.hpp"

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

using api::Trampolines;

template <class Count>
struct UserOperation {
  using Native = void (*)(void*, void*, Count*, MPI_Datatype*);
  using Foreign = void (*)(void*, void*, Count*, Handle*);
  template <size_t I>
  static void call(void* in_values, void* values, Count* count, MPI_Datatype* type) {
    run(Trampolines<UserOperation>::function(I), in_values, values, count, type);
  }
  [[gnu::noinline]] static void run(Foreign function, void* in_values, void* values, Count* count,
                                    MPI_Datatype* type) {
    const Borrowed<Type> borrowed(*type);
    Handle handle = borrowed.handle();
    if constexpr (kNamesCallers && std::is_same_v<Count, int>)
      if (call_cxx_operation(reinterpret_cast<Function>(function), in_values, values, *count, handle)) return;
    function(in_values, values, count, &handle);
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
    run(Trampolines<UserErrorHandler>::function(I), *object, *code);
  }
  [[gnu::noinline]] static void run(Foreign function, typename K::Native object, int code) {
    const Borrowed<K> borrowed(object);
    auto handle = borrowed.handle();
    int foreign_code = convert_error_out(code);
    if constexpr (kNamesCallers && kErrhandlerKind<K> >= 0)
      if (call_cxx_errhandler(reinterpret_cast<Function>(function), kErrhandlerKind<K>, &handle,
                              &foreign_code))
        return;
    function(&handle, &foreign_code);
  }
};

}  // namespace weft::compat
