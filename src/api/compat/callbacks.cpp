// SPDX-License-Identifier: BSD-3-Clause
// Functions that take callbacks. The program's functions get its own handles, error codes and statuses.
#include <new>

#include "api/compat/cxx.hpp"
#include "api/compat/trampolines.hpp"
#include "api/compat/translate.hpp"

namespace weft::compat {

namespace {

/// The state of an attribute key. It is never freed: attributes may outlive MPI_*_free_keyval.
struct Key {
  void (*copy)(), (*remove)();
  void* state;
};

template <class K>
int copy_attribute(typename K::Native object, int keyval, void* state, void* value, void* result, int* flag) {
  using Copy = int (*)(Handle, int, void*, void*, void*, int*);
  const Key& key = *static_cast<Key*>(state);
  const Borrowed<K> borrowed(object);
  const auto copy = reinterpret_cast<Copy>(key.copy);
  return in_error(copy(borrowed.handle(), out_keyval(keyval), key.state, value, result, flag));
}
template <class K>
int delete_attribute(typename K::Native object, int keyval, void* value, void* state) {
  using Delete = int (*)(Handle, int, void*, void*);
  const Key& key = *static_cast<Key*>(state);
  const Borrowed<K> borrowed(object);
  return in_error(
      reinterpret_cast<Delete>(key.remove)(borrowed.handle(), out_keyval(keyval), value, key.state));
}

template <class K, class Create>
int create_key(Create* create, void (*copy)(), void (*remove)(), int* keyval, void* state) {
  auto* const key = new (std::nothrow) Key{copy, remove, state};
  if (key == nullptr) return out_of_memory();
  int code = create(copy == nullptr ? nullptr : copy_attribute<K>,
                    remove == nullptr ? nullptr : delete_attribute<K>, keyval, key);
  if (code != MPI_SUCCESS) delete key;
  return out_error(code);
}

template <class K, class Create>
int create_errhandler(Create* create, void (*function)(), Handle* errhandler) {
  using Traits = UserErrorHandler<K>;
  typename Traits::Native native_function = nullptr;
  if (function != nullptr) {
    native_function = Trampolines<Traits>::find(reinterpret_cast<typename Traits::Foreign>(function));
    if (native_function == nullptr) return out_of_memory();
  }
  HandleOut<Errhandler> created(errhandler);
  const int code = create(native_function, created.get());
  created.finish();
  return out_error(code);
}

template <class Count, class Create>
int create_op(Create* create, void (*function)(), int commute, Handle* op) {
  using Traits = UserOperation<Count>;
  typename Traits::Native native_function = nullptr;
  if (function != nullptr) {
    native_function = Trampolines<Traits>::find(reinterpret_cast<typename Traits::Foreign>(function));
    if (native_function == nullptr) return out_of_memory();
  }
  HandleOut<Op> created(op);
  const int code = create(native_function, commute, created.get());
  created.finish();
  return out_error(code);
}

struct GeneralizedRequest {
  int (*query)(void*, ForeignStatus*);
  int (*free)(void*);
  int (*cancel)(void*, int);
  void* state;
};
int query_request(void* state, MPI_Status* status) {
  const auto& request = *static_cast<GeneralizedRequest*>(state);
  if (request.query == nullptr) return MPI_SUCCESS;
  ForeignStatus foreign_status{};
  to_foreign(foreign_status, *status);
  foreign_status.MPI_ERROR = out_error(status->MPI_ERROR);
  const int code = in_error(request.query(request.state, &foreign_status));
  to_native(*status, foreign_status);
  return code;
}
int free_request(void* state) {
  auto* const request = static_cast<GeneralizedRequest*>(state);
  const int code = request->free == nullptr ? MPI_SUCCESS : in_error(request->free(request->state));
  delete request;
  return code;
}
int cancel_request(void* state, int complete) {
  const auto& request = *static_cast<GeneralizedRequest*>(state);
  return request.cancel == nullptr ? MPI_SUCCESS : in_error(request.cancel(request.state, complete));
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

using Function = void (*)();

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
            (int (*query)(void*, ForeignStatus*), int (*free)(void*), int (*cancel)(void*, int), void* state,
             Handle* request))
try {
  auto* const own = new GeneralizedRequest{query, free, cancel, state};
  HandleOut<Request> created(request);
  const int code = native.Grequest_start(query_request, free_request, cancel_request, own, created.get());
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
