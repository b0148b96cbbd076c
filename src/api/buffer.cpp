// SPDX-License-Identifier: BSD-3-Clause
// Buffers for buffered mode, attached to the process, a communicator or a session (MPI 5.0 section 3.6).
#include <mpi.h>

#include "api/handles.hpp"
#include "api/impl.hpp"
#include "api/requests.hpp"
#include "p2p/p2p.hpp"
#include "stream/ordered.hpp"

namespace weft::api::impl {
namespace {

Status attach(const void* owner, void* buffer, MPI_Count size) {
  if (buffer == MPI_BUFFER_AUTOMATIC) size = p2p::kAutomatic;
  return p2p::attach_buffer(*g_instance, owner, buffer, size);
}

// Sends that are enqueued in a GPU stream still need the buffer.
Status detach(const void* owner, void* buffer_addr, MPI_Count* size) {
  stream::wait_for_enqueued(*g_instance);
  auto attached = p2p::detach_buffer(*g_instance, owner);
  if (!attached) return std::move(attached).error();
  *static_cast<void**>(buffer_addr) = attached->address;
  *size = attached->size == p2p::kAutomatic ? 0 : attached->size;
  return {};
}

Status flush(const void* owner) {
  stream::wait_for_enqueued(*g_instance);
  p2p::flush_buffer(*g_instance, owner);
  return {};
}

Status start_flush(const void* owner, MPI_Request* request) {
  register_request_slab(p2p::check_flush);
  core::Request* made = p2p::start_flush(*g_instance, owner);
  if (made == nullptr) return no_more_requests();
  *request = handle_of(*made);
  return {};
}

constexpr const void* kProcess = nullptr;

}  // namespace

Status Buffer_attach(void* buffer, MPI_Count size) { return attach(kProcess, buffer, size); }
Status Buffer_detach(void* buffer_addr, MPI_Count* size) { return detach(kProcess, buffer_addr, size); }
Status Buffer_flush() { return flush(kProcess); }
Status Buffer_iflush(MPI_Request* request) { return start_flush(kProcess, request); }

Status Comm_attach_buffer(core::Communicator& comm, void* buffer, MPI_Count size) {
  return attach(&comm, buffer, size);
}
Status Comm_detach_buffer(core::Communicator& comm, void* buffer_addr, MPI_Count* size) {
  return detach(&comm, buffer_addr, size);
}
Status Comm_flush_buffer(core::Communicator& comm) { return flush(&comm); }
Status Comm_iflush_buffer(core::Communicator& comm, MPI_Request* request) {
  return start_flush(&comm, request);
}

Status Session_attach_buffer(core::Session& session, void* buffer, MPI_Count size) {
  return attach(&session, buffer, size);
}
Status Session_detach_buffer(core::Session& session, void* buffer_addr, MPI_Count* size) {
  return detach(&session, buffer_addr, size);
}
Status Session_flush_buffer(core::Session& session) { return flush(&session); }
Status Session_iflush_buffer(core::Session& session, MPI_Request* request) {
  return start_flush(&session, request);
}

}  // namespace weft::api::impl
