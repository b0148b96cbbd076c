// SPDX-License-Identifier: BSD-3-Clause
// Functions that take callbacks. The program's functions get its own handles, error codes and statuses.
#include <new>
#include <utility>

#include "compat/cxx.hpp"
#include "compat/languages.hpp"
#include "compat/trampolines.hpp"
#include "compat/translate.hpp"

namespace weft::compat {

namespace {

template <class K>
int copy_attribute(typename K::Native object, int keyval, void* state, void* value, void* result, int* flag) {
  using Copy = int (*)(Handle, int, void*, void*, void*, int*);
  const Key& key = *static_cast<Key*>(state);
  const Borrowed<K> borrowed(object);
  if constexpr (kNamesCallers)
    if (key.copy_caller != nullptr)
      return in_error(call_copy(key, borrowed.handle(), out_keyval(keyval), value, result, flag));
  const auto copy = reinterpret_cast<Copy>(key.copy);
  return in_error(copy(borrowed.handle(), out_keyval(keyval), key.state, value, result, flag));
}
template <class K>
int delete_attribute(typename K::Native object, int keyval, void* value, void* state) {
  using Delete = int (*)(Handle, int, void*, void*);
  const Key& key = *static_cast<Key*>(state);
  const Borrowed<K> borrowed(object);
  if constexpr (kNamesCallers)
    if (key.remove_caller != nullptr)
      return in_error(call_remove(key, borrowed.handle(), out_keyval(keyval), value));
  return in_error(
      reinterpret_cast<Delete>(key.remove)(borrowed.handle(), out_keyval(keyval), value, key.state));
}

template <class K, class Create>
int create_key(Create* create, Function copy, Function remove, int* keyval, void* state) {
  auto* key = new (std::nothrow) Key{copy, remove, state};
  if (key == nullptr) return out_of_memory();
  int code = create(copy == nullptr ? nullptr : copy_attribute<K>,
                    remove == nullptr ? nullptr : delete_attribute<K>, keyval, key);
  if (code != MPI_SUCCESS) {
    delete key;
    key = nullptr;
  }
  if constexpr (kNamesCallers) newest().key = key;
  return out_error(code);
}

template <class K, class Create>
int create_errhandler(Create* create, Function function, Handle* errhandler) {
  using Traits = UserErrorHandler<K>;
  typename Traits::Native native_function = nullptr;
  if (function != nullptr) {
    native_function = Trampolines<Traits>::find(reinterpret_cast<typename Traits::Foreign>(function));
    if (native_function == nullptr) return out_of_memory();
  }
  HandleOut<Errhandler> created(errhandler);
  const int code = create(native_function, created.get());
  created.finish();
  if constexpr (kNamesCallers) newest().function = function;
  return out_error(code);
}

/// The error handler of the bindings' MPI::ERRORS_THROW_EXCEPTIONS for a kind of object: it returns.
template <class K>
void return_error(typename K::Native* /*object*/, int* /*code*/, ...) {}
template <class K, class Create>
MPI_Errhandler throw_exceptions(Create* create) {
  static const MPI_Errhandler handler = [create] {
    MPI_Errhandler created = MPI_ERRHANDLER_NULL;
    create(return_error<K>, &created);
    return created;
  }();
  return handler;
}
template <class K, class Create, class Set>
int set_errhandler(Create* create, Set* set, ForeignOf<K> object, Handle errhandler) {
  MPI_Errhandler handler = in<Errhandler>(errhandler);
  if constexpr (kNamesCallers)
    if (errhandler == kThrowExceptions) handler = throw_exceptions<K>(create);
  return out_error(set(in<K>(object), handler));
}
template <class K, class Create, class Get>
int get_errhandler(Create* create, Get* get, ForeignOf<K> object, Handle* errhandler) try {
  HandleOut<Errhandler> found(errhandler);
  const int code = get(in<K>(object), found.get());
  if constexpr (kNamesCallers) {
    if (code == MPI_SUCCESS && *found.get() == throw_exceptions<K>(create)) {
      *errhandler = kThrowExceptions;
      return out_error(native.Errhandler_free(found.get()));  // one reference stays here
    }
  }
  found.finish();
  return out_error(code);
} catch (const std::bad_alloc&) {
  return out_of_memory();
}

/// The bindings call the error handler again with the code that a function returns. A code of a failure is
/// unlike all others of the last time; a class is an error of the program's own.
template <class K, class Call>
int call_errhandler(Call* call, ForeignOf<K> object, int code) {
  if constexpr (kNamesCallers)
    if (code > foreign::ERR_LASTCODE && std::exchange(newest().error, MPI_SUCCESS) == code)
      return MPI_SUCCESS;
  return out_error(call(in<K>(object), in_error(code)));
}

template <class Count, class Create>
int create_op(Create* create, Function function, int commute, Handle* op) {
  using Traits = UserOperation<Count>;
  typename Traits::Native native_function = nullptr;
  if (function != nullptr) {
    native_function = Trampolines<Traits>::find(reinterpret_cast<typename Traits::Foreign>(function));
    if (native_function == nullptr) return out_of_memory();
  }
  HandleOut<Op> created(op);
  const int code = create(native_function, commute, created.get());
  created.finish();
  if constexpr (kNamesCallers) newest().function = function;
  return out_error(code);
}

int call_query(const GeneralizedRequest& request, ForeignStatus* status) {
  int code = MPI_SUCCESS;
  if (request.fortran)
    reinterpret_cast<void (*)(void*, ForeignStatus*, int*)>(request.query)(request.state, status, &code);
  else
    code = reinterpret_cast<int (*)(void*, ForeignStatus*)>(request.query)(request.state, status);
  return code;
}
int call_free(const GeneralizedRequest& request) {
  int code = MPI_SUCCESS;
  if (request.fortran)
    reinterpret_cast<void (*)(void*, int*)>(request.free)(request.state, &code);
  else
    code = reinterpret_cast<int (*)(void*)>(request.free)(request.state);
  return code;
}
int call_cancel(const GeneralizedRequest& request, int complete) {
  int code = MPI_SUCCESS;
  if (request.fortran)
    reinterpret_cast<void (*)(void*, int*, int*)>(request.cancel)(request.state, &complete, &code);
  else
    code = reinterpret_cast<int (*)(void*, int)>(request.cancel)(request.state, complete);
  return code;
}
int query_request(void* state, MPI_Status* status) {
  const auto& request = *static_cast<GeneralizedRequest*>(state);
  if (request.query == nullptr) return MPI_SUCCESS;
  ForeignStatus foreign_status{};
  to_foreign(foreign_status, *status);
  foreign_status.MPI_ERROR = out_error(status->MPI_ERROR);
  const int code = in_error(call_query(request, &foreign_status));
  to_native(*status, foreign_status);
  return code;
}
int free_request(void* state) {
  auto* const request = static_cast<GeneralizedRequest*>(state);
  const int code = request->free == nullptr ? MPI_SUCCESS : in_error(call_free(*request));
  delete request;
  return code;
}
int cancel_request(void* state, int complete) {
  const auto& request = *static_cast<GeneralizedRequest*>(state);
  return request.cancel == nullptr ? MPI_SUCCESS : in_error(call_cancel(request, complete));
}

struct Datarep {
  void (*read)(), (*write)();
  int (*extent)(Handle, MPI_Aint*, void*);
  void* state;
};
template <class Count, bool Read>
int convert_data(void* user, MPI_Datatype type, Count count, void* file, MPI_Offset position, void* state) {
  using Convert = int (*)(void*, Handle, Count, void*, MPI_Offset, void*);
  const auto& datarep = *static_cast<Datarep*>(state);
  const Borrowed<Type> borrowed(type);
  const auto convert = reinterpret_cast<Convert>(Read ? datarep.read : datarep.write);
  return in_error(convert(user, borrowed.handle(), count, file, position, datarep.state));
}
int datarep_extent(MPI_Datatype type, MPI_Aint* extent, void* state) {
  const auto& datarep = *static_cast<Datarep*>(state);
  const Borrowed<Type> borrowed(type);
  return in_error(datarep.extent(borrowed.handle(), extent, datarep.state));
}
template <class Count, class Register>
int register_datarep(Register* call, const char* name, const Datarep& functions) {
  auto* const datarep = new (std::nothrow) Datarep(functions);  // registered for ever
  if (datarep == nullptr) return out_of_memory();
  const int code = call(name, functions.read == nullptr ? nullptr : convert_data<Count, true>,
                        functions.write == nullptr ? nullptr : convert_data<Count, false>,
                        functions.extent == nullptr ? nullptr : datarep_extent, datarep);
  if (code != MPI_SUCCESS) delete datarep;
  return out_error(code);
}

}  // namespace

WEFT_COMPAT(int, Op_create, (Function function, int commute, Handle* op)) {
  if (creates_cxx_operation(function)) return create_cxx_operation(commute, op);
  return create_op<int>(native.Op_create, function, commute, op);
}
WEFT_COMPAT(int, Op_create_c, (Function function, int commute, Handle* op)) {
  return create_op<MPI_Count>(native.Op_create_c, function, commute, op);
}
WEFT_COMPAT(int, Comm_create_errhandler, (Function function, Handle* errhandler)) {
  return create_errhandler<Comm>(native.Comm_create_errhandler, function, errhandler);
}
WEFT_COMPAT(int, File_create_errhandler, (Function function, Handle* errhandler)) {
  return create_errhandler<File>(native.File_create_errhandler, function, errhandler);
}
WEFT_COMPAT(int, Win_create_errhandler, (Function function, Handle* errhandler)) {
  return create_errhandler<Win>(native.Win_create_errhandler, function, errhandler);
}
WEFT_COMPAT(int, Session_create_errhandler, (Function function, Handle* errhandler)) {
  return create_errhandler<Session>(native.Session_create_errhandler, function, errhandler);
}
#define WEFT_COMPAT_ERRHANDLERS(K, Object)                                                                 \
  WEFT_COMPAT(int, K##_set_errhandler, (Object object, Handle errhandler)) {                               \
    return set_errhandler<K>(native.K##_create_errhandler, native.K##_set_errhandler, object, errhandler); \
  }                                                                                                        \
  WEFT_COMPAT(int, K##_get_errhandler, (Object object, Handle * errhandler)) {                             \
    return get_errhandler<K>(native.K##_create_errhandler, native.K##_get_errhandler, object, errhandler); \
  }                                                                                                        \
  WEFT_COMPAT(int, K##_call_errhandler, (Object object, int code)) {                                       \
    return call_errhandler<K>(native.K##_call_errhandler, object, code);                                   \
  }
WEFT_COMPAT_ERRHANDLERS(Comm, Handle)
WEFT_COMPAT_ERRHANDLERS(File, FileHandle)
WEFT_COMPAT_ERRHANDLERS(Win, Handle)
#undef WEFT_COMPAT_ERRHANDLERS
WEFT_COMPAT(int, Errhandler_free, (Handle * errhandler)) {
  if constexpr (kNamesCallers) {
    if (errhandler != nullptr && *errhandler == kThrowExceptions) {  // a predefined handle may be freed
      *errhandler = Errhandler::foreign_null();
      return MPI_SUCCESS;
    }
  }
  HandleInOut<Errhandler> handler(errhandler);
  const int code = native.Errhandler_free(handler.get());
  handler.finish();
  return out_error(code);
}
WEFT_COMPAT(int, Comm_create_keyval, (Function copy, Function remove, int* keyval, void* state)) {
  return create_key<Comm>(native.Comm_create_keyval, copy, remove, keyval, state);
}
WEFT_COMPAT(int, Type_create_keyval, (Function copy, Function remove, int* keyval, void* state)) {
  return create_key<Type>(native.Type_create_keyval, copy, remove, keyval, state);
}
WEFT_COMPAT(int, Win_create_keyval, (Function copy, Function remove, int* keyval, void* state)) {
  return create_key<Win>(native.Win_create_keyval, copy, remove, keyval, state);
}
WEFT_COMPAT(int, Keyval_create, (Function copy, Function remove, int* keyval, void* state)) {
  return create_key<Comm>(native.Keyval_create, copy, remove, keyval, state);
}
WEFT_COMPAT(int, Grequest_start,
            (Function query, Function free, Function cancel, void* state, Handle* request))
try {
  auto* const own = new GeneralizedRequest{query, free, cancel, state};
  HandleOut<Request> created(request);
  const int code = native.Grequest_start(query_request, free_request, cancel_request, own, created.get());
  if constexpr (kNamesCallers) newest().request = code == MPI_SUCCESS ? own : nullptr;
  if (code != MPI_SUCCESS) delete own;
  created.finish();
  return out_error(code);
} catch (const std::bad_alloc&) {
  return out_of_memory();
}
WEFT_COMPAT(int, Register_datarep,
            (const char* name, Function read, Function write, int (*extent)(Handle, MPI_Aint*, void*),
             void* state)) {
  return register_datarep<int>(native.Register_datarep, name, {read, write, extent, state});
}
WEFT_COMPAT(int, Register_datarep_c,
            (const char* name, Function read, Function write, int (*extent)(Handle, MPI_Aint*, void*),
             void* state)) {
  return register_datarep<MPI_Count>(native.Register_datarep_c, name, {read, write, extent, state});
}

}  // namespace weft::compat
