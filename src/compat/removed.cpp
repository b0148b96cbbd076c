// SPDX-License-Identifier: BSD-3-Clause
// Symbols beside the functions of the standard ABI: functions that MPI 3.0 removed, handles and statuses as
// Fortran integers.
#include <new>

#include "compat/translate.hpp"

namespace weft::compat {

// --- removed in MPI 3.0 ---
WEFT_COMPAT(int, Address, (void* location, MPI_Aint* address)) {
  return out_error(native.Get_address(location, address));
}
WEFT_COMPAT(int, Errhandler_get, (Handle comm, Handle* errhandler)) {
  return with_handle<Errhandler>(errhandler, [&](Errhandler::Native* found) {
    return native.Comm_get_errhandler(in<Comm>(comm), found);
  });
}
WEFT_COMPAT(int, Errhandler_set, (Handle comm, Handle errhandler)) {
  return out_error(native.Comm_set_errhandler(in<Comm>(comm), in<Errhandler>(errhandler)));
}
extern "C" int weft_compat_PComm_create_errhandler(void (*function)(),
                                                   Handle* errhandler) __asm__("PMPI_Comm_create_errhandler");
WEFT_COMPAT(int, Errhandler_create, (void (*function)(), Handle* errhandler)) {
  return weft_compat_PComm_create_errhandler(function, errhandler);
}
WEFT_COMPAT(int, Type_extent, (Handle datatype, MPI_Aint* extent)) {
  MPI_Aint lower;
  return out_error(native.Type_get_extent(in<Type>(datatype), &lower, extent));
}
WEFT_COMPAT(int, Type_lb, (Handle datatype, MPI_Aint* lower)) {
  MPI_Aint extent;
  return out_error(native.Type_get_extent(in<Type>(datatype), lower, &extent));
}
WEFT_COMPAT(int, Type_ub, (Handle datatype, MPI_Aint* upper)) {
  MPI_Aint lower = 0, extent = 0;
  const int code = native.Type_get_extent(in<Type>(datatype), &lower, &extent);
  if (code == MPI_SUCCESS) *upper = lower + extent;
  return out_error(code);
}
WEFT_COMPAT(int, Type_hindexed,
            (int count, int lengths[], MPI_Aint displacements[], Handle oldtype, Handle* newtype))
try {
  HandleOut<Type> created(newtype);
  const int code =
      native.Type_create_hindexed(count, lengths, displacements, in<Type>(oldtype), created.get());
  created.finish();
  return out_error(code);
} catch (const std::bad_alloc&) {
  return out_of_memory();
}
WEFT_COMPAT(int, Type_hvector, (int count, int length, MPI_Aint stride, Handle oldtype, Handle* newtype))
try {
  HandleOut<Type> created(newtype);
  const int code = native.Type_create_hvector(count, length, stride, in<Type>(oldtype), created.get());
  created.finish();
  return out_error(code);
} catch (const std::bad_alloc&) {
  return out_of_memory();
}
WEFT_COMPAT(int, Type_struct,
            (int count, int lengths[], MPI_Aint displacements[], Handle types[], Handle* newtype))
try {
  const HandleArray<Type> types_native(types, count);
  HandleOut<Type> created(newtype);
  const int code =
      native.Type_create_struct(count, lengths, displacements, types_native.data(), created.get());
  created.finish();
  return out_error(code);
} catch (const std::bad_alloc&) {
  return out_of_memory();
}

// --- handles and statuses as Fortran integers ---
#define WEFT_COMPAT_INTEGERS(name, tag)                                                        \
  WEFT_COMPAT(int, name##_c2f, (ForeignOf<tag> handle)) { return handle_to_int<tag>(handle); } \
  WEFT_COMPAT(ForeignOf<tag>, name##_f2c, (int handle)) { return handle_from_int<tag>(handle); }
WEFT_COMPAT_INTEGERS(Comm, Comm)
WEFT_COMPAT_INTEGERS(Errhandler, Errhandler)
WEFT_COMPAT_INTEGERS(File, File)
WEFT_COMPAT_INTEGERS(Group, Group)
WEFT_COMPAT_INTEGERS(Info, Info)
WEFT_COMPAT_INTEGERS(Message, Message)
WEFT_COMPAT_INTEGERS(Op, Op)
WEFT_COMPAT_INTEGERS(Request, Request)
WEFT_COMPAT_INTEGERS(Session, Session)
WEFT_COMPAT_INTEGERS(Type, Type)
WEFT_COMPAT_INTEGERS(Win, Win)

namespace {
constexpr size_t kStatusInts = sizeof(ForeignStatus) / sizeof(int);
int fortran_status_ignore[kStatusInts], fortran_statuses_ignore[kStatusInts];
ForeignStatus status_ignore_f08, statuses_ignore_f08;
}  // namespace
WEFT_COMPAT_DATA(int*, MPI_F_STATUS_IGNORE, fortran_status_ignore)
WEFT_COMPAT_DATA(int*, MPI_F_STATUSES_IGNORE, fortran_statuses_ignore)
WEFT_COMPAT_DATA(ForeignStatus*, MPI_F08_STATUS_IGNORE, &status_ignore_f08)
WEFT_COMPAT_DATA(ForeignStatus*, MPI_F08_STATUSES_IGNORE, &statuses_ignore_f08)

namespace {
int copy_status(const void* from, void* to) {
  std::memcpy(to, from, sizeof(ForeignStatus));
  return MPI_SUCCESS;
}
}  // namespace
WEFT_COMPAT(int, Status_c2f, (const ForeignStatus* from, int* to)) { return copy_status(from, to); }
WEFT_COMPAT(int, Status_f2c, (const int* from, ForeignStatus* to)) { return copy_status(from, to); }
WEFT_COMPAT(int, Status_c2f08, (const ForeignStatus* from, ForeignStatus* to)) {
  return copy_status(from, to);
}
WEFT_COMPAT(int, Status_f082c, (const ForeignStatus* from, ForeignStatus* to)) {
  return copy_status(from, to);
}
WEFT_COMPAT(int, Status_f082f, (const ForeignStatus* from, int* to)) { return copy_status(from, to); }
WEFT_COMPAT(int, Status_f2f08, (const int* from, ForeignStatus* to)) { return copy_status(from, to); }

// --- extensions of both interfaces ---
WEFT_COMPAT_NAMED(int, X_Query_cuda_support, (void), "MPIX_Query_cuda_support") {
  return extensions.Query_cuda_support();
}

}  // namespace weft::compat
