// SPDX-License-Identifier: BSD-3-Clause
#include "p2p/p2p.hpp"

#include <string>
#include <utility>

#include "base/config.hpp"
#include "datatype/predefined.hpp"
#include "p2p/engine.hpp"

namespace weft::p2p {
namespace {

config::Choice setting_persistent("gpu.persistent", 0, {"init", "start"},
                                  "When the buffer of a persistent request on GPU memory is looked at: once, "
                                  "when the request is made, or at "
                                  "each start");

constexpr uint64_t kSmall = 8 << 10;  // bytes: whether host memory is pinned makes no difference

match::Key key_of(int source, int tag, core::ContextId context) {
  return {context, source == kAnySource ? match::kAny : source, tag == kAnyTag ? match::kAny : tag};
}

[[gnu::cold]] Error too_large(const Buffer& buffer) {
  return Error(Errc::count, "count = " + std::to_string(buffer.count) + " elements of " +
                                std::to_string(buffer.type->size()) + " bytes do not fit 64 bits");
}

[[gnu::cold]] Error unclassified() {
  return Error(Errc::buffer,
               "the CUDA driver refused to classify the buffer (its device may be unusable from this "
               "process): check the device and CUDA_VISIBLE_DEVICES");
}

/// What lies in the allocation of an active request needs no query: nobody may free it. Of cuMemMap memory
/// that holds for the mappings that its buffer touches.
device::Memory kind_of(const void* first, uint64_t bytes, const Transfer* witness) {
  if (witness != nullptr && witness->memory.covers(first, witness->memory.mapped ? bytes : 1))
    return witness->memory;
  if (bytes <= kSmall && device::plainly_host(first)) return {};
  return device::classify(first);
}

/// One run of bytes, wherever it begins in its elements, is as good as a contiguous type.
[[gnu::cold]] void join_run(Transfer& t, const Buffer& buffer) {
  const auto block = buffer.type->strided(buffer.count);
  if (!block || block->dimensions != 0) return;
  t.shift = block->displacement;
  t.address = t.data() + t.shift;
  t.contiguous = true;
}

/// Layout, size and memory kind. `witness`: an active request, where there is one. False: fault_of() says
/// what is wrong.
bool fill_in(Transfer& t, const Buffer& buffer, const Transfer* witness = nullptr) {
  t.address = buffer.address;
  t.count = buffer.count;
  t.contiguous = buffer.type->contiguous();
  const auto bytes = datatype::packed_size(*buffer.type, buffer.count);
  t.bytes = static_cast<uint64_t>(bytes.value_or(0));
  if (buffer.memory != nullptr)
    t.memory = *buffer.memory;
  else if (!device::available() || t.bytes == 0) [[likely]]
    t.memory = {};
  else
    t.memory = kind_of(t.data() + (t.contiguous ? 0 : buffer.type->true_lb()), t.bytes, witness);
  if (t.memory.on_device() && !t.contiguous && t.bytes != 0) [[unlikely]]
    join_run(t, buffer);
  if (t.memory.mapped && t.contiguous) [[unlikely]]
    t.memory = device::widened(t.memory, t.address, t.bytes);
  return bytes.has_value() && t.memory.fault == 0;
}

[[gnu::cold]] Error fault_of(const Transfer& t, const Buffer& buffer) {
  return t.memory.fault != 0 ? unclassified() : too_large(buffer);
}

Status describe(Transfer& t, const Buffer& buffer) {
  if (fill_in(t, buffer)) [[likely]]
    return {};
  return fault_of(t, buffer);
}

/// Of a persistent request: its starts need not look at the buffer any more. False: they do.
bool resolve(Transfer& t, const Buffer& buffer) {
  t.resolved.reset();
  if (!device::available() || t.rank == kProcNull || !setting_persistent.is("init")) return false;
  if (!fill_in(t, buffer) || t.bytes == 0) return false;
  if (t.memory.kind != device::MemoryKind::cuda_device && t.memory.kind != device::MemoryKind::cuda_managed)
    return false;  // what lies at a host address may change, and is asked quickly
  t.resolved = std::make_unique<Resolved>();
  return true;
}

/// A transfer that ends where it begins: of no process, or of a buffer that cannot be described.
[[gnu::cold]] void end_at_once(Transfer& t, const Buffer& buffer, bool good) {
  t.state = Transfer::State::done;
  if (t.rank == kProcNull) {
    t.completion.source = kProcNull;
    t.completion.tag = kAnyTag;
    return t.finish();
  }
  if (!good) t.finish(fault_of(t, buffer));
}

/// Fills in what both directions share. False: the transfer is complete already.
bool begin(Transfer& t, const Buffer& buffer, int rank, int tag, const Transfer* witness = nullptr) {
  t.rank = rank;
  t.tag = tag;
  t.moved = t.remote = 0;
  const bool good = fill_in(t, buffer, witness);
  if (good && rank != kProcNull) [[likely]]
    return true;
  end_at_once(t, buffer, good);
  return false;
}

}  // namespace

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

Slab<Sent>& Sent::slab() {
  static auto& slab = *new Slab<Sent>;
  return slab;
}

void Engine::prepare(Transfer& t, core::Communicator& comm, const datatype::Datatype& type, SendMode mode,
                     core::ContextId context) {
  t.hold(comm, type);
  t.mode = mode;
  t.context = context;
}

void Engine::start(Transfer& t, const Buffer& buffer, int rank, int tag) {
  Engine& engine = *t.comm->instance.engine;
  if (!begin(t, buffer, rank, tag, engine.witness_of(t))) return;
  if (t.memory.shareable()) [[unlikely]]
    engine.call_witness(t);
  go(t);
}

// The latest of those that are active stays longest.
void Engine::call_witness(Transfer& t) {
  Transfer*& witness = witness_of(t);
  if (witness != nullptr) witness->witness = false;
  witness = &t;
  t.witness = true;
}

void Engine::dismiss(Transfer& t) {
  witness_of(t) = nullptr;
  t.witness = false;
}

void Engine::start_resolved(Transfer& t) {
  t.moved = t.remote = 0;
  go(t);
}

void Engine::go(Transfer& t) {
  Engine& engine = *t.comm->instance.engine;
  if (t.kind == core::Request::Kind::receive) {
    t.key = key_of(t.rank, t.tag, t.context);
    return engine.receive(t);
  }
  t.peer = t.comm->process(t.rank);
  if (t.mode == SendMode::buffered)
    engine.buffered_send(t);
  else
    engine.send(t);
}

void post_send(Transfer& t, const Buffer& buffer, int dest, int tag, core::Communicator& comm, SendMode mode,
               core::Channel channel) {
  Engine::prepare(t, comm, *buffer.type, mode, comm.context(channel));
  Engine::start(t, buffer, dest, tag);
}

void post_send_in(core::ContextId context, Transfer& t, const Buffer& buffer, int dest, int tag,
                  core::Communicator& comm) {
  Engine::prepare(t, comm, *buffer.type, SendMode::standard, context);
  Engine::start(t, buffer, dest, tag);
}

void post_receive_in(core::ContextId context, Transfer& t, const Buffer& buffer, int source, int tag,
                     core::Communicator& comm) {
  Engine::prepare(t, comm, *buffer.type, SendMode::standard, context);
  Engine::start(t, buffer, source, tag);
}

bool send_now(const Buffer& buffer, int dest, int tag, core::Communicator& comm) {
  if (dest == kProcNull || !buffer.type->contiguous() || !device::plainly_host(buffer.address)) return false;
  return comm.instance.engine->send_now(buffer, comm.process(dest), tag, comm);
}

void post_receive(Transfer& t, const Buffer& buffer, int source, int tag, core::Communicator& comm,
                  core::Channel channel) {
  Engine::prepare(t, comm, *buffer.type, SendMode::standard, comm.context(channel));
  Engine::start(t, buffer, source, tag);
}

void prepare(Transfer& t, const Buffer& buffer, int rank, int tag, core::Communicator& comm, SendMode mode) {
  Engine::prepare(t, comm, *buffer.type, mode, comm.context(core::Channel::user));
  t.rank = rank;
  t.tag = tag;
  t.persistent = true;
  t.active = false;
  if (resolve(t, buffer)) return;
  t.address = buffer.address;
  t.count = buffer.count;
  t.shift = 0;
}

void post_matched_receive(Transfer& t, const Buffer& buffer, Message& message, core::Communicator& comm) {
  Engine::prepare(t, comm, *buffer.type, SendMode::standard, comm.context(core::Channel::user));
  if (!begin(t, buffer, message.completion.source, message.completion.tag)) {
    comm.instance.engine->discard(message);
    return;
  }
  comm.instance.engine->receive_message(t, message);
}

const Message* probe(int source, int tag, core::Communicator& comm) {
  return comm.instance.engine->find(key_of(source, tag, comm.context(core::Channel::user)));
}

Status check_source(int source, core::Communicator& comm) {
  return comm.instance.engine->check_source(source, comm);
}

Message* matched_probe(int source, int tag, core::Communicator& comm) {
  Message* message = comm.instance.engine->find(key_of(source, tag, comm.context(core::Channel::user)));
  if (message == nullptr) return nullptr;
  comm.instance.engine->take(*message);
  message->matched = true;
  message->comm = &comm;
  comm.retain();
  return message;
}

Together::Together(core::Instance& instance) : engine_(*instance.engine) { engine_.start_together(); }
Together::~Together() { engine_.end_together(); }

Status pack_aside(const Buffer& buffer, std::vector<std::byte>& packed) {
  Transfer t(core::Request::Kind::send);
  t.type = buffer.type;
  WEFT_TRY(describe(t, buffer));
  packed.resize(t.bytes);
  return Engine::pack_out(t, packed.data());
}

core::Completion describe(const Message& message) { return message.completion; }

HandleState check_message(const void* handle) {
  const HandleState state = Message::slab().check(handle);
  if (state != HandleState::live) return state;
  return static_cast<const Message*>(handle)->matched ? HandleState::live : HandleState::freed;
}

core::Communicator* communicator_of(const Message& message) { return message.comm; }

Status create(core::Instance& instance) {
  auto engine = Engine::create(instance);
  if (!engine) return std::move(engine).error();
  instance.engine = engine->release();
  instance.add(*instance.engine);
  return {};
}

Status connect(core::Instance& instance) { return instance.engine->connect(); }

bool connected(const core::Instance& instance) { return instance.engine->connected(); }

transport::cuda_ipc::Exporter& exporter(core::Instance& instance) { return instance.engine->exporter(); }
transport::cuda_ipc::Importer& importer(core::Instance& instance) { return instance.engine->importer(); }
void look_for_freed(core::Instance& instance) { instance.engine->look_for_freed(); }

void quiesce(core::Instance& instance) {
  instance.engine->drain();
  instance.engine->leave_network();
  instance.engine->close_device();
}

}  // namespace weft::p2p
