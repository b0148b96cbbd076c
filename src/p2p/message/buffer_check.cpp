// SPDX-License-Identifier: BSD-3-Clause
#include "p2p/message/buffer_check.hpp"

#include <algorithm>
#include <cstdio>

#include "base/config.hpp"
#include "base/counters.hpp"
#include "base/log.hpp"

namespace weft::p2p {
namespace {

config::Choice setting_races("check.gpu_races", 0, {"error", "report"},
                             "A buffer that WEFT_CHECK=gpu finds changed: error (of the call, to its error "
                             "handler), report (a line in "
                             "the log; the program continues, as under `weft check`).");
counters::Counter races("check.gpu_races", counters::Unit::events,
                        "Buffers that queued GPU work has changed while a call used them");
constexpr uint64_t kMaxReports = 100;  // of one process: a loop may repeat a mistake without end

using datatype::Datatype;

/// Displacements of the bytes of `count` > 0 elements from the buffer's address: [low, high).
struct Span {
  int64_t low, high;
};
Span span_of(const Datatype& type, int64_t count) {
  const int64_t last = (count - 1) * type.extent();
  return {std::min<int64_t>(0, last) + type.true_lb(), std::max<int64_t>(0, last) + type.true_ub()};
}

const char* at(const Buffer& buffer, int64_t displacement) {
  return reinterpret_cast<const char*>(reinterpret_cast<uintptr_t>(buffer.address) +
                                       static_cast<uintptr_t>(displacement));
}

std::string name_of(const Datatype& type) { return type.name().empty() ? "a derived datatype" : type.name(); }

}  // namespace

bool BufferCheck::start(const Buffer& buffer, const device::Memory& memory, uint64_t bytes) {
  if (!device_side(memory.kind) || buffer.count <= 0 || bytes == 0) return false;
  const Span span =
      buffer.type->contiguous() ? Span{0, static_cast<int64_t>(bytes)} : span_of(*buffer.type, buffer.count);
  const auto size = static_cast<size_t>(span.high - span.low);
  if (!memory.covers(at(buffer, span.low), size)) return false;
  buffer_ = buffer;
  memory_ = memory;
  low_ = span.low;
  bytes_ = bytes;
  return check_.start(memory, at(buffer, span.low), size);
}

bool BufferCheck::start(const Buffer& buffer) {
  if (!device::available() || buffer.count <= 0) return false;
  const auto bytes = datatype::packed_size(*buffer.type, buffer.count);
  if (!bytes || *bytes == 0) return false;
  const Span span = span_of(*buffer.type, buffer.count);
  device::Memory memory = device::classify(at(buffer, buffer.type->true_lb()));
  if (memory.mapped)
    memory = device::widened(memory, at(buffer, span.low), static_cast<size_t>(span.high - span.low));
  return start(buffer, memory, static_cast<uint64_t>(*bytes));
}

BufferCheck::Verdict BufferCheck::poll() {
  switch (check_.poll()) {
    case device::RaceCheck::State::waiting:
      return Verdict::pending;
    case device::RaceCheck::State::compared:
      return compare();
    default:
      return Verdict::unchanged;
  }
}

BufferCheck::Verdict BufferCheck::compare() {
  changed_ = 0;
  bool differs = false;
  datatype::for_each_run(*buffer_.type, buffer_.count, 0, static_cast<int64_t>(bytes_),
                         [&](int64_t displacement, int64_t length) {
                           const auto offset = static_cast<size_t>(displacement - low_);
                           const auto n = static_cast<size_t>(length);
                           const size_t first = check_.first_change(offset, n);
                           differs = first != offset + n;
                           changed_ += first - offset;
                           return !differs;
                         });
  return differs ? Verdict::changed : Verdict::unchanged;
}

Status BufferCheck::report(Side side, const std::string& call, const core::Communicator& comm,
                           const std::string& peer) const {
  char address[32];
  std::snprintf(address, sizeof address, "%p", buffer_.address);
  const bool input = side == Side::input;
  std::string text = "WEFT_CHECK: GPU work that was queued before " + call +
                     (input ? " still wrote the buffer that the call reads"
                            : " completed overwrote the buffer that it has received into");
  text += " (rank " + std::to_string(comm.rank()) + (comm.name.empty() ? "" : " of " + comm.name) + ", " +
          std::to_string(buffer_.count) + " elements of " + name_of(*buffer_.type) + " at " + address;
  if (memory_.device >= 0) text += " on GPU " + std::to_string(memory_.device);
  if (!peer.empty()) text += ", " + peer;
  text += "; byte " + std::to_string(changed_) + " of " + std::to_string(bytes_) + " changed): ";
  text += input
              ? "wait for the work before the call (cudaStreamSynchronize), or make the call in stream order"
              : "wait for work that uses the buffer before the receive is posted (cudaStreamSynchronize), or "
                "make the call in stream order";
  races.add();
  if (setting_races.is("error")) return Error(Errc::buffer, text);
  if (races.value() <= kMaxReports)
    log::write(log::Level::warn, "%s%s", text.c_str(),
               races.value() == kMaxReports ? " (later reports are not shown)" : "");
  return {};
}

}  // namespace weft::p2p
