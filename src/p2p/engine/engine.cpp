// SPDX-License-Identifier: BSD-3-Clause
#include "p2p/engine/engine.hpp"

#include "base/clock.hpp"
#include "p2p/message/events.hpp"

namespace weft::p2p {

Engine::Engine(core::Instance& owner, const ProtocolTable& protocols, MakePuts make_puts)
    : instance(owner),
      connections(owner),
      peers(owner),
      requests(peers, this),
      rendezvous(*this, protocols),
      outgoing(owner, peers, requests, rendezvous),
      delivery(owner, peers, requests, outgoing, *this),
      loopback(*this),
      copies(*this),
      failures(*this),
      jobs(*this),
      regions(*this),
      gpus(*this),
      gpudirect(*this),
      puts(make_puts(*this)) {
  instance.failures.add([this](core::ProcessId process, const Error&) { failures.on_failure(process); });
  instance.failures.on_revoked([this](core::Communicator& comm) { failures.on_revoked(comm); });
  instance.handlers.set_lost([this](uint32_t peer, const Error& why) {
    if (instance.exit_time_ns != 0)  // it may have left: it sends a notice to peers that it has sent to only
      instance.failures.leaves(peer, why);
    else
      instance.failures.report(peer, why);
  });
  instance.handlers.set_left([this](uint32_t peer) {
    instance.failures.leaves(peer, Error(Errc::proc_aborted, "it has left the job by exit()"));
  });
  instance.sender = &outgoing;
  register_handlers();
}

Engine::~Engine() {
  instance.sender = nullptr;
  instance.handlers.set_lost({});
  instance.handlers.set_left({});
  message_matched.set_hook({});
  for (int type = 0; type <= static_cast<int>(Type::eager_typed); ++type)
    instance.handlers.remove(static_cast<transport::am::HandlerId>(type));
  close_device();
}

bool Engine::poll() {
  if (classifications.active() != nullptr) [[unlikely]]
    copies.keep_running();
  copies.begin_round();
  bool progressed = connections.poll_shm(copies.max_messages());
  progressed |= connections.poll_network(progressed);
  copies.submit_collected();
  progressed |= outgoing.poll();
  progressed |= copies.poll();
  progressed |= requests.poll();
  return progressed;
}

bool Engine::idle() const {
  return requests.size() == 0 && delivery.posted().size() == 0 && outgoing.backlog().empty() &&
         !requests.any_polled() && copies.idle() && connections.network_idle();
}

void Engine::close_device() {
  puts->close();
  instance.memory->close();
  bounce_pool.close();
}

void Engine::drain(uint64_t end_ns) {
  const auto drained = [&] {
    return outgoing.backlog().empty() && !requests.any_send_polled() && copies.idle() &&
           bounce_pool.gets.used() == 0 && connections.network_idle();
  };
  core::wait_until(instance, [&] {
    if (drained()) return true;
    failures.end_departed();
    return drained() || monotonic_ns() >= end_ns;
  });
}

void Engine::posted_on_device(Transfer& t) {
  puts->advertise(t);
  // Starts copies of messages that have arrived, while the application posts the rest of a window.
  copies.begin_post();
  instance.progress();
  copies.end_post();
}

void Engine::receive_on_device(Transfer& t, UnexpectedMessage& message) {
  copies.keep_running();
  copies.begin_post();
  delivery.receive_message(t, message);
  copies.end_post();
}

bool Engine::retract(Transfer& t) {
  return t.advertised == Transfer::kInterrupted ? failures.resume(t) : puts->retract(t);
}

bool Engine::retract_matched(Transfer& t) {
  return t.advertised == Transfer::kInterrupted ? failures.resume(t) : puts->retract_matched(t);
}

}  // namespace weft::p2p
