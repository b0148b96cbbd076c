// SPDX-License-Identifier: BSD-3-Clause
// Routines that take callbacks, except attributes: the program's procedures are called with Fortran's
// conventions.
#include <string_view>

#include "api/trampolines.hpp"
#include "fortran/convert.hpp"

namespace weft::fortran {

namespace {

template <class Count>
struct UserOperation {
  using Native = void (*)(void*, void*, Count*, MPI_Datatype*);
  using Foreign = void (*)(void*, void*, Count*, int*);
  template <size_t I>
  static void call(void* in_values, void* values, Count* count, MPI_Datatype* type) {
    run(api::Trampolines<UserOperation>::function(I), in_values, values, count, *type);
  }
  [[gnu::noinline]] static void run(Foreign function, void* in_values, void* values, Count* count,
                                    MPI_Datatype type) {
    int number = out<Type>(type);
    function(in_values, values, count, &number);
  }
};

template <class K>
struct UserErrorHandler {
  using Native = void (*)(typename K::C*, int*, ...);
  using Foreign = void (*)(int*, int*);
  template <size_t I>
  static void call(typename K::C* object, int* code, ...) {
    run(api::Trampolines<UserErrorHandler>::function(I), *object, code);
  }
  [[gnu::noinline]] static void run(Foreign function, typename K::C object, int* code) {
    int number = out<K>(object);
    function(&number, code);
  }
};

template <class Count, class Create>
void create_op(Create* create, typename UserOperation<Count>::Foreign function, int commute, int* op,
               int* ierror) {
  const auto native = api::Trampolines<UserOperation<Count>>::find(function);
  if (native == nullptr) return out_of_memory(ierror);
  MPI_Op created = MPI_OP_NULL;
  const int code = create(native, commute != 0, &created);
  if (code == MPI_SUCCESS) *op = out<Op>(created);
  set_error(ierror, code);
}

template <class K, class Create>
void create_errhandler(Create* create, typename UserErrorHandler<K>::Foreign function, int* errhandler,
                       int* ierror) {
  const auto native = api::Trampolines<UserErrorHandler<K>>::find(function);
  if (native == nullptr) return out_of_memory(ierror);
  MPI_Errhandler created = MPI_ERRHANDLER_NULL;
  const int code = create(native, &created);
  if (code == MPI_SUCCESS) *errhandler = out<Errhandler>(created);
  set_error(ierror, code);
}

struct GeneralizedRequest {
  void (*query)(MPI_Aint*, int*, int*);
  void (*free)(MPI_Aint*, int*);
  void (*cancel)(MPI_Aint*, int*, int*);
  MPI_Aint state;
};
int query_request(void* state, MPI_Status* status) {
  auto& request = *static_cast<GeneralizedRequest*>(state);
  int code = MPI_SUCCESS;
  request.query(&request.state, reinterpret_cast<int*>(status), &code);
  return code;
}
int free_request(void* state) {
  auto* const request = static_cast<GeneralizedRequest*>(state);
  int code = MPI_SUCCESS;
  request->free(&request->state, &code);
  delete request;
  return code;
}
int cancel_request(void* state, int complete) {
  auto& request = *static_cast<GeneralizedRequest*>(state);
  int code = MPI_SUCCESS;
  request.cancel(&request.state, &complete, &code);
  return code;
}

using Procedure = void (*)();
using ExtentFunction = void (*)(int*, MPI_Aint*, MPI_Aint*, int*);
struct Datarep {
  Procedure read, write;
  ExtentFunction extent;
  MPI_Aint state;
};
template <class Count, bool Read>
int convert_data(void* user, MPI_Datatype type, Count count, void* file, MPI_Offset position, void* state) {
  using Convert = void (*)(void*, int*, Count*, void*, MPI_Offset*, MPI_Aint*, int*);
  auto& datarep = *static_cast<Datarep*>(state);
  int number = out<Type>(type), code = MPI_SUCCESS;
  const auto convert = reinterpret_cast<Convert>(Read ? datarep.read : datarep.write);
  convert(user, &number, &count, file, &position, &datarep.state, &code);
  return code;
}
int datarep_extent(MPI_Datatype type, MPI_Aint* extent, void* state) {
  auto& datarep = *static_cast<Datarep*>(state);
  int number = out<Type>(type), code = MPI_SUCCESS;
  datarep.extent(&number, extent, &datarep.state, &code);
  return code;
}

/// `null`: the function that stands for no conversion.
template <class Count, class Register>
void register_datarep(Register* function, std::string_view name, const Datarep& given, Procedure null,
                      int* ierror) try {
  auto* const datarep = new Datarep(given);  // registered for ever
  const String name_c(name.data(), name.size());
  const int code =
      function(name_c.text(), given.read == null ? nullptr : convert_data<Count, true>,
               given.write == null ? nullptr : convert_data<Count, false>, datarep_extent, datarep);
  if (code != MPI_SUCCESS) delete datarep;
  set_error(ierror, code);
} catch (const std::bad_alloc&) {
  out_of_memory(ierror);
}

}  // namespace

#define WEFT_FORTRAN_NO_CONVERSION(name, Count)                                                              \
  WEFT_FORTRAN_F90(                                                                                          \
      void, name, (void*, const int*, const Count*, void*, const MPI_Offset*, const MPI_Aint*, int* code)) { \
    set_error(code, MPI_ERR_CONVERSION); /* only its address is used */                                      \
  }
WEFT_FORTRAN_NO_CONVERSION(conversion_fn_null, int)
WEFT_FORTRAN_IN_MODULE(void, conversion_fn_null,
                       (void*, const int*, const int*, void*, const MPI_Offset*, const MPI_Aint*, int*))
WEFT_FORTRAN_NO_CONVERSION(conversion_fn_null_c, MPI_Count)
#undef WEFT_FORTRAN_NO_CONVERSION

WEFT_FORTRAN(void, op_create,
             (UserOperation<int>::Foreign function, const int* commute, int* op, int* ierror)) {
  create_op<int>(PMPI_Op_create, function, *commute, op, ierror);
}
WEFT_FORTRAN_F08(void, op_create_c,
                 (UserOperation<MPI_Count>::Foreign function, const int* commute, int* op, int* ierror)) {
  create_op<MPI_Count>(PMPI_Op_create_c, function, *commute, op, ierror);
}
WEFT_FORTRAN(void, comm_create_errhandler,
             (UserErrorHandler<Comm>::Foreign function, int* errhandler, int* ierror)) {
  create_errhandler<Comm>(PMPI_Comm_create_errhandler, function, errhandler, ierror);
}
WEFT_FORTRAN(void, file_create_errhandler,
             (UserErrorHandler<File>::Foreign function, int* errhandler, int* ierror)) {
  create_errhandler<File>(PMPI_File_create_errhandler, function, errhandler, ierror);
}
WEFT_FORTRAN(void, win_create_errhandler,
             (UserErrorHandler<Win>::Foreign function, int* errhandler, int* ierror)) {
  create_errhandler<Win>(PMPI_Win_create_errhandler, function, errhandler, ierror);
}
WEFT_FORTRAN(void, session_create_errhandler,
             (UserErrorHandler<Session>::Foreign function, int* errhandler, int* ierror)) {
  create_errhandler<Session>(PMPI_Session_create_errhandler, function, errhandler, ierror);
}

WEFT_FORTRAN(void, grequest_start,
             (void (*query)(MPI_Aint*, int*, int*), void (*free)(MPI_Aint*, int*),
              void (*cancel)(MPI_Aint*, int*, int*), const MPI_Aint* state, int* request, int* ierror))
try {
  auto* const own = new GeneralizedRequest{query, free, cancel, *state};
  MPI_Request created = MPI_REQUEST_NULL;
  const int code = PMPI_Grequest_start(query_request, free_request, cancel_request, own, &created);
  if (code == MPI_SUCCESS) *request = out<Request>(created);
  if (code != MPI_SUCCESS) delete own;
  set_error(ierror, code);
} catch (const std::bad_alloc&) {
  out_of_memory(ierror);
}

WEFT_FORTRAN(void, register_datarep,
             (const char* name, Procedure read, Procedure write, ExtentFunction extent, const MPI_Aint* state,
              int* ierror, size_t name_length)) {
  register_datarep<int>(PMPI_Register_datarep, {name, name_length}, {read, write, extent, *state},
                        reinterpret_cast<Procedure>(mpi_conversion_fn_null_), ierror);
}
WEFT_FORTRAN_F08(void, register_datarep_c,
                 (const char* name, Procedure read, Procedure write, ExtentFunction extent,
                  const MPI_Aint* state, int* ierror, size_t name_length)) {
  register_datarep<MPI_Count>(PMPI_Register_datarep_c, {name, name_length}, {read, write, extent, *state},
                              reinterpret_cast<Procedure>(mpi_conversion_fn_null_c_), ierror);
}

}  // namespace weft::fortran
