// SPDX-License-Identifier: BSD-3-Clause
// Symbols that the C++ bindings of Open MPI 4 (libmpi_cxx.so.40) import from libmpi.so.40 beside functions of
// MPI: functions and objects inside of Open MPI. The bindings read and write members of these objects;
// offsets are those of Open MPI 4's interface version 40.
#include <atomic>
#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <mutex>
#include <new>

#include "compat/cxx.hpp"
#include "compat/trampolines.hpp"
#include "compat/translate.hpp"

#define WEFT_COMPAT_EXPORT extern "C" __attribute__((visibility("default")))

namespace weft::compat {

/// The function with which the bindings create operations; null: the program does not have them.
extern "C" __attribute__((weak)) void ompi_mpi_cxx_op_intercept(void*, void*, int*, Handle*, void (*)());

// --- error handlers ---

/// An error handler of the bindings. As a handle it is a predefined object: the native handle is its second
/// word.
struct CxxErrhandler {
  uint64_t mark = kPredefinedMark;
  uintptr_t native = kInvalidNative;
  unsigned char unused[72] = {};
  /// Written by the bindings for MPI::ERRORS_THROW_EXCEPTIONS: functions of communicators, files, windows.
  void (*throw_of[3])(void*, int*, ...) = {};
  void (*function)() = nullptr;
  /// Written by the bindings: calls `function` with objects of C++.
  void (*dispatch)(void*, int*, const char*, void (*)()) = nullptr;
};
static_assert(offsetof(CxxErrhandler, throw_of) == 0x58 && offsetof(CxxErrhandler, function) == 0x70 &&
              offsetof(CxxErrhandler, dispatch) == 0x78);

struct ThrowExceptions {
  CxxErrhandler handler;
  unsigned char unused[1024 - sizeof(CxxErrhandler)];
};
WEFT_COMPAT_EXPORT ThrowExceptions ompi_mpi_errors_throw_exceptions;
constinit ThrowExceptions ompi_mpi_errors_throw_exceptions{};
WEFT_COMPAT_DATA(void*, ompi_mpi_errors_throw_exceptions_addr, &ompi_mpi_errors_throw_exceptions)

namespace {

[[noreturn]] void fail(const char* why) {
  std::fprintf(stderr, "weft: the C++ bindings of Open MPI: %s\n", why);
  native.Abort(MPI_COMM_WORLD, 1);
  std::abort();
}

template <class K>
struct CxxErrorHandler {
  using Native = void (*)(typename K::Native*, int*, ...);
  using Foreign = CxxErrhandler*;
  template <size_t I>
  static void call(typename K::Native* object, int* code, ...) {
    va_list more;
    va_start(more, code);
    const char* const message = va_arg(more, const char*);
    va_end(more);
    const Borrowed<K> borrowed(*object);
    auto handle = borrowed.handle();
    int foreign_code = convert_error_out(*code);
    const CxxErrhandler& handler = *Trampolines<CxxErrorHandler>::function(I);
    if (handler.dispatch != nullptr)
      handler.dispatch(&handle, &foreign_code, message, handler.function);
    else
      handler.throw_of[0](&handle, &foreign_code, message);
  }
};

template <class K, class Create>
bool set_native(CxxErrhandler& handler, Create* create) {
  const auto function = Trampolines<CxxErrorHandler<K>>::find(&handler);
  MPI_Errhandler created = MPI_ERRHANDLER_NULL;
  if (function == nullptr || create(function, &created) != MPI_SUCCESS) return false;
  handler.native = reinterpret_cast<uintptr_t>(created);
  return true;
}

enum CxxObject { kCommunicator = 1, kWindow = 2, kFile = 3 };

}  // namespace

/// `language`: 1, C++.
WEFT_COMPAT_EXPORT Handle ompi_errhandler_create(int object, void (*function)(), int /*language*/) {
  auto* const handler = new (std::nothrow) CxxErrhandler;  // for ever, as its trampoline
  if (handler == nullptr) fail("no memory for an error handler");
  handler->function = function;
  const bool created = object == kCommunicator ? set_native<Comm>(*handler, native.Comm_create_errhandler)
                       : object == kWindow     ? set_native<Win>(*handler, native.Win_create_errhandler)
                                               : set_native<File>(*handler, native.File_create_errhandler);
  if (!created) fail("a program can create at most 256 error handlers of a kind");
  return handler;
}

/// The bindings call it for MPI_COMM_WORLD and MPI_FILE_NULL. They read the first and third argument in these
/// objects, which do not have such members here.
WEFT_COMPAT_EXPORT int ompi_errhandler_invoke(void* /*handler*/, Handle object, int /*kind*/, int code,
                                              const char* /*function*/) {
  const int native_code = in_error(code);
  if (in<File>(object) == MPI_FILE_NULL)
    native.File_call_errhandler(MPI_FILE_NULL, native_code);
  else
    native.Comm_call_errhandler(in<Comm>(object), native_code);
  return code;
}

void open_bindings() {
  if (&ompi_mpi_cxx_op_intercept == nullptr) return;
  if (!set_native<Comm>(ompi_mpi_errors_throw_exceptions.handler, native.Comm_create_errhandler))
    fail("no memory for MPI::ERRORS_THROW_EXCEPTIONS");
}

// --- user operations ---
namespace {

/// The bindings create all operations with one function, `call`, whose last argument is the function of C++.
struct CxxOperation {
  using Call = void (*)(void*, void*, int*, Handle*, void (*)());
  Call call;
  Handle op = nullptr;
  CxxOperation* next = nullptr;
  std::atomic<void (*)()> function = nullptr;
};
struct CxxUserOperation {
  using Native = void (*)(void*, void*, int*, MPI_Datatype*);
  using Foreign = CxxOperation*;
  template <size_t I>
  static void call(void* in_values, void* values, int* count, MPI_Datatype* type) {
    const Borrowed<Type> borrowed(*type);
    Handle handle = borrowed.handle();
    const CxxOperation& operation = *Trampolines<CxxUserOperation>::function(I);
    operation.call(in_values, values, count, &handle, operation.function.load(std::memory_order_acquire));
  }
};
std::mutex operations_lock;
CxxOperation* newest_operation;

}  // namespace

bool creates_cxx_operation(void (*function)()) {
  return function != nullptr && function == reinterpret_cast<void (*)()>(&ompi_mpi_cxx_op_intercept);
}

int create_cxx_operation(int commute, Handle* op) {
  auto* const operation = new (std::nothrow) CxxOperation{&ompi_mpi_cxx_op_intercept};
  const auto function = operation == nullptr ? nullptr : Trampolines<CxxUserOperation>::find(operation);
  if (function == nullptr) {
    delete operation;
    return out_of_memory();
  }
  HandleOut<Op> created(op);
  const int code = native.Op_create(function, commute, created.get());
  created.finish();
  operation->op = *op;
  operations_lock.lock();
  operation->next = newest_operation;
  newest_operation = operation;
  operations_lock.unlock();
  return out_error(code);
}

WEFT_COMPAT_EXPORT void ompi_op_set_cxx_callback(Handle op, void (*function)()) {
  const std::lock_guard guard(operations_lock);
  CxxOperation* operation = newest_operation;  // handles are reused: the newest one counts
  while (operation != nullptr && operation->op != op) operation = operation->next;
  if (operation == nullptr) fail("ompi_op_set_cxx_callback: the operation is not one of C++");
  operation->function.store(function, std::memory_order_release);
}

// --- attributes ---
namespace {

/// The handle of a communicator for a function of the bindings, which reads its kind in the object.
class CxxComm {
 public:
  explicit CxxComm(MPI_Comm comm) : native_(reinterpret_cast<uintptr_t>(comm)) {
    int inter = 0, topology = MPI_UNDEFINED;
    native.Comm_test_inter(comm, &inter);
    if (inter == 0) native.Topo_test(comm, &topology);
    flags_ = inter != 0 ? kInter : topology == MPI_CART ? kCartesian : topology == MPI_GRAPH ? kGraph : 0;
  }
  Handle handle() { return this; }

