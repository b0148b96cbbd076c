// SPDX-License-Identifier: BSD-3-Clause
#include "p2p/p2p.hpp"

#include <new>
#include <string>
#include <utility>

#include "base/config.hpp"
#include "base/trace.hpp"
#include "datatype/predefined.hpp"
#include "p2p/buffered.hpp"
#include "p2p/engine/engine.hpp"
#include "p2p/memory/device_copy.hpp"
#include "p2p/protocol/device/put.hpp"
#include "p2p/protocol/table.hpp"
#include "p2p/unexpected.hpp"

namespace weft::p2p {
namespace {

config::Choice setting_persistent(
    "gpu.persistent", 0, {"init", "start"},
    "Classification of the buffer of a persistent request on GPU memory: once at init, or "
    "at each start.",
    "the memory of a persistent request is freed or allocated anew between starts (start)");

constexpr uint64_t kSmallBytes = 8 << 10;  // up to here pinned host memory has no advantage

match::Key key_of(int source, int tag, core::ContextId context) {
  return {context, source == kAnySource ? match::kAny : source, tag == kAnyTag ? match::kAny : tag};
}

[[gnu::cold]] Error count_error(const Buffer& buffer) {
  return Error(Errc::count, "count = " + std::to_string(buffer.count) + " elements of " +
                                std::to_string(buffer.type->size()) + " bytes do not fit 64 bits");
}

[[gnu::cold]] Error classification_error() {
  return Error(Errc::buffer,
               "the CUDA driver refused to classify the buffer (its device may be unusable from this "
               "process): check the device and CUDA_VISIBLE_DEVICES");
}

/// Returns the memory classification of a buffer. A buffer in the allocation of the active request `cached`
/// needs no driver query, since an active buffer must not be freed. Memory of pools and of cuMemMap is
/// classified in each call, which waits for copies under way.
device::Memory classify_buffer(const void* first, uint64_t bytes, const Transfer* cached) {
  if (cached != nullptr && cached->memory.context != nullptr && cached->memory.covers(first, 1))
    return cached->memory;
  if (bytes <= kSmallBytes && device::host_without_query(first)) return {};
  return device::classify(first);
}

/// Treats a noncontiguous datatype that forms a single run of bytes as contiguous.
[[gnu::cold]] void merge_runs(Transfer& t, const Buffer& buffer) {
  const auto block = buffer.type->strided(buffer.count);
  if (!block || block->dimensions != 0) return;
  t.shift = block->displacement;
  t.address = t.data() + t.shift;
  t.contiguous = true;
}

/// Fills in address and memory classification of a buffer whose layout and size are known. `cached`: an
/// active request of this kind, or null. Returns false on failure: see buffer_error().
bool classify(Transfer& t, const Buffer& buffer, const Transfer* cached) {
  t.address = buffer.address;
  t.count = buffer.count;
  if (buffer.memory != nullptr)
    t.memory = *buffer.memory;
  else if (!device::available() || t.bytes == 0) [[likely]]
    t.memory = {};
  else
    t.memory = classify_buffer(t.data() + (t.contiguous ? 0 : buffer.type->true_lb()), t.bytes, cached);
  if (t.memory.on_device() && !t.contiguous && t.bytes != 0) [[unlikely]]
    merge_runs(t, buffer);
  if (t.memory.mapped && t.contiguous) [[unlikely]]
    t.memory = device::widened(t.memory, t.address, t.bytes);
  return t.memory.fault == 0;
}

/// The same, and fills in layout and size.
bool fill_in(Transfer& t, const Buffer& buffer, const Transfer* cached = nullptr) {
  t.contiguous = buffer.type->contiguous();
  const auto bytes = datatype::packed_size(*buffer.type, buffer.count);
  t.bytes = static_cast<uint64_t>(bytes.value_or(0));
  return classify(t, buffer, cached) && bytes.has_value();
}

[[gnu::cold]] Error buffer_error(const Transfer& t, const Buffer& buffer) {
  return t.memory.fault != 0 ? classification_error() : count_error(buffer);
}

Status describe(Transfer& t, const Buffer& buffer) {
  if (fill_in(t, buffer)) [[likely]]
    return {};
  return buffer_error(t, buffer);
}

/// Classifies the buffer of a persistent request once for all starts. Returns false if each start has to do
/// it.
bool classify_once(Transfer& t, const Buffer& buffer) {
  t.persistent_buffer.reset();
  if (!device::available() || t.rank == kProcNull || !setting_persistent.is("init")) return false;
  if (engine_of(t.comm->instance).checked != nullptr) return false;  // each start compares the buffer
  if (!fill_in(t, buffer) || t.bytes == 0) return false;
  if (t.memory.kind != device::MemoryKind::cuda_device && t.memory.kind != device::MemoryKind::cuda_managed)
    return false;  // host memory may change its kind, and its classification is fast
  if (classified_at_start(t.memory)) return false;
  t.persistent_buffer.reset(new PersistentBuffer);
  return true;
}

/// Completes a transfer to or from MPI_PROC_NULL, or with an invalid buffer, at once.
[[gnu::cold]] void complete_immediately(Transfer& t, const Buffer& buffer, bool valid) {
  t.enter(Transfer::State::done);
  if (t.comm->revoked) return t.finish(core::FailureDetector::revoked_error(*t.comm));
  if (t.rank == kProcNull) {
    t.completion.source = kProcNull;
    t.completion.tag = kAnyTag;
    return t.finish();
  }
  if (!valid) t.finish(buffer_error(t, buffer));
}

/// Fills in the fields common to sends and receives. Returns false if the transfer is complete already.
bool begin(Transfer& t, const Buffer& buffer, int rank, int tag, const Transfer* cached = nullptr) {
  t.rank = rank;
  t.tag = tag;
  t.transferred = t.remote = 0;
  const bool valid = fill_in(t, buffer, cached);
  if (valid && rank != kProcNull) [[likely]]
    return true;
  complete_immediately(t, buffer, valid);
  return false;
}

void bind(Transfer& t, core::Communicator& comm, const datatype::Datatype& type, SendMode mode,
          core::ContextId context) {
  t.bind(comm, type);
  t.mode = mode;
  t.context = context;
}

void dispatch(Transfer& t) {
  Engine& engine = engine_of(t.comm->instance);
  if (t.kind == core::Request::Kind::receive) {
    t.key = key_of(t.rank, t.tag, t.context);
    return engine.delivery.receive(t);
  }
  t.peer = t.comm->process(t.rank);
  if (t.comm->revoked) [[unlikely]]
    return engine.requests.complete(t, core::FailureDetector::revoked_error(*t.comm));
  if (t.mode == SendMode::buffered)
    buffered_send(engine, t);
  else if (t.peer == engine.instance.self)
    engine.loopback.send(t);
  else
    engine.outgoing.send(t);
}

void start_unobserved(Transfer& t) {
  if (t.memory.shareable()) [[unlikely]]
    engine_of(t.comm->instance).classifications.set(t);
  dispatch(t);
}

/// Records a transfer that starts. Returns the transfer that moves its data: `t`, or that of
/// CheckedTransfers.
[[gnu::cold]] Transfer& observe(Transfer& t) {
  trace::annotate(
      {t.bytes, t.rank, t.tag, t.comm->number(), t.context != t.comm->context(core::Channel::user)});
  const auto& checked = engine_of(t.comm->instance).checked;
  Transfer* const inner = checked != nullptr ? checked->make_inner(t) : nullptr;
  return inner != nullptr ? *inner : t;
}

/// Starts a transfer whose fields are filled in.
void start_described(Transfer& t) {
  if (trace::enabled()) [[unlikely]]
    return start_unobserved(observe(t));
  start_unobserved(t);
}

void describe_and_start(Transfer& t, const Buffer& buffer, int rank, int tag) {
  const Transfer* const cached = engine_of(t.comm->instance).classifications.find(t);
  if (begin(t, buffer, rank, tag, cached)) start_described(t);
}

/// Starts a persistent request whose buffer was classified when the request was created.
void start_persistent(Transfer& t) {
  t.transferred = t.remote = 0;
  dispatch(t);
}

}  // namespace

bool classified_at_start(const device::Memory& memory) {
  if (memory.kind != device::MemoryKind::cuda_device && memory.kind != device::MemoryKind::cuda_managed)
    return false;
  return memory.context == nullptr || !setting_persistent.is("init");
}

void check_types(core::Instance& instance) { engine_of(instance).outgoing.check_types(); }

void check_buffers(core::Instance& instance) {
  engine_of(instance).checked = std::make_unique<CheckedTransfers>(instance);
}

bool moves_for_another(const Transfer& transfer) {
  const auto& checked = engine_of(transfer.comm->instance).checked;
  return checked != nullptr && checked->is_inner(transfer);
}

Buffer host_bytes(const void* address, size_t bytes) {
  static const datatype::Datatype* const byte = datatype::predefined(datatype::kByte);
  static const device::Memory host;
  return {const_cast<void*>(address), static_cast<int64_t>(bytes), byte, &host};
}

Transfer* create_transfer(core::Request::Kind kind) {
  Transfer* transfer = Transfer::slab().create(kind);
  if (transfer != nullptr) transfer->owned = true;
  return transfer;
}

CompletedSend& CompletedSend::shared() {
  static auto& shared = *new CompletedSend;
  return shared;
}

Status Transfer::start() {
  rearm();
  if (persistent_buffer) {
    start_persistent(*this);
    return {};
  }
  std::byte* const user_address = data() - std::exchange(shift, 0);
  describe_and_start(*this, {user_address, count, type}, rank, tag);
  return {};
}

Status Transfer::cancel() {
  if (comm == nullptr || (complete() && !interrupted())) return {};
  Engine& engine = engine_of(comm->instance);
  if (engine.checked != nullptr) [[unlikely]]
    if (Transfer* const inner = engine.checked->find_inner(*this); inner != nullptr) return inner->cancel();
  if (kind == Kind::receive)
    engine.delivery.cancel(*this);
  else
    engine.rendezvous.cancel(*this);
  return {};
}

void post_send(Transfer& t, const Buffer& buffer, int dest, int tag, core::Communicator& comm, SendMode mode,
               core::Channel channel) {
  bind(t, comm, *buffer.type, mode, comm.context(channel));
  describe_and_start(t, buffer, dest, tag);
}

void post_send_in(core::ContextId context, Transfer& t, const Buffer& buffer, int dest, int tag,
                  core::Communicator& comm) {
  bind(t, comm, *buffer.type, SendMode::standard, context);
  describe_and_start(t, buffer, dest, tag);
}

void post_receive_in(core::ContextId context, Transfer& t, const Buffer& buffer, int source, int tag,
                     core::Communicator& comm) {
  bind(t, comm, *buffer.type, SendMode::standard, context);
  describe_and_start(t, buffer, source, tag);
}

bool send_now(const Buffer& buffer, int dest, int tag, core::Communicator& comm, core::Channel channel) {
  if (dest == kProcNull || !buffer.type->contiguous()) return false;
  if (buffer.memory != nullptr ? buffer.memory->kind != device::MemoryKind::host
                               : !device::host_without_query(buffer.address))
    return false;
  const auto packed = datatype::packed_size(*buffer.type, buffer.count);
  if (!packed) return false;
  const auto bytes = static_cast<uint64_t>(*packed);
  if (!send_now(buffer.address, bytes, dest, tag, comm, channel)) return false;
  trace::annotate(
      {bytes, dest, tag, comm.number(), channel != core::Channel::user});  // else start_described() does
  return true;
}

bool send_now(const void* from, uint64_t bytes, int dest, int tag, core::Communicator& comm,
              core::Channel channel) {
  return engine_of(comm.instance).outgoing.send_now(from, bytes, comm.process(dest), tag, comm, channel);
}

void post_contiguous(Transfer& t, const Buffer& buffer, uint64_t bytes, int rank, int tag,
                     core::Communicator& comm) {
  bind(t, comm, *buffer.type, SendMode::standard, comm.context(core::Channel::user));
  t.contiguous = true;
  t.bytes = bytes;
  t.rank = rank;
  t.tag = tag;
  if (classify(t, buffer, engine_of(comm.instance).classifications.find(t))) [[likely]]
    return start_described(t);
  complete_immediately(t, buffer, false);
}

void post_receive(Transfer& t, const Buffer& buffer, int source, int tag, core::Communicator& comm,
                  core::Channel channel) {
  bind(t, comm, *buffer.type, SendMode::standard, comm.context(channel));
  describe_and_start(t, buffer, source, tag);
}

void prepare(Transfer& t, const Buffer& buffer, int rank, int tag, core::Communicator& comm, SendMode mode) {
  bind(t, comm, *buffer.type, mode, comm.context(core::Channel::user));
  t.rank = rank;
  t.tag = tag;
  t.persistent = true;
  t.active = false;
  if (classify_once(t, buffer)) return;
  t.address = buffer.address;
  t.count = buffer.count;
  t.shift = 0;
}

void post_matched_receive(Transfer& t, const Buffer& buffer, UnexpectedMessage& message,
                          core::Communicator& comm) {
  bind(t, comm, *buffer.type, SendMode::standard, comm.context(core::Channel::user));
  if (!begin(t, buffer, message.completion.source, message.completion.tag)) {
    engine_of(comm.instance).delivery.discard(message);
    return;
  }
  Transfer& moving = trace::enabled() ? observe(t) : t;
  engine_of(comm.instance).delivery.receive_message(moving, message);
}

const UnexpectedMessage* probe(int source, int tag, core::Communicator& comm) {
  return engine_of(comm.instance).delivery.find(key_of(source, tag, comm.context(core::Channel::user)));
}

Status check_source(int source, core::Communicator& comm) {
  Engine& engine = engine_of(comm.instance);
  if (!engine.delivery.checks_sources()) [[likely]]
    return {};
  return engine.failures.check_source(source, comm);
}

void resume_receives(core::Communicator& comm) { engine_of(comm.instance).failures.resume_receives(comm); }

UnexpectedMessage* matched_probe(int source, int tag, core::Communicator& comm) {
  UnexpectedMessage* message =
      engine_of(comm.instance).delivery.find(key_of(source, tag, comm.context(core::Channel::user)));
  if (message == nullptr) return nullptr;
  engine_of(comm.instance).delivery.extract(*message);
  message->matched = true;
  message->comm = &comm;
  comm.retain();
  return message;
}

BatchScope::BatchScope(core::Instance& instance) : engine_(engine_of(instance)) {
  engine_.copies.start_batch();
}
BatchScope::~BatchScope() { engine_.copies.end_batch(); }

Error no_memory_for_copy(uint64_t bytes) {
  return {Errc::no_mem, "no memory for a copy of " + std::to_string(bytes) +
                            " bytes (the call copies its send data): send it in smaller parts"};
}

Status pack_to_host(const Buffer& buffer, std::vector<std::byte>& packed) {
  Transfer t(core::Request::Kind::send);
  t.type = buffer.type;
  WEFT_TRY(describe(t, buffer));
  try {
    packed.resize(t.bytes);
  } catch (const std::bad_alloc&) {
    return no_memory_for_copy(t.bytes);
  }
  return pack_out(t, packed.data());
}

core::Completion describe(const UnexpectedMessage& message) { return message.completion; }

HandleState check_message(const void* handle) {
  const HandleState state = UnexpectedMessage::slab().check(handle);
  if (state != HandleState::live) return state;
  return static_cast<const UnexpectedMessage*>(handle)->matched ? HandleState::live : HandleState::freed;
}

core::Communicator* communicator_of(const UnexpectedMessage& message) { return message.comm; }

Status create(core::Instance& instance) {
  const auto make_puts = [](Engine& engine) -> std::unique_ptr<AdvertisedReceives> {
    return std::make_unique<PutProtocol>(engine);
  };
  instance.waits.set_find_similar(find_similar);
  instance.messaging = std::make_unique<Engine>(instance, protocol_table(), make_puts).release();
  instance.add(*instance.messaging);
  return {};
}

Status connect(core::Instance& instance) {
  Engine& engine = engine_of(instance);
  if (engine.connections.connected()) return {};
  Status connected = engine.connections.connect(engine.delivery);
  if (connected)
    engine.gpus.connect();
  else
    engine.gpus.give_up();
  return connected;
}

bool connected(const core::Instance& instance) { return engine_of(instance).connections.connected(); }

void quiesce(core::Instance& instance) {
  Engine& engine = engine_of(instance);
  engine.drain();
  engine.connections.leave_network();
  engine.close_device();
}

void drain(core::Instance& instance, uint64_t end_ns) { engine_of(instance).drain(end_ns); }

void leave(core::Instance& instance, uint64_t time_ns) {
  if (instance.network != nullptr) instance.network->leave(time_ns);
  if (instance.shm != nullptr) instance.shm->set_departed(core::FailureDetector::kLeftJob);
}

}  // namespace weft::p2p
