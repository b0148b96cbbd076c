// SPDX-License-Identifier: BSD-3-Clause
// Copy and fill calls. Like the real driver: pageable sources are read during the call, pageable destinations
// block the call, and synchronous copies from pageable or device memory to device memory, and fills, return
// before they are done, unless one side has CU_POINTER_ATTRIBUTE_SYNC_MEMOPS.
#include <cstring>

#include "emucuda.h"
#include "world.hpp"

namespace emucuda {
namespace {

unsigned long compute_engine_copies = 0;  // by Weft

constexpr size_t kMaxCheckedBytes = size_t{64} << 10;  // of a copy whose source is compared when it runs

/// Whether the address is host memory unknown to the driver.
bool pageable(uintptr_t address) { return find_allocation(address) == nullptr && !in_device_region(address); }

Operation copy_operation(const Memcpy2D& copy) {
  Operation operation{Operation::Type::copy};
  const auto place = [](unsigned type, const void* host, Address device) {
    return type == kMemoryHost ? reinterpret_cast<uintptr_t>(host) : static_cast<uintptr_t>(device);
  };
  operation.dst_pitch = copy.dst_pitch != 0 ? copy.dst_pitch : copy.width;
  operation.src_pitch = copy.src_pitch != 0 ? copy.src_pitch : copy.width;
  operation.dst =
      place(copy.dst_type, copy.dst_host, copy.dst_device) + copy.dst_y * operation.dst_pitch + copy.dst_x;
  operation.src =
      place(copy.src_type, copy.src_host, copy.src_device) + copy.src_y * operation.src_pitch + copy.src_x;
  operation.width = copy.width;
  operation.height = copy.height;
  return operation;
}

Memcpy2D flat(Address dst, Address src, size_t n) {
  Memcpy2D copy{};
  copy.dst_type = copy.src_type = kMemoryUnified;
  copy.dst_device = dst;
  copy.src_device = src;
  copy.width = copy.dst_pitch = copy.src_pitch = n;
  copy.height = 1;
  return copy;
}

/// Whether the driver leaves the copy to the compute engine of a GPU (measured on an H200, driver 580).
bool by_compute_engine(const Operation& copy) {
  constexpr size_t kEngineMinBytes = size_t{32} << 10;
  const Allocation *const to = find_allocation(copy.dst), *const from = find_allocation(copy.src);
  const auto on_device = [](const Allocation* memory, uintptr_t address) {
    return memory != nullptr && in_device_region(address);
  };
  if (!on_device(to, copy.dst)) return false;
  if (on_device(from, copy.src)) return from->device == to->device;
  return copy.height == 1 && copy.width < kEngineMinBytes;
}

enum class Call { async, sync };

bool is_pinned(uintptr_t address) {
  const Allocation* const allocation = find_allocation(address);
  return allocation != nullptr && (allocation->kind == Kind::pinned || allocation->kind == Kind::registered);
}

/// Whether synchronous copies wait until they are done; those of pool memory do not (H200, driver 580.159).
bool has_sync_memops(uintptr_t address) {
  const Allocation* const allocation = find_allocation(address);
  return allocation != nullptr && allocation->sync_memops && allocation->kind != Kind::pool;
}

Code start(StreamObject& stream, const Memcpy2D& description, Call call) {
  if (description.width == 0 || description.height == 0) return kSuccess;
  Operation operation = copy_operation(description);
  if (operation.dst_pitch > 2147483647 && description.height > 1) return kInvalidValue;
  if (operation.dst_pitch < operation.width || operation.src_pitch < operation.width) return kInvalidValue;
  const size_t dst_span = (operation.height - 1) * operation.dst_pitch + operation.width;
  const size_t src_span = (operation.height - 1) * operation.src_pitch + operation.width;
  if (translate(operation.dst, dst_span) == nullptr || translate(operation.src, src_span) == nullptr)
    return kInvalidValue;
  if (called_by_weft() && by_compute_engine(operation)) ++compute_engine_copies;
  const bool to_pageable = pageable(operation.dst), from_pageable = pageable(operation.src);
  if (stream.capture != nullptr && (to_pageable || from_pageable)) return kCaptureUnsupported;
  const Allocation* const source = find_allocation(operation.src);
  if (from_pageable)
    operation.source = Operation::Source::snapshot;
  else if (strict() && called_by_weft() && source != nullptr && source->kind == Kind::pinned &&
           operation.height == 1 && operation.width <= kMaxCheckedBytes)
    operation.source = Operation::Source::unchanged;
  if (operation.source != Operation::Source::memory) {
    const auto* bytes = reinterpret_cast<const char*>(operation.src);
    operation.snapshot.assign(bytes, bytes + src_span);
  }
  const bool complete = to_pageable || is_pinned(operation.dst) || is_pinned(operation.src) ||
                        has_sync_memops(operation.dst) || has_sync_memops(operation.src);
  enqueue(stream, std::move(operation));
  if (to_pageable || (call == Call::sync && complete))
    drain(stream);
  else if (call == Call::sync && from_pageable)
    drain(stream, nullptr, 1);
  return stream.context->sticky;
}

Code start_in(Stream handle, const Memcpy2D& description, Call call) {
  const auto lock = lock_world();
  StreamObject* stream = nullptr;
  if (const Code code = stream_of(handle, &stream); code != kSuccess) return code;
  return start(*stream, description, call);
}

Code fill(Stream handle, Address address, unsigned char value, size_t n, Call call) {
  const auto lock = lock_world();
  StreamObject* stream = nullptr;
  if (const Code code = stream_of(handle, &stream); code != kSuccess) return code;
  if (n == 0) return kSuccess;
  if (find_allocation(address) == nullptr || translate(address, n) == nullptr) return kInvalidValue;
  Operation operation{Operation::Type::fill};
  operation.dst = address;
  operation.value = value;
  operation.width = n;
  enqueue(*stream, std::move(operation));
  if (call == Call::sync && has_sync_memops(address)) drain(*stream);
  return kSuccess;
}

/// Checks the attributes of a batch; attribute i applies from copy from[i] to from[i + 1].
Code check_attributes(size_t count, const CopyAttributes* attributes, const size_t* from, size_t n) {
  if (count == 0 || n == 0 || n > count || from[0] != 0) return kInvalidValue;
  for (size_t i = 0; i < n; ++i)
    if (attributes[i].access_order < 1 || attributes[i].access_order > 3 || from[i] >= count ||
        (i != 0 && from[i] <= from[i - 1]))
      return kInvalidValue;
  return kSuccess;
}

/// Starts a batch in reverse order, since its copies are unordered.
Code start_batch(const Address* dsts, const Address* srcs, const size_t* sizes, size_t count, Stream handle,
                 size_t* failed) {
  const auto lock = lock_world();
  StreamObject* stream = nullptr;
  if (const Code code = stream_of(handle, &stream); code != kSuccess) return code;
  if (stream == stream->context->legacy) return kInvalidHandle;
  for (size_t i = 0; i < count; ++i) {
    if (translate(dsts[i], sizes[i]) != nullptr && translate(srcs[i], sizes[i]) != nullptr) continue;
    if (failed != nullptr) *failed = i;
    return kInvalidValue;
  }
  for (size_t i = count; i-- != 0;)
    if (const Code code = start(*stream, flat(dsts[i], srcs[i], sizes[i]), Call::async); code != kSuccess)
      return code;
  return kSuccess;
}

Address address_of(const void* p) { return reinterpret_cast<Address>(p); }

}  // namespace

extern "C" {

Code cuMemcpy(Address dst, Address src, size_t n) { return start_in(nullptr, flat(dst, src, n), Call::sync); }
Code cuMemcpyHtoD_v2(Address dst, const void* src, size_t n) {
  return start_in(nullptr, flat(dst, address_of(src), n), Call::sync);
}
Code cuMemcpyDtoH_v2(void* dst, Address src, size_t n) {
  return start_in(nullptr, flat(address_of(dst), src, n), Call::sync);
}
Code cuMemcpyDtoD_v2(Address dst, Address src, size_t n) {
  return start_in(nullptr, flat(dst, src, n), Call::sync);
}

Code cuMemcpyAsync(Address dst, Address src, size_t n, Stream stream) {
  return start_in(stream, flat(dst, src, n), Call::async);
}
Code cuMemcpyHtoDAsync_v2(Address dst, const void* src, size_t n, Stream stream) {
  return start_in(stream, flat(dst, address_of(src), n), Call::async);
}
Code cuMemcpyDtoHAsync_v2(void* dst, Address src, size_t n, Stream stream) {
  return start_in(stream, flat(address_of(dst), src, n), Call::async);
}
Code cuMemcpyDtoDAsync_v2(Address dst, Address src, size_t n, Stream stream) {
  return start_in(stream, flat(dst, src, n), Call::async);
}

Code cuMemcpy2D_v2(const Memcpy2D* copy) { return start_in(nullptr, *copy, Call::sync); }
Code cuMemcpy2DAsync_v2(const Memcpy2D* copy, Stream stream) { return start_in(stream, *copy, Call::async); }

Code cuMemcpyBatchAsync(Address* dsts, Address* srcs, size_t* sizes, size_t count, CopyAttributes* attributes,
                        size_t* from, size_t attribute_count, size_t* failed, Stream stream) {
  if (failed != nullptr) *failed = SIZE_MAX;
  if (const Code code = check_attributes(count, attributes, from, attribute_count); code != kSuccess)
    return code;
  return start_batch(dsts, srcs, sizes, count, stream, failed);
}
Code cuMemcpyBatchAsync_v2(Address* dsts, Address* srcs, size_t* sizes, size_t count,
                           CopyAttributes* attributes, size_t* from, size_t attribute_count, Stream stream) {
  return cuMemcpyBatchAsync(dsts, srcs, sizes, count, attributes, from, attribute_count, nullptr, stream);
}

Code cuMemsetD8_v2(Address address, unsigned char value, size_t n) {
  return fill(nullptr, address, value, n, Call::sync);
}
Code cuMemsetD8Async(Address address, unsigned char value, size_t n, Stream stream) {
  return fill(stream, address, value, n, Call::async);
}

__attribute__((visibility("default"))) unsigned long emucuda_compute_engine_copies(void) {
  const auto lock = lock_world();
  return compute_engine_copies;
}

}  // extern "C"
}  // namespace emucuda
