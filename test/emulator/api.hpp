// SPDX-License-Identifier: BSD-3-Clause
// All driver functions of the emulator: exported name, name for cuGetProcAddress, parameter types. Programs
// under test find these functions with dlsym; Weft gets instrumented versions from cuGetProcAddress.
#pragma once
#include "device/cuda/driver_types.hpp"

namespace emucuda {
using namespace weft::device::cuda;  // handle and value types only

struct CopyAttributes {  ///< CUmemcpyAttributes
  int access_order;      // 1 in stream order, 2 during the call, 3 any
  struct Location {
    int type, id;
  } source, destination;
  unsigned flags;
};

}  // namespace emucuda

#define EMUCUDA_FUNCTIONS(F)                                                                              \
  F(cuInit, cuInit, (unsigned))                                                                           \
  F(cuDriverGetVersion, cuDriverGetVersion, (int*))                                                       \
  F(cuGetErrorName, cuGetErrorName, (Code, const char**))                                                 \
  F(cuGetErrorString, cuGetErrorString, (Code, const char**))                                             \
  F(cuDeviceGetCount, cuDeviceGetCount, (int*))                                                           \
  F(cuDeviceGet, cuDeviceGet, (Ordinal*, int))                                                            \
  F(cuDeviceGetName, cuDeviceGetName, (char*, int, Ordinal))                                              \
  F(cuDeviceGetUuid, cuDeviceGetUuid_v1, (UuidBytes*, Ordinal))                                           \
  F(cuDeviceGetUuid_v2, cuDeviceGetUuid, (UuidBytes*, Ordinal))                                           \
  F(cuDeviceGetPCIBusId, cuDeviceGetPCIBusId, (char*, int, Ordinal))                                      \
  F(cuDeviceGetAttribute, cuDeviceGetAttribute, (int*, int, Ordinal))                                     \
  F(cuDeviceTotalMem_v2, cuDeviceTotalMem, (size_t*, Ordinal))                                            \
  F(cuDeviceCanAccessPeer, cuDeviceCanAccessPeer, (int*, Ordinal, Ordinal))                               \
  F(cuDeviceGetP2PAttribute, cuDeviceGetP2PAttribute, (int*, int, Ordinal, Ordinal))                      \
  F(cuDevicePrimaryCtxRetain, cuDevicePrimaryCtxRetain, (Context*, Ordinal))                              \
  F(cuDevicePrimaryCtxRelease_v2, cuDevicePrimaryCtxRelease, (Ordinal))                                   \
  F(cuDevicePrimaryCtxReset_v2, cuDevicePrimaryCtxReset, (Ordinal))                                       \
  F(cuDevicePrimaryCtxGetState, cuDevicePrimaryCtxGetState, (Ordinal, unsigned*, int*))                   \
  F(cuCtxCreate_v2, cuCtxCreate, (Context*, unsigned, Ordinal))                                           \
  F(cuCtxDestroy_v2, cuCtxDestroy, (Context))                                                             \
  F(cuCtxPushCurrent_v2, cuCtxPushCurrent, (Context))                                                     \
  F(cuCtxPopCurrent_v2, cuCtxPopCurrent, (Context*))                                                      \
  F(cuCtxGetCurrent, cuCtxGetCurrent, (Context*))                                                         \
  F(cuCtxSetCurrent, cuCtxSetCurrent, (Context))                                                          \
  F(cuCtxGetDevice, cuCtxGetDevice, (Ordinal*))                                                           \
  F(cuCtxGetId, cuCtxGetId, (Context, unsigned long long*))                                               \
  F(cuCtxSynchronize, cuCtxSynchronize, ())                                                               \
  F(cuCtxRecordEvent, cuCtxRecordEvent, (Context, Event))                                                 \
  F(cuCtxGetStreamPriorityRange, cuCtxGetStreamPriorityRange, (int*, int*))                               \
  F(cuCtxEnablePeerAccess, cuCtxEnablePeerAccess, (Context, unsigned))                                    \
  F(cuMemGetInfo_v2, cuMemGetInfo, (size_t*, size_t*))                                                    \
  F(cuMemAlloc_v2, cuMemAlloc, (Address*, size_t))                                                        \
  F(cuMemFree_v2, cuMemFree, (Address))                                                                   \
  F(cuMemAllocManaged, cuMemAllocManaged, (Address*, size_t, unsigned))                                   \
  F(cuMemAllocAsync, cuMemAllocAsync, (Address*, size_t, Stream))                                         \
  F(cuMemFreeAsync, cuMemFreeAsync, (Address, Stream))                                                    \
  F(cuMemHostAlloc, cuMemHostAlloc, (void**, size_t, unsigned))                                           \
  F(cuMemAllocHost_v2, cuMemAllocHost, (void**, size_t))                                                  \
  F(cuMemFreeHost, cuMemFreeHost, (void*))                                                                \
  F(cuMemHostRegister_v2, cuMemHostRegister, (void*, size_t, unsigned))                                   \
  F(cuMemHostUnregister, cuMemHostUnregister, (void*))                                                    \
  F(cuMemHostGetDevicePointer_v2, cuMemHostGetDevicePointer, (Address*, void*, unsigned))                 \
  F(cuMemGetAddressRange_v2, cuMemGetAddressRange, (Address*, size_t*, Address))                          \
  F(cuPointerGetAttribute, cuPointerGetAttribute, (void*, int, Address))                                  \
  F(cuPointerGetAttributes, cuPointerGetAttributes, (unsigned, int*, void**, Address))                    \
  F(cuPointerSetAttribute, cuPointerSetAttribute, (const void*, int, Address))                            \
  F(cuIpcGetMemHandle, cuIpcGetMemHandle, (IpcMemHandle*, Address))                                       \
  F(cuIpcOpenMemHandle_v2, cuIpcOpenMemHandle, (Address*, IpcMemHandle, unsigned))                        \
  F(cuIpcCloseMemHandle, cuIpcCloseMemHandle, (Address))                                                  \
  F(cuStreamCreate, cuStreamCreate, (Stream*, unsigned))                                                  \
  F(cuStreamCreateWithPriority, cuStreamCreateWithPriority, (Stream*, unsigned, int))                     \
  F(cuStreamDestroy_v2, cuStreamDestroy, (Stream))                                                        \
  F(cuStreamQuery, cuStreamQuery, (Stream))                                                               \
  F(cuStreamSynchronize, cuStreamSynchronize, (Stream))                                                   \
  F(cuStreamGetCtx, cuStreamGetCtx, (Stream, Context*))                                                   \
  F(cuStreamGetCaptureInfo_v2, cuStreamGetCaptureInfo,                                                    \
    (Stream, int*, uint64_t*, Graph*, const GraphNode**, size_t*))                                        \
  F(cuUserObjectCreate, cuUserObjectCreate, (UserObject*, void*, void (*)(void*), unsigned, unsigned))    \
  F(cuUserObjectRelease, cuUserObjectRelease, (UserObject, unsigned))                                     \
  F(cuGraphRetainUserObject, cuGraphRetainUserObject, (Graph, UserObject, unsigned, unsigned))            \
  F(cuStreamWaitValue32_v2, cuStreamWaitValue32, (Stream, Address, uint32_t, unsigned))                   \
  F(cuStreamBatchMemOp_v2, cuStreamBatchMemOp, (Stream, unsigned, BatchMemOp*, unsigned))                 \
  F(cuStreamIsCapturing, cuStreamIsCapturing, (Stream, int*))                                             \
  F(cuStreamBeginCapture_v2, cuStreamBeginCapture, (Stream, int))                                         \
  F(cuStreamEndCapture, cuStreamEndCapture, (Stream, Graph*))                                             \
  F(cuStreamGetPriority, cuStreamGetPriority, (Stream, int*))                                             \
  F(cuGraphCreate, cuGraphCreate, (Graph*, unsigned))                                                     \
  F(cuGraphAddKernelNode_v2, cuGraphAddKernelNode,                                                        \
    (GraphNode*, Graph, const GraphNode*, size_t, const KernelNode*))                                     \
  F(cuGraphKernelNodeSetAttribute, cuGraphKernelNodeSetAttribute, (GraphNode, int, const NodeAttribute*)) \
  F(cuGraphUpload, cuGraphUpload, (GraphExec, Stream))                                                    \
  F(cuGraphExecKernelNodeSetParams_v2, cuGraphExecKernelNodeSetParams,                                    \
    (GraphExec, GraphNode, const KernelNode*))                                                            \
  F(cuGraphInstantiateWithFlags, cuGraphInstantiateWithFlags, (GraphExec*, Graph, unsigned long long))    \
  F(cuGraphLaunch, cuGraphLaunch, (GraphExec, Stream))                                                    \
  F(cuGraphDestroy, cuGraphDestroy, (Graph))                                                              \
  F(cuGraphExecDestroy, cuGraphExecDestroy, (GraphExec))                                                  \
  F(cuStreamWaitEvent, cuStreamWaitEvent, (Stream, Event, unsigned))                                      \
  F(cuStreamWriteValue32_v2, cuStreamWriteValue32, (Stream, Address, uint32_t, unsigned))                 \
  F(cuStreamWriteValue64_v2, cuStreamWriteValue64, (Stream, Address, uint64_t, unsigned))                 \
  F(cuEventCreate, cuEventCreate, (Event*, unsigned))                                                     \
  F(cuEventDestroy_v2, cuEventDestroy, (Event))                                                           \
  F(cuEventRecord, cuEventRecord, (Event, Stream))                                                        \
  F(cuEventQuery, cuEventQuery, (Event))                                                                  \
  F(cuEventSynchronize, cuEventSynchronize, (Event))                                                      \
  F(cuMemcpy, cuMemcpy, (Address, Address, size_t))                                                       \
  F(cuMemcpyHtoD_v2, cuMemcpyHtoD, (Address, const void*, size_t))                                        \
  F(cuMemcpyDtoH_v2, cuMemcpyDtoH, (void*, Address, size_t))                                              \
  F(cuMemcpyDtoD_v2, cuMemcpyDtoD, (Address, Address, size_t))                                            \
  F(cuMemcpyAsync, cuMemcpyAsync, (Address, Address, size_t, Stream))                                     \
  F(cuMemcpyHtoDAsync_v2, cuMemcpyHtoDAsync, (Address, const void*, size_t, Stream))                      \
  F(cuMemcpyDtoHAsync_v2, cuMemcpyDtoHAsync, (void*, Address, size_t, Stream))                            \
  F(cuMemcpyDtoDAsync_v2, cuMemcpyDtoDAsync, (Address, Address, size_t, Stream))                          \
  F(cuMemcpy2D_v2, cuMemcpy2D, (const Memcpy2D*))                                                         \
  F(cuMemcpy2DAsync_v2, cuMemcpy2DAsync, (const Memcpy2D*, Stream))                                       \
  F(cuMemsetD8_v2, cuMemsetD8, (Address, unsigned char, size_t))                                          \
  F(cuMemsetD8Async, cuMemsetD8Async, (Address, unsigned char, size_t, Stream))                           \
  F(cuMemcpyBatchAsync, cuMemcpyBatchAsync,                                                               \
    (Address*, Address*, size_t*, size_t, CopyAttributes*, size_t*, size_t, size_t*, Stream))             \
  F(cuMemcpyBatchAsync_v2, cuMemcpyBatchAsync,                                                            \
    (Address*, Address*, size_t*, size_t, CopyAttributes*, size_t*, size_t, Stream))                      \
  F(emucudaKernelImage, emucudaKernelImage, (const void**))                                               \
  F(cuModuleLoadData, cuModuleLoadData, (Module*, const void*))                                           \
  F(cuFuncLoad, cuFuncLoad, (Function))                                                                   \
  F(cuModuleUnload, cuModuleUnload, (Module))                                                             \
  F(cuModuleGetFunction, cuModuleGetFunction, (Function*, Module, const char*))                           \
  F(cuLaunchKernel, cuLaunchKernel,                                                                       \
    (Function, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, Stream, void**,      \
     void**))                                                                                             \
  F(cuMemAddressReserve, cuMemAddressReserve, (Address*, size_t, size_t, Address, unsigned long long))    \
  F(cuMemAddressFree, cuMemAddressFree, (Address, size_t))                                                \
  F(cuMemCreate, cuMemCreate, (MemoryHandle*, size_t, const MemoryProperties*, unsigned long long))       \
  F(cuMemRelease, cuMemRelease, (MemoryHandle))                                                           \
  F(cuMemMap, cuMemMap, (Address, size_t, size_t, MemoryHandle, unsigned long long))                      \
  F(cuMemUnmap, cuMemUnmap, (Address, size_t))                                                            \
  F(cuMemSetAccess, cuMemSetAccess, (Address, size_t, const MemoryAccess*, size_t))                       \
  F(cuMemRetainAllocationHandle, cuMemRetainAllocationHandle, (MemoryHandle*, void*))                     \
  F(cuMemGetAllocationPropertiesFromHandle, cuMemGetAllocationPropertiesFromHandle,                       \
    (MemoryProperties*, MemoryHandle))                                                                    \
  F(cuMemExportToShareableHandle, cuMemExportToShareableHandle,                                           \
    (void*, MemoryHandle, int, unsigned long long))                                                       \
  F(cuMemImportFromShareableHandle, cuMemImportFromShareableHandle, (MemoryHandle*, void*, int))          \
  F(cuFlushGPUDirectRDMAWrites, cuFlushGPUDirectRDMAWrites, (int, int))                                   \
  F(cuThreadExchangeStreamCaptureMode, cuThreadExchangeStreamCaptureMode, (int*))

#define EMUCUDA_DECLARE(name, symbol, parameters) \
  extern "C" __attribute__((visibility("default"))) emucuda::Code name parameters;
namespace emucuda {
EMUCUDA_FUNCTIONS(EMUCUDA_DECLARE)
}
#undef EMUCUDA_DECLARE
