// SPDX-License-Identifier: BSD-3-Clause
#include "cuda_driver.hpp"

#include <dlfcn.h>

#include <cstdlib>
#include <cstring>

#include "engine.hpp"

namespace jacobi::cuda {
namespace {

template <class Pointer>
bool find(void* library, const char* symbol, Pointer& pointer) {
  void* address = dlsym(library, symbol);
  static_assert(sizeof pointer == sizeof address);
  std::memcpy(&pointer, &address, sizeof pointer);
  return address != nullptr;
}

template <class Pointer>
void load(void* library, const char* symbol, Pointer& pointer) {
  if (!find(library, symbol, pointer))
    throw EngineError(std::string("the CUDA driver has no ") + symbol + ": it is too old");
}

// The suffixes select the current versions of the calls in the driver's binary interface.
void load_all(void* library, Driver& d) {
  load(library, "cuInit", d.Init);
  load(library, "cuGetErrorString", d.GetErrorString);
  load(library, "cuDeviceGetCount", d.DeviceGetCount);
  load(library, "cuDeviceGet", d.DeviceGet);
  load(library, "cuDeviceGetName", d.DeviceGetName);
  load(library, "cuDeviceGetUuid_v2", d.DeviceGetUuid);
  load(library, "cuDeviceGetAttribute", d.DeviceGetAttribute);
  load(library, "cuDevicePrimaryCtxRetain", d.DevicePrimaryCtxRetain);
  load(library, "cuDevicePrimaryCtxRelease_v2", d.DevicePrimaryCtxRelease);
  load(library, "cuCtxSetCurrent", d.CtxSetCurrent);
  load(library, "cuCtxGetStreamPriorityRange", d.CtxGetStreamPriorityRange);
  load(library, "cuModuleLoadData", d.ModuleLoadData);
  load(library, "cuModuleUnload", d.ModuleUnload);
  load(library, "cuModuleGetFunction", d.ModuleGetFunction);
  (void)find(library, "cuOccupancyMaxActiveBlocksPerMultiprocessor",
             d.OccupancyMaxActiveBlocksPerMultiprocessor);
  load(library, "cuLaunchKernel", d.LaunchKernel);
  load(library, "cuMemAlloc_v2", d.MemAlloc);
  load(library, "cuMemFree_v2", d.MemFree);
  load(library, "cuMemHostAlloc", d.MemHostAlloc);
  load(library, "cuMemFreeHost", d.MemFreeHost);
  load(library, "cuMemsetD8Async", d.MemsetD8Async);
  load(library, "cuMemcpyHtoDAsync_v2", d.MemcpyHtoDAsync);
  load(library, "cuMemcpyDtoHAsync_v2", d.MemcpyDtoHAsync);
  load(library, "cuMemcpyDtoDAsync_v2", d.MemcpyDtoDAsync);
  load(library, "cuStreamCreateWithPriority", d.StreamCreateWithPriority);
  load(library, "cuStreamDestroy_v2", d.StreamDestroy);
  load(library, "cuStreamSynchronize", d.StreamSynchronize);
  load(library, "cuStreamWaitEvent", d.StreamWaitEvent);
  load(library, "cuEventCreate", d.EventCreate);
  load(library, "cuEventDestroy_v2", d.EventDestroy);
  load(library, "cuEventRecord", d.EventRecord);
  load(library, "cuEventSynchronize", d.EventSynchronize);
  (void)find(library, "cuStreamBeginCapture_v2", d.StreamBeginCapture);
  (void)find(library, "cuStreamEndCapture", d.StreamEndCapture);
  (void)find(library, "cuGraphInstantiateWithFlags", d.GraphInstantiate);
  (void)find(library, "cuGraphLaunch", d.GraphLaunch);
  (void)find(library, "cuGraphDestroy", d.GraphDestroy);
  (void)find(library, "cuGraphExecDestroy", d.GraphExecDestroy);
}

Driver open() {
  const char* name = std::getenv("JACOBI_CUDA_DRIVER");  // for tests
  if (!name) name = "libcuda.so.1";
  void* library = dlopen(name, RTLD_NOW);
  if (!library) throw EngineError(std::string("no CUDA driver: ") + name + " cannot be opened");
  Driver functions{};
  load_all(library, functions);
  if (const Status status = functions.Init(0); status != 0) {
    const char* text = nullptr;
    functions.GetErrorString(status, &text);
    throw EngineError(std::string("the CUDA driver does not start: ") + (text ? text : "unknown error"));
  }
  return functions;
}

}  // namespace

const Driver& driver() {
  static const Driver functions = open();
  return functions;
}

void check(Status status, const char* call) {
  if (status == 0) return;
  const char* text = nullptr;
  driver().GetErrorString(status, &text);
  throw EngineError(std::string(call) + " failed (CUDA error " + std::to_string(status) + ": " +
                    (text ? text : "unknown") + ")");
}

}  // namespace jacobi::cuda
