// SPDX-License-Identifier: BSD-3-Clause
// Files: open, close, properties, views, file pointers (MPI 5.0 sections 14.2, 14.3, 14.4.4 and 14.6).
#include "io/file/file.hpp"

#include <string>

#include "api/check.hpp"
#include "api/errors.hpp"
#include "api/file_errhandler.hpp"
#include "api/impl.hpp"
#include "api/memory_kinds.hpp"
#include "api/objects.hpp"
#include "io/backend/error.hpp"

namespace weft::api::impl {
namespace {

Result<io::Whence> whence_of(int whence) {
  if (whence == MPI_SEEK_SET) return io::Whence::set;
  if (whence == MPI_SEEK_CUR) return io::Whence::current;
  if (whence == MPI_SEEK_END) return io::Whence::end;
  return Error(Errc::arg,
               "whence = " + std::to_string(whence) + ": use MPI_SEEK_SET, MPI_SEEK_CUR or MPI_SEEK_END");
}

}  // namespace

Status File_open(core::Communicator& comm, const char* filename, int amode, core::Info* info, MPI_File* fh) {
  auto opened = io::File::open(comm, filename, amode, info);
  if (!opened) return std::move(opened).error();
  (*opened)->errhandler = file_null_errhandler();
  return_object(*opened, fh);
  return {};
}

Status File_close(MPI_File* handle) {
  io::File* const file = to_file(*handle);
  *handle = MPI_FILE_NULL;
  return io::File::close(file);
}

Status File_delete(const char* filename, core::Info* /*info*/) { return io::File::remove(filename); }

Status File_set_size(io::File& file, MPI_Offset size) { return file.resize(size); }
Status File_preallocate(io::File& file, MPI_Offset size) { return file.preallocate(size); }

Status File_get_size(io::File& file, MPI_Offset* size) {
  auto bytes = file.size();
  if (!bytes) return std::move(bytes).error();
  *size = *bytes;
  return {};
}

Status File_get_group(io::File& file, MPI_Group* group) {
  return_shared_object(file.comm->group.get(), group);
  return {};
}

Status File_get_amode(io::File& file, int* amode) {
  *amode = file.amode;
  return {};
}

Status File_set_info(io::File& file, core::Info* info) { return file.set_hints(info); }

Status File_get_info(io::File& file, MPI_Info* info) {
  core::Info* const used = core::Info::create();
  if (used != nullptr) {
    file.target->hints.for_each(
        [used](std::string_view key, const std::string& value) { used->set(key, value); });
    used->set("mpi_memory_alloc_kinds", memory_kinds(std::nullopt));
  }
  return return_new_object(used, info);
}

Status File_set_view(io::File& file, MPI_Offset disp, datatype::Datatype& etype, datatype::Datatype& filetype,
                     const char* datarep, core::Info* info) {
  if (!etype.committed()) return uncommitted("etype", etype);
  if (!filetype.committed()) return uncommitted("filetype", filetype);
  return file.set_view(disp, etype, filetype, datarep, info);
}

Status File_get_view(io::File& file, MPI_Offset* disp, MPI_Datatype* etype, MPI_Datatype* filetype,
                     char* datarep) {
  const io::View& view = *file.view;
  const auto give = [](datatype::Datatype& type, MPI_Datatype* handle) {
    type.open_handle();
    *handle = handle_of(type);
  };
  give(view.etype, etype);
  give(view.filetype, filetype);
  *disp = view.disp;
  int length = 0;
  copy_text(view.datarep_name, datarep, MPI_MAX_DATAREP_STRING, &length);
  return {};
}

Status File_seek(io::File& file, MPI_Offset offset, int whence) {
  auto from = whence_of(whence);
  if (!from) return std::move(from).error();
  return file.seek(offset, *from);
}

Status File_get_position(io::File& file, MPI_Offset* offset) {
  WEFT_TRY(file.check_random_access());
  *offset = file.position();
  return {};
}

Status File_get_byte_offset(io::File& file, MPI_Offset offset, MPI_Offset* disp) {
  WEFT_TRY(file.check_random_access());
  if (offset < 0) return negative(Errc::arg, "offset", offset);
  const io::View& view = *file.view;
  if (view.filetype.size() == 0) return io::error(io::ErrorClass::io, "the view has no data");
  auto stream = view.place("offset", offset, 1);
  if (!stream) return std::move(stream).error();
  *disp = view.position(*stream);
  return {};
}

Status File_seek_shared(io::File& file, MPI_Offset offset, int whence) {
  auto from = whence_of(whence);
  if (!from) return std::move(from).error();
  return file.seek_shared(offset, *from);
}

Status File_get_position_shared(io::File& file, MPI_Offset* offset) {
  auto position = file.shared_position();
  if (!position) return std::move(position).error();
  *offset = *position;
  return {};
}

Status File_get_type_extent(io::File& file, datatype::Datatype& datatype, MPI_Count* extent) {
  const io::Datarep* const datarep = file.view->datarep;
  *extent = datatype.extent();
  if (datarep == nullptr || !datarep->extent) return {};
  auto form = datarep->file_form(datatype);
  if (!form) return std::move(form).error();
  *extent = (*form)->extent();
  (*form)->release();
  return {};
}

Status File_set_atomicity(io::File& file, int flag) { return file.set_atomicity(flag != 0); }

Status File_get_atomicity(io::File& file, int* flag) {
  *flag = file.target->atomic.load() ? 1 : 0;
  return {};
}

Status File_sync(io::File& file) { return file.sync(); }

Status Register_datarep(const char* name, UserFunction read, UserFunction write,
                        MPI_Datarep_extent_function* extent, void* extra_state) {
  if (strnlen(name, MPI_MAX_DATAREP_STRING) == MPI_MAX_DATAREP_STRING)
    return Error(Errc::arg, "datarep is longer than MPI_MAX_DATAREP_STRING");
  const auto conversion = [extra_state](UserFunction user, const char* what) -> io::Datarep::Convert {
    if (user.function == nullptr) return {};
    return [=](void* buffer, datatype::Datatype& type, int64_t count, void* file) -> Status {
      int code = MPI_SUCCESS;
      if (user.large) {
        auto* const function = reinterpret_cast<MPI_Datarep_conversion_function_c*>(user.function);
        code = function(buffer, handle_of(type), count, file, 0, extra_state);
      } else if (fits_int(count)) {
        auto* const function = reinterpret_cast<MPI_Datarep_conversion_function*>(user.function);
        code = function(buffer, handle_of(type), static_cast<int>(count), file, 0, extra_state);
      } else {
        return Error(Errc::count, "the conversion function takes an int count: use MPI_Register_datarep_c");
      }
      if (code == MPI_SUCCESS) return {};
      return mpi_error(MPI_ERR_CONVERSION, std::string(what) + " returned " + code_name(code));
    };
  };
  io::Datarep datarep;
  datarep.name = name;
  datarep.read = conversion(read, "read_conversion_fn");
  datarep.write = conversion(write, "write_conversion_fn");
  datarep.extent = [extent, extra_state](datatype::Datatype& type) -> Result<int64_t> {
    MPI_Aint bytes = 0;
    const int code = g_instance->unlocked([&] { return extent(handle_of(type), &bytes, extra_state); });
    if (code == MPI_SUCCESS) return static_cast<int64_t>(bytes);
    return mpi_error(MPI_ERR_CONVERSION, "dtype_file_extent_fn returned " + code_name(code));
  };
  return io::register_datarep(std::move(datarep));
}

}  // namespace weft::api::impl
