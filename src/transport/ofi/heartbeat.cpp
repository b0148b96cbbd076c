// SPDX-License-Identifier: BSD-3-Clause
// Heartbeats: periodically an RMA read of one word of each peer's memory; the read fails when the connection
// breaks. A peer that does not progress answers late (sockets) or by its adapter alone; at most one read per
// peer is outstanding. Peers that sent a disconnect notice get no heartbeats.
#include <ctime>

#include "base/config.hpp"
#include "base/log.hpp"
#include "transport/ofi/ofi.hpp"

namespace weft::transport::ofi {
namespace {

config::Size interval{
    "net.ofi_keepalive_ms",
    500,
    0,
    600000,
    "Interval between heartbeats to peers in milliseconds; 0 disables failure detection.",
    "processes are stopped for seconds, as under a debugger (larger or 0), or failures must be "
    "noticed sooner (smaller)"};

constexpr uint32_t kPollsPerCheck = 64;
constexpr size_t kHeartbeatsPerInterval = 128;  // further peers follow in the next intervals
constexpr int64_t kDisconnectGraceMs = 200;     // a disconnect notice may still arrive

int64_t now() {
  timespec time{};
  ::clock_gettime(CLOCK_MONOTONIC_COARSE, &time);
  return time.tv_sec * 1000 + time.tv_nsec / 1000000;
}

}  // namespace

void Ofi::check_peers() {
  if (++polls_ % kPollsPerCheck != 0 || interval == 0) [[likely]]
    return;
  const int64_t time = now();
  std::erase_if(suspects_, [&](Connection* of) {
    if (of->state == Connection::State::open && time - of->suspect_since_ms < kDisconnectGraceMs)
      return false;
    of->suspect_since_ms = 0;
    if (of->state == Connection::State::open)
      mark_lost(*of, Error(Errc::proc_aborted, "process " + std::to_string(of->peer) +
                                                   " no longer answers (" + of->suspect_reason + ")"));
    return true;
  });
  if (time < next_heartbeat_ms_ || connections_.empty()) return;
  next_heartbeat_ms_ = time + static_cast<int64_t>(static_cast<size_t>(interval));
  for (size_t sent = 0; sent < std::min(kHeartbeatsPerInterval, connections_.size()); ++sent)
    send_heartbeat(*connections_[next_checked_++ % connections_.size()]);
}

/// Returns true if the peer's process is dead, after starting the loss handling.
bool Ofi::check_process(Connection& of) {
  if (!of.process_watch || !of.process_watch->ended()) return false;
  of.process_watch.reset();
  write_off_reads(of);
  const Error why(Errc::proc_aborted, "process " + std::to_string(of.peer) + " of this machine has ended");
  if (of.state == Connection::State::open) on_heartbeat_failure(of.pairs[0], "the process has ended");
  if (of.state == Connection::State::disconnected)
    abort_gets(of, why);  // orderly exit, but nothing completes these gets
  return true;
}

/// Sends one through each pair of adapters that moves data: an error of any of them is one of the connection.
void Ofi::send_heartbeat(Connection& of) {
  if (check_process(of)) return;
  if (of.suspect_since_ms != 0 || of.state == Connection::State::disconnected || !connect(of)) return;
  for (AdapterPair& pair : of.pairs) {
    if (!pair.used || pair.heartbeat_pending) continue;
    uint64_t& received = adapters_.heartbeat_words().received;
    const ssize_t code = adapters_.endpoint(pair.own).read(
        &received, sizeof received, adapters_[pair.own].heartbeat_region->mem_desc, pair.address,
        pair.heartbeat_address, pair.heartbeat_rkey, &pair);
    if (code == 0) {
      pair.heartbeat_pending = true;
      if (of.verifying == &pair) of.verification_sent = true;
    } else if (code != -EAGAIN) {
      on_heartbeat_failure(pair, endpoint_->library().strerror(static_cast<int>(-code)));
    } else if (over_tcp_) {
      probe_listener(pair);
    }
  }
}

/// Called after a failed get. Returns true if a heartbeat verifies the peer; complete_deferred_gets()
/// follows.
bool Ofi::verify_peer(AdapterPair& pair) {
  Connection& of = pair.connection;
  if (interval == 0 || of.state != Connection::State::open) return false;
  if (of.verifying == nullptr) {
    of.verifying = &pair;
    of.verification_sent = false;
    send_heartbeat(of);
  }
  return true;
}

void Ofi::on_heartbeat(AdapterPair& pair) {
  Connection& of = pair.connection;
  pair.heartbeat_pending = false;
  if (of.verifying != &pair) return;
  if (of.verification_sent)
    complete_deferred_gets(of);
  else
    send_heartbeat(of);
}

/// Called while heartbeats return -EAGAIN: the peer has not accepted the connection yet, or is dead.
void Ofi::probe_listener(AdapterPair& pair) {
  std::string why;
  if (pair.tcp_probe == nullptr) {
    pair.tcp_probe = TcpProbe::start(pair.raw_address);
    if (pair.tcp_probe == nullptr) return;
  }
  const TcpProbe::Outcome outcome = pair.tcp_probe->poll(why);
  if (outcome == TcpProbe::Outcome::pending) return;
  pair.tcp_probe.reset();
  if (outcome == TcpProbe::Outcome::unreachable) on_heartbeat_failure(pair, std::move(why));
}

void Ofi::on_heartbeat_failure(AdapterPair& pair, std::string why) {
  Connection& of = pair.connection;
  if (of.state != Connection::State::open || of.suspect_since_ms != 0) return;
  log::write(log::Level::debug, "libfabric: heartbeat to process %u failed: %s", of.peer, why.c_str());
  of.suspect_since_ms = now();
  of.suspect_reason = std::move(why);
  if (adapters_.size() > 1)
    of.suspect_reason += std::string(", through ") + adapters_.endpoint(pair.own).info().domain_attr->name;
  suspects_.push_back(&of);
}

}  // namespace weft::transport::ofi
