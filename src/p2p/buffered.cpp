// SPDX-License-Identifier: BSD-3-Clause
// Buffered mode (MPI 5.0 section 3.6): the data are packed aside and sent from there. The attached buffer's
// size is the budget; the copies are kept in memory of Weft's own, so that its layout stays Weft's business.
#include <algorithm>

#include "p2p/engine.hpp"

namespace weft::p2p {

constexpr int64_t kOverhead = 512;  // MPI_BSEND_OVERHEAD

struct BufferedCopy {
  Transfer transfer{core::Request::Kind::send};
  std::vector<std::byte> data;
  int64_t charge = 0;
};

void Engine::reap_buffered() {
  auto& copies = buffered.copies;
  const auto finished = [&](BufferedCopy* copy) {
    if (!copy->transfer.complete()) return false;
    buffered.used -= copy->charge;
    delete copy;
    return true;
  };
  copies.erase(std::remove_if(copies.begin(), copies.end(), finished), copies.end());
}

void Engine::buffered_send(Transfer& t) {
  reap_buffered();
  const auto charge = static_cast<int64_t>(t.bytes) + kOverhead;
  if (buffered.size < 0 || buffered.used + charge > buffered.size) {
    return complete(
        t, Error(Errc::buffer,
                 "the message needs " + std::to_string(charge) + " bytes of buffer, but " +
                     (buffered.size < 0 ? std::string("none is attached")
                                        : std::to_string(buffered.size - buffered.used) + " are free") +
                     ": attach more with MPI_Buffer_attach"));
  }
  auto copy = std::make_unique<BufferedCopy>();
  copy->charge = charge;
  copy->data.resize(t.bytes);
  if (Status packed = pack_out(t, copy->data.data()); !packed) return complete(t, std::move(packed).error());
  buffered.used += charge;
  buffered.copies.push_back(copy.get());
  BufferedCopy& kept = *copy.release();
  post_send(kept.transfer, host_bytes(kept.data.data(), kept.data.size()), t.rank, t.tag, *t.comm,
            SendMode::standard, core::Channel::user);
  complete(t);
}

void flush_buffer(core::Instance& instance) {
  Engine& engine = *instance.engine;
  for (unsigned rounds = 0;;) {
    engine.reap_buffered();
    if (engine.buffered.copies.empty()) return;
    if (!instance.progress()) instance.idle(rounds);
  }
}

Status attach_buffer(core::Instance& instance, void* address, int64_t size) {
  auto& buffered = instance.engine->buffered;
  if (buffered.size >= 0)
    return Error(Errc::buffer, "a buffer of " + std::to_string(buffered.size) +
                                   " bytes is attached already: detach it first");
  buffered.address = address;
  buffered.size = size;
  return {};
}

Status detach_buffer(core::Instance& instance, void*& address, int64_t& size) {
  auto& buffered = instance.engine->buffered;
  if (buffered.size < 0) return Error(Errc::buffer, "no buffer is attached");
  flush_buffer(instance);
  address = buffered.address;
  size = buffered.size;
  buffered.address = nullptr;
  buffered.size = -1;
  return {};
}

}  // namespace weft::p2p
