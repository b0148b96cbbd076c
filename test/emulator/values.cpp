// SPDX-License-Identifier: BSD-3-Clause
// Memory operations of streams: writes of a word, and waits for a value.
#include "world.hpp"

namespace emucuda {

#define EMUCUDA_STREAM(handle)    \
  const auto lock = lock_world(); \
  StreamObject* stream = nullptr; \
  if (const Code code = stream_of(handle, &stream); code != kSuccess) return code

extern "C" {

static Code write_value(Stream handle, Address address, uint64_t value, size_t width) {
  EMUCUDA_STREAM(handle);
  if (address % width != 0 || find_allocation(address) == nullptr) return kInvalidValue;
  Operation operation{Operation::Type::write};
  operation.dst = address;
  operation.value = value;
  operation.width = width;
  enqueue(*stream, std::move(operation));
  return kSuccess;
}

/// Waits are of the kind GEQ: until (int32_t)(word - value) >= 0.
static Code wait_value(StreamObject& stream, Address address, uint32_t value, unsigned flags) {
  constexpr unsigned kGeq = 0;
  if (address % sizeof value != 0 || flags != kGeq || find_allocation(address) == nullptr)
    return kInvalidValue;
  Operation operation{Operation::Type::wait_value};
  operation.dst = address;
  operation.value = value;
  operation.width = sizeof value;
  enqueue(stream, std::move(operation));
  return kSuccess;
}

Code cuStreamWaitValue32_v2(Stream handle, Address address, uint32_t value, unsigned flags) {
  EMUCUDA_STREAM(handle);
  return wait_value(*stream, address, value, flags);
}

Code cuStreamBatchMemOp_v2(Stream handle, unsigned count, BatchMemOp* operations, unsigned flags) {
  constexpr int kWait = 1, kWrite = 2;
  EMUCUDA_STREAM(handle);
  if (count == 0 || count > 256 || flags != 0) return kInvalidValue;
  for (unsigned i = 0; i < count; ++i) {
    const BatchMemOp& one = operations[i];
    const auto value = static_cast<uint32_t>(one.value);
    const Code code = one.operation == kWait    ? wait_value(*stream, one.address, value, one.flags)
                      : one.operation == kWrite ? write_value(handle, one.address, value, sizeof value)
                                                : kInvalidValue;
    if (code != kSuccess) return code;
  }
  return kSuccess;
}

Code cuStreamWriteValue32_v2(Stream handle, Address address, uint32_t value, unsigned) {
  return write_value(handle, address, value, sizeof value);
}

Code cuStreamWriteValue64_v2(Stream handle, Address address, uint64_t value, unsigned) {
  return write_value(handle, address, value, sizeof value);
}

}  // extern "C"
}  // namespace emucuda
