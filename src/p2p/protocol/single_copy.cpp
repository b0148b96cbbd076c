// SPDX-License-Identifier: BSD-3-Clause
// Single copy: the kernel copies from the sender's host memory into the receive buffer (process_vm_readv).
#include <algorithm>
#include <vector>

#include "base/log.hpp"
#include "base/trace.hpp"
#include "p2p/engine.hpp"
#include "p2p/protocol/protocol.hpp"
#include "p2p/staging.hpp"

namespace weft::p2p {
namespace {

constexpr size_t kBounceBytes = 64 << 10;  // bytes read at a time for a noncontiguous buffer
constexpr size_t kLongRunBytes = 1 << 10;  // mean run length above which the kernel scatters directly
log::SlowPath single_copy_failed{"p2p.single_copy_failed",
                                 "this message goes through shared memory, about half the bandwidth"};

transport::Iov iov(const void* address, size_t length) {
  return {reinterpret_cast<uint64_t>(address), length};
}

bool applicable(const MessageInfo& message) {
  return !message.remote && !message.device && message.contiguous && !device_side(message.to) &&
         message.sender_readable();
}

unsigned cost(const MessageInfo&) { return 1; }

// Long runs are scattered by the kernel, short runs are unpacked from a buffer that fits the cache.
Status get_scattered(Engine& engine, Transfer& t, const ReadyToSend& rts) {
  size_t runs = 0;
  const auto sample = static_cast<datatype::Count>(std::min<uint64_t>(rts.bytes, kBounceBytes));
  datatype::for_each_run(*t.type, t.count, 0, sample, [&](datatype::Count, datatype::Count) { ++runs; });
  if (static_cast<size_t>(sample) / std::max<size_t>(runs, 1) >= kLongRunBytes) {
    std::vector<transport::Iov> local;
    datatype::for_each_run(*t.type, t.count, 0, static_cast<datatype::Count>(rts.bytes),
                           [&](datatype::Count at, datatype::Count length) {
                             local.push_back(iov(t.data() + at, static_cast<size_t>(length)));
                           });
    const auto remote = iov(reinterpret_cast<void*>(rts.address), rts.bytes);
    return engine.shm()->get(t.peer, local, {&remote, 1});
  }
  return get_part(engine, t, rts.address, 0, rts.bytes);
}

// One copy by the kernel from the sender's memory into the receive buffer.
bool init(Engine& engine, Transfer& t, const ReadyToSend& rts) {
  const trace::Range range("p2p.get_host");
  Status got = t.contiguous ? get_part(engine, t, rts.address, 0, rts.bytes) : get_scattered(engine, t, rts);
  if (!got) {
    if (engine.sender_ended(t, got.error())) return true;
    single_copy_failed.hit(got.error().message());
    return false;
  }
  engine.finish_sender(t.peer, rts.sender);
  Engine::complete(t);
  return true;
}

}  // namespace

constinit const Protocol kSingleCopy{
    .name = "single copy", .applicable = applicable, .cost = cost, .init = init};

Status get_part(Engine& engine, Transfer& t, uint64_t address, uint64_t offset, uint64_t n) {
  if (t.contiguous) {
    const auto local = iov(t.data() + offset, n), remote = iov(reinterpret_cast<void*>(address), n);
    return engine.shm()->get(t.peer, {&local, 1}, {&remote, 1});
  }
  std::vector<std::byte> buffer(std::min<uint64_t>(kBounceBytes, n));
  for (uint64_t at = 0; at < n; at += buffer.size()) {
    const size_t length = std::min<uint64_t>(buffer.size(), n - at);
    const auto local = iov(buffer.data(), length),
               remote = iov(reinterpret_cast<void*>(address + at), length);
    WEFT_TRY(engine.shm()->get(t.peer, {&local, 1}, {&remote, 1}));
    t.unpack(offset + at, buffer.data(), length);
  }
  return {};
}

}  // namespace weft::p2p
