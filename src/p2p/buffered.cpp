// SPDX-License-Identifier: BSD-3-Clause
// Buffered mode (MPI 5.0 section 3.6). Messages are packed into memory of the library and sent from there;
// the size of the attached buffer is the budget.
#include "p2p/buffered.hpp"

#include <algorithm>
#include <new>

#include "p2p/engine.hpp"

namespace weft::p2p {
namespace {

// Charge per message: the smallest MPI_BSEND_OVERHEAD of the binary interfaces in use (MPICH: 96, standard
// ABI: 512).
constexpr int64_t kOverhead = 96;

struct Copy {
  Transfer transfer{core::Request::Kind::send};
  std::vector<std::byte> data;
  int64_t charge = 0;
  uint64_t number = 0;  // increases with every buffered message of the process
};

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
    if (instance_.engine->buffers.oldest(owner_) <= last_) return false;
    instance_.remove(*this);
    finish();
    return true;
  }
  core::Instance& instance_;
  const void* const owner_;
  const uint64_t last_;
};

}  // namespace

struct SendBuffer {
  void* address;
  int64_t size;
  int64_t used = 0;
  std::vector<std::unique_ptr<Copy>> copies;  // in the order of `number`

  [[nodiscard]] bool automatic() const { return size == kAutomatic; }
  void reap() {
    std::erase_if(copies, [this](const std::unique_ptr<Copy>& copy) {
      if (!copy->transfer.complete()) return false;
      used -= copy->charge;
      return true;
    });
  }
};

SendBuffers::SendBuffers() = default;
SendBuffers::~SendBuffers() = default;

SendBuffer* SendBuffers::find(const void* owner) {
  const auto found = attached_.find(owner);
  return found == attached_.end() ? nullptr : &found->second;
}

/// The communicator's buffer; else its session's, or the process's if it has no session.
SendBuffer* SendBuffers::of(const core::Communicator& comm) {
  if (SendBuffer* own = find(&comm)) return own;
  return find(comm.session());
}

uint64_t SendBuffers::oldest(const void* owner) {
  SendBuffer* buffer = find(owner);
  if (buffer == nullptr) return UINT64_MAX;
  buffer->reap();
  return buffer->copies.empty() ? UINT64_MAX : buffer->copies.front()->number;
}

Status SendBuffers::attach(const void* owner, void* address, int64_t size) {
  if (const SendBuffer* other = find(owner))
    return Error(Errc::buffer,
                 (other->automatic() ? std::string("MPI_BUFFER_AUTOMATIC")
                                     : "a buffer of " + std::to_string(other->size) + " bytes") +
                     " is attached already: detach it first");
  attached_.emplace(owner, SendBuffer{address, size, 0, {}});
  return {};
}

void SendBuffers::erase(const void* owner) { attached_.erase(owner); }

bool SendBuffers::idle() {
  return std::all_of(attached_.begin(), attached_.end(),
                     [this](const auto& entry) { return oldest(entry.first) == UINT64_MAX; });
}

void Engine::buffered_send(Transfer& t) {
  SendBuffer* buffer = buffers.of(*t.comm);
  if (buffer == nullptr)
    return complete(t, Error(Errc::buffer,
                             "no buffer is attached for this communicator: attach one with MPI_Buffer_attach "
                             "(MPI_Session_attach_buffer for communicators of a session)"));
  buffer->reap();
  const auto charge = static_cast<int64_t>(t.bytes) + kOverhead;
  if (!buffer->automatic() && buffer->used + charge > buffer->size)
    return complete(
        t, Error(Errc::buffer, "the message needs " + std::to_string(charge) + " bytes of buffer, but " +
                                   std::to_string(buffer->size - buffer->used) +
                                   " are free: attach a larger one, or MPI_BUFFER_AUTOMATIC"));
  auto made = std::make_unique<Copy>();
  made->charge = charge;
  made->number = buffers.next_number();
  try {
    made->data.resize(t.bytes);
  } catch (const std::bad_alloc&) {
    return complete(t, no_memory_for_copy(t.bytes));
  }
  if (Status packed = pack_out(t, made->data.data()); !packed) return complete(t, std::move(packed).error());
  buffer->used += charge;
  Copy& copy = *made;
  buffer->copies.push_back(std::move(made));
  post_send(copy.transfer, host_bytes(copy.data.data(), copy.data.size()), t.rank, t.tag, *t.comm,
            SendMode::standard, core::Channel::user);
  complete(t);
}

Status attach_buffer(core::Instance& instance, const void* owner, void* address, int64_t size) {
  return instance.engine->buffers.attach(owner, address, size);
}

void flush_buffer(core::Instance& instance, const void* owner) {
  const uint64_t last = instance.engine->buffers.last_number();
  core::wait_until(instance, [&] { return instance.engine->buffers.oldest(owner) > last; });
}

core::Request* start_flush(core::Instance& instance, const void* owner) {
  return Flush::slab().create(instance, owner, instance.engine->buffers.last_number());
}

HandleState check_flush(const void* handle) { return Flush::slab().check(handle); }

Result<AttachedBuffer> detach_buffer(core::Instance& instance, const void* owner) {
  if (instance.engine->buffers.find(owner) == nullptr) return Error(Errc::buffer, "no buffer is attached");
  flush_buffer(instance, owner);
  // Another thread may have detached the buffer meanwhile.
  const SendBuffer* buffer = instance.engine->buffers.find(owner);
  if (buffer == nullptr) return Error(Errc::buffer, "no buffer is attached");
  const AttachedBuffer attached{buffer->address, buffer->size};
  instance.engine->buffers.erase(owner);
  return attached;
}

void forget_buffer(core::Instance& instance, const void* owner) {
  if (instance.engine->buffers.find(owner) != nullptr) (void)detach_buffer(instance, owner);
}

void flush_buffers(core::Instance& instance) {
  core::wait_until(instance, [&] { return instance.engine->buffers.idle(); });
}

}  // namespace weft::p2p
