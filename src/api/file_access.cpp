// SPDX-License-Identifier: BSD-3-Clause
// Files: data accesses (MPI 5.0 section 14.4).
#include "api/check.hpp"
#include "api/gpu_check.hpp"
#include "api/impl.hpp"
#include "api/requests.hpp"
#include "api/status.hpp"
#include "io/file/file.hpp"

namespace weft::api::impl {
namespace {

using datatype::Datatype;
using io::Access;
using io::At;
using io::File;

constexpr bool kRead = false, kWrite = true, kIndependent = false, kCollective = true;

Status completed(const Result<core::Completion>& completion, MPI_Status* status) {
  if (completion) fill(status, *completion);
  return completion ? Status() : completion.error().copy();
}

/// The error of data for a write that queued GPU work changes, with WEFT_CHECK=gpu.
Status check_data(File& file, const Access& access, const p2p::Buffer& data) {
  return access.write && checking_gpu() ? check_input(data, *file.comm) : Status();
}

Status run(File& file, const Access& access, const void* buf, MPI_Count count, Datatype& type,
           MPI_Status* status) {
  const p2p::Buffer data = p2p::buffer_of(buf, count, type);
  Status checked = check_data(file, access, data);
  WEFT_TRY(completed(file.run(access, data), status));
  return checked;
}

Status start(File& file, const Access& access, const void* buf, MPI_Count count, Datatype& type,
             MPI_Request* request) {
  static const bool registered = (register_request_slab(io::Operation::check), true);
  (void)registered;
  const p2p::Buffer data = p2p::buffer_of(buf, count, type);
  Status checked = check_data(file, access, data);
  auto started = file.start(access, data);
  if (!started) return std::move(started).error();
  if (!checked) {  // the program gets no request
    if ((*started)->complete())
      (*started)->destroy();
    else
      (*started)->detached = true;
    return checked;
  }
  *request = handle_of(**started);
  return {};
}

Status begin(File& file, const Access& access, const void* buf, MPI_Count count, Datatype& type) {
  const p2p::Buffer data = p2p::buffer_of(buf, count, type);
  Status checked = check_data(file, access, data);
  WEFT_TRY(file.begin(access, data));
  return checked;
}

}  // namespace

Status File_read_at(File& file, MPI_Offset offset, void* buf, MPI_Count count, Datatype& type,
                    MPI_Status* status) {
  return run(file, {kRead, At::offset, kIndependent, offset}, buf, count, type, status);
}

Status File_iread_at(File& file, MPI_Offset offset, void* buf, MPI_Count count, Datatype& type,
                     MPI_Request* request) {
  return start(file, {kRead, At::offset, kIndependent, offset}, buf, count, type, request);
}

Status File_read_at_all(File& file, MPI_Offset offset, void* buf, MPI_Count count, Datatype& type,
                        MPI_Status* status) {
  return run(file, {kRead, At::offset, kCollective, offset}, buf, count, type, status);
}

Status File_iread_at_all(File& file, MPI_Offset offset, void* buf, MPI_Count count, Datatype& type,
                         MPI_Request* request) {
  return start(file, {kRead, At::offset, kCollective, offset}, buf, count, type, request);
}

Status File_read_at_all_begin(File& file, MPI_Offset offset, void* buf, MPI_Count count, Datatype& type) {
  return file.begin({kRead, At::offset, kCollective, offset}, p2p::buffer_of(buf, count, type));
}

Status File_read_at_all_end(File& file, void* buf, MPI_Status* status) {
  return completed(file.end({kRead, At::offset, kCollective}, buf), status);
}

Status File_read(File& file, void* buf, MPI_Count count, Datatype& type, MPI_Status* status) {
  return run(file, {kRead, At::individual, kIndependent}, buf, count, type, status);
}

Status File_iread(File& file, void* buf, MPI_Count count, Datatype& type, MPI_Request* request) {
  return start(file, {kRead, At::individual, kIndependent}, buf, count, type, request);
}

Status File_read_all(File& file, void* buf, MPI_Count count, Datatype& type, MPI_Status* status) {
  return run(file, {kRead, At::individual, kCollective}, buf, count, type, status);
}

Status File_iread_all(File& file, void* buf, MPI_Count count, Datatype& type, MPI_Request* request) {
  return start(file, {kRead, At::individual, kCollective}, buf, count, type, request);
}

Status File_read_all_begin(File& file, void* buf, MPI_Count count, Datatype& type) {
  return file.begin({kRead, At::individual, kCollective}, p2p::buffer_of(buf, count, type));
}

Status File_read_all_end(File& file, void* buf, MPI_Status* status) {
  return completed(file.end({kRead, At::individual, kCollective}, buf), status);
}

Status File_read_shared(File& file, void* buf, MPI_Count count, Datatype& type, MPI_Status* status) {
  return run(file, {kRead, At::shared, kIndependent}, buf, count, type, status);
}

Status File_iread_shared(File& file, void* buf, MPI_Count count, Datatype& type, MPI_Request* request) {
  return start(file, {kRead, At::shared, kIndependent}, buf, count, type, request);
}

Status File_read_ordered(File& file, void* buf, MPI_Count count, Datatype& type, MPI_Status* status) {
  return run(file, {kRead, At::shared, kCollective}, buf, count, type, status);
}

Status File_read_ordered_begin(File& file, void* buf, MPI_Count count, Datatype& type) {
  return file.begin({kRead, At::shared, kCollective}, p2p::buffer_of(buf, count, type));
}

Status File_read_ordered_end(File& file, void* buf, MPI_Status* status) {
  return completed(file.end({kRead, At::shared, kCollective}, buf), status);
}

Status File_write_at(File& file, MPI_Offset offset, const void* buf, MPI_Count count, Datatype& type,
                     MPI_Status* status) {
  return run(file, {kWrite, At::offset, kIndependent, offset}, buf, count, type, status);
}

Status File_iwrite_at(File& file, MPI_Offset offset, const void* buf, MPI_Count count, Datatype& type,
                      MPI_Request* request) {
  return start(file, {kWrite, At::offset, kIndependent, offset}, buf, count, type, request);
}

Status File_write_at_all(File& file, MPI_Offset offset, const void* buf, MPI_Count count, Datatype& type,
                         MPI_Status* status) {
  return run(file, {kWrite, At::offset, kCollective, offset}, buf, count, type, status);
}

Status File_iwrite_at_all(File& file, MPI_Offset offset, const void* buf, MPI_Count count, Datatype& type,
                          MPI_Request* request) {
  return start(file, {kWrite, At::offset, kCollective, offset}, buf, count, type, request);
}

Status File_write_at_all_begin(File& file, MPI_Offset offset, const void* buf, MPI_Count count,
                               Datatype& type) {
  return begin(file, {kWrite, At::offset, kCollective, offset}, buf, count, type);
}

Status File_write_at_all_end(File& file, const void* buf, MPI_Status* status) {
  return completed(file.end({kWrite, At::offset, kCollective}, buf), status);
}

Status File_write(File& file, const void* buf, MPI_Count count, Datatype& type, MPI_Status* status) {
  return run(file, {kWrite, At::individual, kIndependent}, buf, count, type, status);
}

Status File_iwrite(File& file, const void* buf, MPI_Count count, Datatype& type, MPI_Request* request) {
  return start(file, {kWrite, At::individual, kIndependent}, buf, count, type, request);
}

Status File_write_all(File& file, const void* buf, MPI_Count count, Datatype& type, MPI_Status* status) {
  return run(file, {kWrite, At::individual, kCollective}, buf, count, type, status);
}

Status File_iwrite_all(File& file, const void* buf, MPI_Count count, Datatype& type, MPI_Request* request) {
  return start(file, {kWrite, At::individual, kCollective}, buf, count, type, request);
}

Status File_write_all_begin(File& file, const void* buf, MPI_Count count, Datatype& type) {
  return begin(file, {kWrite, At::individual, kCollective}, buf, count, type);
}

Status File_write_all_end(File& file, const void* buf, MPI_Status* status) {
  return completed(file.end({kWrite, At::individual, kCollective}, buf), status);
}

Status File_write_shared(File& file, const void* buf, MPI_Count count, Datatype& type, MPI_Status* status) {
  return run(file, {kWrite, At::shared, kIndependent}, buf, count, type, status);
}

Status File_iwrite_shared(File& file, const void* buf, MPI_Count count, Datatype& type,
                          MPI_Request* request) {
  return start(file, {kWrite, At::shared, kIndependent}, buf, count, type, request);
}

Status File_write_ordered(File& file, const void* buf, MPI_Count count, Datatype& type, MPI_Status* status) {
  return run(file, {kWrite, At::shared, kCollective}, buf, count, type, status);
}

Status File_write_ordered_begin(File& file, const void* buf, MPI_Count count, Datatype& type) {
  return begin(file, {kWrite, At::shared, kCollective}, buf, count, type);
}

Status File_write_ordered_end(File& file, const void* buf, MPI_Status* status) {
  return completed(file.end({kWrite, At::shared, kCollective}, buf), status);
}

}  // namespace weft::api::impl