 private:
  static constexpr uint32_t kInter = 0x1, kCartesian = 0x100, kGraph = 0x200;
  [[maybe_unused]] uint64_t mark_ = kPredefinedMark;
  [[maybe_unused]] uintptr_t native_;
  [[maybe_unused]] unsigned char unused_[216] = {};
  [[maybe_unused]] uint32_t flags_;  // at 0xe8
};

struct CxxKey {
  void (*copy)(), (*remove)();
  void* state;
};
int copy_attribute(MPI_Comm comm, int keyval, void* state, void* value, void* result, int* flag) {
  using Copy = int (*)(Handle, int, void*, void*, void*, int*);
  const CxxKey& key = *static_cast<CxxKey*>(state);
  CxxComm object(comm);
  return in_error(
      reinterpret_cast<Copy>(key.copy)(object.handle(), out_keyval(keyval), key.state, value, result, flag));
}
int delete_attribute(MPI_Comm comm, int keyval, void* value, void* state) {
  using Delete = int (*)(Handle, int, void*, void*);
  const CxxKey& key = *static_cast<CxxKey*>(state);
  CxxComm object(comm);
  return in_error(
      reinterpret_cast<Delete>(key.remove)(object.handle(), out_keyval(keyval), value, key.state));
}

}  // namespace

extern "C" {
int weft_compat_PType_create_keyval(void (*copy)(), void (*remove)(), int* keyval,
                                    void* state) __asm__("PMPI_Type_create_keyval");
int weft_compat_PWin_create_keyval(void (*copy)(), void (*remove)(), int* keyval,
                                   void* state) __asm__("PMPI_Win_create_keyval");
}

WEFT_COMPAT_EXPORT int ompi_attr_create_keyval(int object, void (*copy)(), void (*remove)(), int* keyval,
                                               void* state, int /*flags*/, void* /*bindings_state*/) {
  enum { kCommKey = 1, kTypeKey = 2 };  // else a window
  if (object == kTypeKey) return weft_compat_PType_create_keyval(copy, remove, keyval, state);
  if (object != kCommKey) return weft_compat_PWin_create_keyval(copy, remove, keyval, state);
  auto* const key = new (std::nothrow) CxxKey{copy, remove, state};  // attributes may outlive the key
  if (key == nullptr) return out_of_memory();
  return out_error(native.Comm_create_keyval(copy_attribute, delete_attribute, keyval, key));
}

// --- internal data ---

/// List of data representations: the bindings append theirs.
struct CxxList {
  void* object[2] = {};
  struct {
    void* object[2];
    void *next, *previous;
    void* unused;
  } end{};
  size_t length = 0;
};
static_assert(offsetof(CxxList, end.previous) == 0x28 && offsetof(CxxList, length) == 0x38 &&
              sizeof(CxxList) == 0x40);
WEFT_COMPAT_EXPORT CxxList ompi_registered_datareps;
constinit CxxList ompi_registered_datareps{
    {}, {{}, &ompi_registered_datareps.end, &ompi_registered_datareps.end, nullptr}, 0};

/// Table of internal error codes: empty. No function returns a negative code.
WEFT_COMPAT_EXPORT unsigned char ompi_errcodes_intern[0x78];
unsigned char ompi_errcodes_intern[0x78] = {};
WEFT_COMPAT_EXPORT int ompi_errcode_intern_lastused;
int ompi_errcode_intern_lastused = 0;

}  // namespace weft::compat
