// SPDX-License-Identifier: BSD-3-Clause
// The CUDA driver calls of the solver, opened at run time: neither build nor run need a toolkit. Types and
// constants are the used part of the driver's binary interface.
#pragma once
#include <cstddef>
#include <cstdint>
#include <string>

namespace jacobi::cuda {

using Status = int;  ///< 0 is success
using Device = int;
using Address = uint64_t;  ///< device memory
using Context = struct ContextTag*;
using Stream = struct StreamTag*;
using Event = struct EventTag*;
using Module = struct ModuleTag*;
using Function = struct FunctionTag*;
using Graph = struct GraphTag*;
using GraphExecutable = struct GraphExecutableTag*;

struct Uuid {
  char bytes[16];
};

enum : unsigned { host_portable = 1, host_mapped = 2, stream_non_blocking = 1, event_no_timing = 2 };
enum : int { attribute_multiprocessors = 16, capture_thread_local = 1 };

/// The functions, named as in the driver without the prefix "cu".
struct Driver {
  Status (*Init)(unsigned flags);
  Status (*GetErrorString)(Status status, const char** text);
  Status (*DeviceGetCount)(int* count);
  Status (*DeviceGet)(Device* device, int ordinal);
  Status (*DeviceGetName)(char* name, int length, Device device);
  Status (*DeviceGetUuid)(Uuid* uuid, Device device);
  Status (*DeviceGetAttribute)(int* value, int attribute, Device device);
  Status (*DevicePrimaryCtxRetain)(Context* context, Device device);
  Status (*DevicePrimaryCtxRelease)(Device device);
  Status (*CtxSetCurrent)(Context context);
  Status (*CtxGetStreamPriorityRange)(int* least, int* greatest);
  Status (*ModuleLoadData)(Module* module, const void* image);
  Status (*ModuleUnload)(Module module);
  Status (*ModuleGetFunction)(Function* function, Module module, const char* name);
  /// Null in simulations.
  Status (*OccupancyMaxActiveBlocksPerMultiprocessor)(int* blocks, Function function, int threads,
                                                      size_t shared);
  Status (*LaunchKernel)(Function function, unsigned grid_x, unsigned grid_y, unsigned grid_z,
                         unsigned block_x, unsigned block_y, unsigned block_z, unsigned shared, Stream stream,
                         void** parameters, void** extra);
  Status (*MemAlloc)(Address* address, size_t bytes);
  Status (*MemFree)(Address address);
  Status (*MemHostAlloc)(void** pointer, size_t bytes, unsigned flags);
  Status (*MemFreeHost)(void* pointer);
  Status (*MemsetD8Async)(Address address, unsigned char value, size_t bytes, Stream stream);
  Status (*MemcpyHtoDAsync)(Address to, const void* from, size_t bytes, Stream stream);
  Status (*MemcpyDtoHAsync)(void* to, Address from, size_t bytes, Stream stream);
  Status (*MemcpyDtoDAsync)(Address to, Address from, size_t bytes, Stream stream);
  Status (*StreamCreateWithPriority)(Stream* stream, unsigned flags, int priority);
  Status (*StreamDestroy)(Stream stream);
  Status (*StreamSynchronize)(Stream stream);
  Status (*StreamWaitEvent)(Stream stream, Event event, unsigned flags);
  Status (*EventCreate)(Event* event, unsigned flags);
  Status (*EventDestroy)(Event event);
  Status (*EventRecord)(Event event, Stream stream);
  Status (*EventSynchronize)(Event event);
  Status (*StreamBeginCapture)(Stream stream, int mode);
  Status (*StreamEndCapture)(Stream stream, Graph* graph);
  Status (*GraphInstantiate)(GraphExecutable* executable, Graph graph, unsigned long long flags);
  Status (*GraphLaunch)(GraphExecutable executable, Stream stream);
  Status (*GraphDestroy)(Graph graph);
  Status (*GraphExecDestroy)(GraphExecutable executable);
};

/// Opens libcuda.so.1 and calls cuInit; throws EngineError with the reason if that is impossible.
const Driver& driver();

/// Throws EngineError with the name `call` unless `status` is success.
void check(Status status, const char* call);

}  // namespace jacobi::cuda

/// Calls a function of the driver: WEFT_JACOBI_CUDA(MemFree, address).
#define WEFT_JACOBI_CUDA(FUNCTION, ...) \
  ::jacobi::cuda::check(::jacobi::cuda::driver().FUNCTION(__VA_ARGS__), "cu" #FUNCTION)
