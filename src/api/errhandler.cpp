// SPDX-License-Identifier: BSD-3-Clause
// Error handlers (MPI 5.0 section 9.3).
#include "core/errhandler.hpp"

#include "api/errors.hpp"
#include "api/file_errhandler.hpp"
#include "api/impl.hpp"
#include "api/objects.hpp"

namespace weft::api {

core::Ref<core::Errhandler>& file_null_errhandler() {
  static auto* const handler = new core::Ref<core::Errhandler>(core::Errhandler::ret());
  return *handler;
}

namespace impl {
namespace {

using core::Errhandler;
using Target = Errhandler::Target;

template <class F>
Status create(Target target, F* function, MPI_Errhandler* errhandler) {
  return return_new_object(Errhandler::create(target, reinterpret_cast<Errhandler::Function>(function)),
                           errhandler);
}

}  // namespace

Status Comm_create_errhandler(MPI_Comm_errhandler_function* function, MPI_Errhandler* errhandler) {
  return create(Target::communicator, function, errhandler);
}

Status Win_create_errhandler(MPI_Win_errhandler_function* function, MPI_Errhandler* errhandler) {
  return create(Target::window, function, errhandler);
}

Status File_create_errhandler(MPI_File_errhandler_function* function, MPI_Errhandler* errhandler) {
  return create(Target::file, function, errhandler);
}

Status Session_create_errhandler(MPI_Session_errhandler_function* function, MPI_Errhandler* errhandler) {
  return create(Target::session, function, errhandler);
}

Status Comm_set_errhandler(core::Communicator& comm, Errhandler& errhandler) {
  if (errhandler.target != Target::any && errhandler.target != Target::communicator)
    return Error(Errc::errhandler,
                 "errhandler is not a communicator error handler: create it with MPI_Comm_create_errhandler");
  comm.errhandler = core::Ref<Errhandler>::share(&errhandler);
  comm.errhandler_set = true;
  return {};
}

Status Comm_get_errhandler(core::Communicator& comm, MPI_Errhandler* errhandler) {
  return_shared_object(comm.errhandler ? comm.errhandler.get() : Errhandler::fatal(), errhandler);
  return {};
}

Status Comm_call_errhandler(core::Communicator& comm, int errorcode) {
  const auto handler =
      core::Ref<Errhandler>::share(comm.errhandler ? comm.errhandler.get() : Errhandler::fatal());
  const std::string message = "called by the application with " + code_name(errorcode);
  comm.instance.unlocked([&] {
    run_handler(*handler, reinterpret_cast<void*>(comm.handle), errorcode, "MPI_Comm_call_errhandler",
                message);
  });
  return {};
}

Status Win_set_errhandler(rma::Window& win, Errhandler& errhandler) {
  if (errhandler.target != Target::any && errhandler.target != Target::window)
    return Error(Errc::errhandler,
                 "errhandler is not a window error handler: create it with MPI_Win_create_errhandler");
  win.errhandler = core::Ref<Errhandler>::share(&errhandler);
  return {};
}

Status Win_get_errhandler(rma::Window& win, MPI_Errhandler* errhandler) {
  return_shared_object(win.errhandler.get(), errhandler);
  return {};
}

Status Win_call_errhandler(rma::Window& win, int errorcode) {
  const auto window = core::Ref<rma::Window>::share(&win);
  const core::Ref<Errhandler> handler = win.errhandler;
  const std::string message = "called by the application with " + code_name(errorcode);
  win.instance.unlocked([&] {
    run_handler(*handler, window.get(), errorcode, "MPI_Win_call_errhandler", message,
                "MPI_Win_set_errhandler(win, MPI_ERRORS_RETURN)");
  });
  return {};
}

// The error handler of MPI_FILE_NULL serves errors without an open file and is inherited by MPI_File_open.

Status File_set_errhandler(MPI_File handle, Errhandler& errhandler) {
  io::File* const file = to_file(handle);
  if (file == nullptr && handle != MPI_FILE_NULL) return bad_handle(HandleKind::file, "file", handle);
  if (errhandler.target != Target::any && errhandler.target != Target::file)
    return Error(Errc::errhandler,
                 "errhandler is not a file error handler: create it with MPI_File_create_errhandler");
  (file == nullptr ? file_null_errhandler() : file->errhandler) = core::Ref<Errhandler>::share(&errhandler);
  return {};
}

Status File_get_errhandler(MPI_File handle, MPI_Errhandler* errhandler) {
  io::File* const file = to_file(handle);
  if (file == nullptr && handle != MPI_FILE_NULL) return bad_handle(HandleKind::file, "file", handle);
  return_shared_object((file == nullptr ? file_null_errhandler() : file->errhandler).get(), errhandler);
  return {};
}

Status File_call_errhandler(MPI_File handle, int errorcode) {
  io::File* const file = to_file(handle);
  if (file == nullptr && handle != MPI_FILE_NULL) return bad_handle(HandleKind::file, "fh", handle);
  const auto kept = core::Ref<io::File>::share(file);
  const core::Ref<Errhandler> handler = file == nullptr ? file_null_errhandler() : file->errhandler;
  const std::string message = "called by the application with " + code_name(errorcode);
  g_instance->unlocked([&] {
    run_handler(*handler, handle, errorcode, "MPI_File_call_errhandler", message,
                "MPI_File_set_errhandler(fh, MPI_ERRORS_RETURN)");
  });
  return {};
}

Status Errhandler_free(MPI_Errhandler* handle) {
  Errhandler& errhandler = *to_errhandler(*handle);
  // Predefined handlers may be freed: MPI_Comm_get_errhandler may return one, which the caller must free.
  if (errhandler.has_handle())
    errhandler.close_handle();
  else if (errhandler.kind == Errhandler::Kind::user)
    return bad_handle(HandleKind::errhandler, "errhandler", *handle);
  *handle = MPI_ERRHANDLER_NULL;
  return {};
}

}  // namespace impl
}  // namespace weft::api
