// SPDX-License-Identifier: BSD-3-Clause
// Buffered mode (MPI 5.0 section 3.6). Messages are packed into memory of the library and sent from there;
// the size of the attached buffer is the budget.
#include "p2p/buffered.hpp"

#include <algorithm>
#include <new>

#include "p2p/engine/engine.hpp"
#include "p2p/memory/device_copy.hpp"
#include "p2p/p2p.hpp"

namespace weft::p2p {
namespace {

// Charge per message: the smallest MPI_BSEND_OVERHEAD of the binary interfaces in use (MPICH: 96, standard
// ABI: 512).
constexpr int64_t kOverhead = 96;

/// Request of MPI_Buffer_iflush and its variants: complete when all messages up to `last` are sent.
class Flush final : public core::Request, private core::Poller {
 public:
  Flush(core::Instance& instance, const void* owner, uint64_t last)
      : Request(Kind::none), instance_(instance), owner_(owner), last_(last) {
    instance_.add(*this);
    poll();
  }
  ~Flush() override = default;
  static Slab<Flush>& slab() {
    static auto& slab = *new Slab<Flush>(size_t{1} << 16);
    return slab;
  }
  void destroy() override { slab().destroy(this); }

 private:
  bool poll() override {
    if (engine_of(instance_).buffers.oldest(owner_) <= last_) return false;
    instance_.remove(*this);
    finish();
    return true;
  }
  core::Instance& instance_;
  const void* const owner_;
  const uint64_t last_;
};

}  // namespace

void buffered_send(Engine& engine, Transfer& t) {
  SendBuffer* buffer = engine.buffers.of(*t.comm);
  if (buffer == nullptr)
    return engine.requests.complete(
        t, Error(Errc::buffer,
                 "no buffer is attached for this communicator: attach one with MPI_Buffer_attach "
                 "(MPI_Session_attach_buffer for communicators of a session)"));
  buffer->reap();
  const auto charge = static_cast<int64_t>(t.bytes) + kOverhead;
  if (!buffer->automatic() && buffer->used + charge > buffer->size)
    return engine.requests.complete(
        t, Error(Errc::buffer, "the message needs " + std::to_string(charge) + " bytes of buffer, but " +
                                   std::to_string(buffer->size - buffer->used) +
                                   " are free: attach a larger one, or MPI_BUFFER_AUTOMATIC"));
  auto made = std::make_unique<BufferedCopy>();
  made->charge = charge;
  made->number = engine.buffers.next_number();
  try {
    made->data.resize(t.bytes);
  } catch (const std::bad_alloc&) {
    return engine.requests.complete(t, no_memory_for_copy(t.bytes));
  }
  if (Status packed = pack_out(t, made->data.data()); !packed)
    return engine.requests.complete(t, std::move(packed).error());
  buffer->used += charge;
  BufferedCopy& copy = *made;
  buffer->copies.push_back(std::move(made));
  post_send(copy.transfer, host_bytes(copy.data.data(), copy.data.size()), t.rank, t.tag, *t.comm,
            SendMode::standard, core::Channel::user);
  engine.requests.complete(t);
}

Status attach_buffer(core::Instance& instance, const void* owner, void* address, int64_t size) {
  return engine_of(instance).buffers.attach(owner, address, size);
}

void flush_buffer(core::Instance& instance, const void* owner) {
  const uint64_t last = engine_of(instance).buffers.last_number();
  core::wait_until(instance, [&] { return engine_of(instance).buffers.oldest(owner) > last; });
}

core::Request* start_flush(core::Instance& instance, const void* owner) {
  return Flush::slab().create(instance, owner, engine_of(instance).buffers.last_number());
}

HandleState check_flush(const void* handle) { return Flush::slab().check(handle); }

Result<AttachedBuffer> detach_buffer(core::Instance& instance, const void* owner) {
  if (engine_of(instance).buffers.find(owner) == nullptr) return Error(Errc::buffer, "no buffer is attached");
  flush_buffer(instance, owner);
  // Another thread may have detached the buffer meanwhile.
  const SendBuffer* buffer = engine_of(instance).buffers.find(owner);
  if (buffer == nullptr) return Error(Errc::buffer, "no buffer is attached");
  const AttachedBuffer attached{buffer->address, buffer->size};
  engine_of(instance).buffers.erase(owner);
  return attached;
}

void forget_buffer(core::Instance& instance, const void* owner) {
  if (engine_of(instance).buffers.find(owner) != nullptr) (void)detach_buffer(instance, owner);
}

void flush_buffers(core::Instance& instance) {
  core::wait_until(instance, [&] { return engine_of(instance).buffers.idle(); });
}

}  // namespace weft::p2p
