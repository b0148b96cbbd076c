// SPDX-License-Identifier: BSD-3-Clause
// Functions of the program that are called in another way than those of C. MPICH's libraries for C++ and for
// mpi_f08 create attribute keys, operations, error handlers and generalized requests as a program in C does,
// and name the caller of their functions in a second call of the same thread (mpich_languages.cpp). Open
// MPI's libraries do not.
#pragma once
#include "compat/handles.hpp"

namespace weft::compat {

using Function = void (*)();

/// The state of an attribute key. It is never freed: attributes may outlive MPI_*_free_keyval.
struct Key {
  Function copy, remove;
  void* state;
  Function copy_caller = nullptr, remove_caller = nullptr;
};

struct GeneralizedRequest {
  Function query, free, cancel;
  void* state;
  bool fortran = false;
};

/// kThrowExceptions: MPI::ERRORS_THROW_EXCEPTIONS, with which errors are returned to the bindings, which
/// throw.
#ifdef WEFT_COMPAT_MPICH
inline constexpr bool kNamesCallers = true;
inline constexpr Handle kThrowExceptions = 0x54000002;
#else
inline constexpr bool kNamesCallers = false;
inline constexpr Handle kThrowExceptions = nullptr;
#endif

/// The newest objects that this thread has created, and the last error that a handler of C++ was called for.
struct Newest {
  Key* key;
  Function function;  ///< of an operation or an error handler
  GeneralizedRequest* request;
  int error;
};
Newest& newest();

int call_copy(const Key& key, Handle object, int keyval, void* value, void* result, int* flag);
int call_remove(const Key& key, Handle object, int keyval, void* value);
/// Returns false if the operation is one of C.
bool call_cxx_operation(Function function, void* in_values, void* values, int count, Handle type);
/// Returns false if the error handler is one of C.
bool call_cxx_errhandler(Function function, int kind, void* object, int* code);

/// The kinds of objects of an error handler in the bindings.
template <class K>
inline constexpr int kErrhandlerKind = -1;
template <>
inline constexpr int kErrhandlerKind<Comm> = 0;
template <>
inline constexpr int kErrhandlerKind<File> = 1;
template <>
inline constexpr int kErrhandlerKind<Win> = 2;

}  // namespace weft::compat
