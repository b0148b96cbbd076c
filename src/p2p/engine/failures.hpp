// SPDX-License-Identifier: BSD-3-Clause
// Failures: what the loss of processes, the revocation of communicators and the departure of peers end, and
// the checks of receives for both. Threading: under the instance lock.
#pragma once
#include <cstdint>
#include <optional>

#include "core/instance.hpp"
#include "p2p/message/transfer.hpp"

namespace weft::p2p {

class Engine;

class Failures {
 public:
  explicit Failures(Engine& engine) : engine_(engine) {}

  /// Ends all that needs a process that has failed.
  void on_failure(uint32_t peer);
  /// Ends the operations of a revoked communicator that no other process takes part in yet. Matched messages
  /// complete: both sides move them to the end. A send whose message may have been matched asks its receiver
  /// (Rendezvous::on_cancelled), which answers from within any MPI call.
  void on_revoked(core::Communicator& comm);
  /// Ends all traffic with processes of this host that have left MPI: nobody reads a backlog or answers a
  /// request. Only for MPI_Finalize: a process that opens another session later reads its messages then.
  void end_departed();
  /// A get from the memory of the sender has failed. Returns true if the sender has ended: no other protocol
  /// may be tried, and the receive ends when the failure is reported, or has ended if the sender left MPI.
  [[nodiscard]] bool sender_ended(Transfer& t, const Error& error);

  // Receives.
  /// Returns an error if no process can send to a receive from `rank` any more. Also has the network watch a
  /// peer that this process only receives from.
  [[nodiscard]] Status check_source(int rank, core::Communicator& comm);
  /// Completes a receive on a revoked communicator, and one of a collective operation if a process of its
  /// communicator is lost, even if its message has arrived: the sender may have given up and reuse the
  /// buffer. Returns false then.
  [[nodiscard]] bool usable(Transfer& t);
  /// Returns whether a process can send to a receive. If not, it has ended or is posted and interrupted.
  [[nodiscard]] bool source_alive(Transfer& t);
  /// Makes an interrupted receive an ordinary posted receive again. Returns false if it was not interrupted.
  bool resume(Transfer& t);
  /// Resumes the receives from any source that only acknowledged failures have interrupted.
  void resume_receives(const core::Communicator& comm);

 private:
  void abort(Transfer& t, Error error);
  void fail_posted(uint32_t peer);
  [[nodiscard]] std::optional<uint32_t> unacknowledged_failure(const core::Communicator& comm) const;
  void interrupt(Transfer& t, uint32_t failed) const;

  Engine& engine_;
};

}  // namespace weft::p2p
