// SPDX-License-Identifier: BSD-3-Clause
#include "api/leaks.hpp"

#include <string>

#include "api/check.hpp"
#include "api/handles.hpp"
#include "api/process.hpp"
#include "coll/dispatch/operation.hpp"
#include "p2p/partitioned.hpp"
#include "p2p/unexpected.hpp"
#include "rma/window.hpp"

namespace weft::api {

namespace {

std::string name_of(const core::Communicator* comm) {
  if (comm == nullptr || comm->name.empty()) return "an unnamed communicator";
  return comm->name;
}

/// "a send of 400 bytes to rank 1 with tag 5 on MPI_COMM_WORLD".
std::string text_of(const p2p::Transfer& transfer) {
  const bool send = transfer.kind == core::Request::Kind::send;
  const auto number = [](int value, int wildcard) {
    return value == wildcard ? "any" : std::to_string(value);
  };
  // The size of a persistent request is known once it has been started.
  const std::string size = transfer.bytes == 0 ? "" : " of " + std::to_string(transfer.bytes) + " bytes";
  return (send ? "a send" : "a receive") + size + (send ? " to rank " : " from rank ") +
         number(transfer.rank, MPI_ANY_SOURCE) + " with tag " + number(transfer.tag, MPI_ANY_TAG) + " on " +
         name_of(transfer.comm);
}

constexpr int kMaxRounds = 1000;  // of progress: each message of an ended rank takes at most one

constexpr const char* kRequestLeaks = "MPI_Finalize found a request that leaks: ";
const char* remedy_for(const core::Request& request) {
  if (request.persistent) return " is persistent: call MPI_Request_free";
  return request.complete() ? " is complete, but not released: call MPI_Wait or MPI_Test"
                            : " has not completed: call MPI_Wait or MPI_Test";
}

void report_request(const core::Request& request, const std::string& text) {
  if (!request.detached) report(kRequestLeaks + text + remedy_for(request));
}

void report_communicators() {
  g_handles.communicators.for_each([](const core::Communicator& comm) {
    const bool predefined = comm.handle < kPredefinedEnd || is_parent(comm);
    if (predefined || !comm.has_handle || comm.session() != nullptr) return;
    report("MPI_Finalize found a communicator that leaks: " + name_of(&comm) + " with " +
           std::to_string(comm.size()) + (comm.size() == 1 ? " rank" : " ranks") + ": call MPI_Comm_free");
  });
}

void report_windows() {
  g_handles.windows.for_each([](const rma::Window& window) {
    if (!window.has_handle()) return;
    report("MPI_Finalize found a window that leaks: " +
           (window.name.empty() ? "an unnamed window" : window.name) + " of " +
           std::to_string(window.size()) + (window.size() == 1 ? " rank" : " ranks") + ": call MPI_Win_free");
  });
}

}  // namespace

void report_leaks() {
  g_handles.transfers.for_each([](const p2p::Transfer& transfer) {
    if (transfer.comm == nullptr || p2p::moves_for_another(transfer)) return;
    if (transfer.owned)
      report_request(transfer, text_of(transfer));
    else if (transfer.kind == core::Request::Kind::receive)  // of MPI_Isendrecv
      report(kRequestLeaks + text_of(transfer) + remedy_for(transfer));
  });
  coll::Operation::slab().for_each([](const coll::Operation& operation) {
    report_request(operation, "a nonblocking collective on " + name_of(operation.comm));
  });
  p2p::Partitioned::slab().for_each([](const p2p::Partitioned& partitioned) {
    report_request(partitioned, "a partitioned operation on " + name_of(partitioned.comm));
  });
  rma::WindowRequest::slab().for_each([](const rma::WindowRequest& request) {
    report_request(request, "the request of a one-sided operation");
  });
  report_windows();
  report_communicators();
}

void report_unreceived(core::Instance& instance) {
  for (int rounds = 0; rounds < kMaxRounds && instance.progress(); ++rounds) {
  }
  for (const core::SimilarMessage& message : p2p::unreceived(instance))
    report("MPI_Finalize found a message that was never received: from rank " +
           std::to_string(message.source) + " with tag " + std::to_string(message.tag) + ", " +
           std::to_string(message.bytes) + " bytes on " +
           (message.comm != nullptr ? name_of(message.comm) : "a communicator that was freed") +
           ": receive it, or do not send it");
}

}  // namespace weft::api
