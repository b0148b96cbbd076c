// SPDX-License-Identifier: BSD-3-Clause
// The CUDA driver, opened at run time: a table of functions, resolved with cuGetProcAddress.
// Only this folder calls the driver.
#pragma once
#include <string>
#include <string_view>

#include "base/result.hpp"
#include "device/cuda/driver_types.hpp"

namespace weft::device::cuda {

/// Every driver function Weft calls: member name, driver name, parameter types. All return CUresult.
#define WEFT_CUDA_FUNCTIONS(F)                                                                       \
  F(init, cuInit, (unsigned))                                                                        \
  F(driver_get_version, cuDriverGetVersion, (int*))                                                  \
  F(get_error_name, cuGetErrorName, (Code, const char**))                                            \
  F(get_error_string, cuGetErrorString, (Code, const char**))                                        \
  F(device_get_count, cuDeviceGetCount, (int*))                                                      \
  F(device_get, cuDeviceGet, (Ordinal*, int))                                                        \
  F(device_get_name, cuDeviceGetName, (char*, int, Ordinal))                                         \
  F(device_get_uuid, cuDeviceGetUuid, (UuidBytes*, Ordinal))                                         \
  F(device_get_attribute, cuDeviceGetAttribute, (int*, int, Ordinal))                                \
  F(device_total_mem, cuDeviceTotalMem, (size_t*, Ordinal))                                          \
  F(device_can_access_peer, cuDeviceCanAccessPeer, (int*, Ordinal, Ordinal))                         \
  F(device_get_p2p_attribute, cuDeviceGetP2PAttribute, (int*, int, Ordinal, Ordinal))                \
  F(primary_ctx_retain, cuDevicePrimaryCtxRetain, (Context*, Ordinal))                               \
  F(primary_ctx_release, cuDevicePrimaryCtxRelease, (Ordinal))                                       \
  F(primary_ctx_get_state, cuDevicePrimaryCtxGetState, (Ordinal, unsigned*, int*))                   \
  F(ctx_get_device, cuCtxGetDevice, (Ordinal*))                                                      \
  F(ctx_get_current, cuCtxGetCurrent, (Context*))                                                    \
  F(ctx_push_current, cuCtxPushCurrent, (Context))                                                   \
  F(ctx_pop_current, cuCtxPopCurrent, (Context*))                                                    \
  F(mem_alloc, cuMemAlloc, (Address*, size_t))                                                       \
  F(mem_alloc_managed, cuMemAllocManaged, (Address*, size_t, unsigned))                              \
  F(mem_free, cuMemFree, (Address))                                                                  \
  F(mem_host_alloc, cuMemHostAlloc, (void**, size_t, unsigned))                                      \
  F(mem_free_host, cuMemFreeHost, (void*))                                                           \
  F(mem_host_register, cuMemHostRegister, (void*, size_t, unsigned))                                 \
  F(mem_host_unregister, cuMemHostUnregister, (void*))                                               \
  F(mem_host_get_device_pointer, cuMemHostGetDevicePointer, (Address*, void*, unsigned))             \
  F(pointer_get_attribute, cuPointerGetAttribute, (void*, int, Address))                             \
  F(pointer_get_attributes, cuPointerGetAttributes, (unsigned, int*, void**, Address))               \
  F(pointer_set_attribute, cuPointerSetAttribute, (const void*, int, Address))                       \
  F(ipc_get_mem_handle, cuIpcGetMemHandle, (IpcMemHandle*, Address))                                 \
  F(ipc_open_mem_handle, cuIpcOpenMemHandle, (Address*, IpcMemHandle, unsigned))                     \
  F(ipc_close_mem_handle, cuIpcCloseMemHandle, (Address))                                            \
  F(stream_create, cuStreamCreate, (Stream*, unsigned))                                              \
  F(stream_create_with_priority, cuStreamCreateWithPriority, (Stream*, unsigned, int))               \
  F(stream_destroy, cuStreamDestroy, (Stream))                                                       \
  F(stream_query, cuStreamQuery, (Stream))                                                           \
  F(stream_get_ctx, cuStreamGetCtx, (Stream, Context*))                                              \
  F(stream_is_capturing, cuStreamIsCapturing, (Stream, int*))                                        \
  F(stream_wait_event, cuStreamWaitEvent, (Stream, Event, unsigned))                                 \
  F(stream_write_value32, cuStreamWriteValue32, (Stream, Address, uint32_t, unsigned))               \
  F(stream_write_value64, cuStreamWriteValue64, (Stream, Address, uint64_t, unsigned))               \
  F(event_create, cuEventCreate, (Event*, unsigned))                                                 \
  F(event_destroy, cuEventDestroy, (Event))                                                          \
  F(event_record, cuEventRecord, (Event, Stream))                                                    \
  F(event_query, cuEventQuery, (Event))                                                              \
  F(memcpy_async, cuMemcpyAsync, (Address, Address, size_t, Stream))                                 \
  F(memcpy_2d_async, cuMemcpy2DAsync, (const Memcpy2D*, Stream))                                     \
  F(module_load_data, cuModuleLoadData, (Module*, const void*))                                      \
  F(module_unload, cuModuleUnload, (Module))                                                         \
  F(module_get_function, cuModuleGetFunction, (Function*, Module, const char*))                      \
  F(launch_kernel, cuLaunchKernel,                                                                   \
    (Function, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, Stream, void**, \
     void**))                                                                                        \
  F(thread_exchange_stream_capture_mode, cuThreadExchangeStreamCaptureMode, (int*))

/// Functions with the CUDA version that introduced their signature; null with older drivers. The last one
/// exists only in the emulated driver, which contains Weft's kernels and returns their module image.
#define WEFT_CUDA_OPTIONAL_FUNCTIONS(F)                                                                     \
  F(ctx_get_id, cuCtxGetId, 12000, (Context, unsigned long long*))                                          \
  F(func_load, cuFuncLoad, 12040, (Function))                                                               \
  F(ctx_record_event, cuCtxRecordEvent, 12050, (Context, Event))                                            \
  F(memcpy_batch_async, cuMemcpyBatchAsync, 12080,                                                          \
    (Address*, Address*, size_t*, size_t, BatchAttributes*, size_t*, size_t, size_t*, Stream))              \
  F(graph_create, cuGraphCreate, 12000, (Graph*, unsigned))                                                 \
  F(graph_add_kernel_node, cuGraphAddKernelNode, 12000,                                                     \
    (GraphNode*, Graph, const GraphNode*, size_t, const KernelNode*))                                       \
  F(graph_set_attribute, cuGraphKernelNodeSetAttribute, 12000, (GraphNode, int, const NodeAttribute*))      \
  F(graph_instantiate, cuGraphInstantiateWithFlags, 12000, (GraphExec*, Graph, unsigned long long))         \
  F(graph_upload, cuGraphUpload, 12000, (GraphExec, Stream))                                                \
  F(graph_set_parameters, cuGraphExecKernelNodeSetParams, 12000, (GraphExec, GraphNode, const KernelNode*)) \
  F(graph_launch, cuGraphLaunch, 12000, (GraphExec, Stream))                                                \
  F(graph_exec_destroy, cuGraphExecDestroy, 12000, (GraphExec))                                             \
  F(graph_destroy, cuGraphDestroy, 12000, (Graph))                                                          \
  F(stream_get_priority, cuStreamGetPriority, 12000, (Stream, int*))                                        \
  F(stream_batch_mem_op, cuStreamBatchMemOp, 11070, (Stream, unsigned, BatchMemOp*, unsigned))              \
  F(stream_get_capture, cuStreamGetCaptureInfo, 11030,                                                      \
    (Stream, int*, uint64_t*, Graph*, const GraphNode**, size_t*))                                          \
  F(user_object_create, cuUserObjectCreate, 11030,                                                          \
    (UserObject*, void*, void (*)(void*), unsigned, unsigned))                                              \
  F(user_object_release, cuUserObjectRelease, 11030, (UserObject, unsigned))                                \
  F(graph_retain_user_object, cuGraphRetainUserObject, 11030, (Graph, UserObject, unsigned, unsigned))      \
  F(flush_remote_writes, cuFlushGPUDirectRDMAWrites, 11030, (int, int))                                     \
  F(mem_address_reserve, cuMemAddressReserve, 11030,                                                        \
    (Address*, size_t, size_t, Address, unsigned long long))                                                \
  F(mem_address_free, cuMemAddressFree, 11030, (Address, size_t))                                           \
  F(mem_map, cuMemMap, 11030, (Address, size_t, size_t, MemoryHandle, unsigned long long))                  \
  F(mem_unmap, cuMemUnmap, 11030, (Address, size_t))                                                        \
  F(mem_release, cuMemRelease, 11030, (MemoryHandle))                                                       \
  F(mem_set_access, cuMemSetAccess, 11030, (Address, size_t, const MemoryAccess*, size_t))                  \
  F(mem_retain_handle, cuMemRetainAllocationHandle, 11030, (MemoryHandle*, void*))                          \
  F(mem_get_properties, cuMemGetAllocationPropertiesFromHandle, 11030, (MemoryProperties*, MemoryHandle))   \
  F(mem_export, cuMemExportToShareableHandle, 11030, (void*, MemoryHandle, int, unsigned long long))        \
  F(mem_import, cuMemImportFromShareableHandle, 11030, (MemoryHandle*, void*, int))                         \
  F(kernel_image, emucudaKernelImage, 11030, (const void**))

struct Driver {
#define WEFT_CUDA_MEMBER(member, symbol, parameters) Code(*member) parameters = nullptr;
#define WEFT_CUDA_OPTIONAL_MEMBER(member, symbol, since, parameters) Code(*member) parameters = nullptr;
  WEFT_CUDA_FUNCTIONS(WEFT_CUDA_MEMBER)
  WEFT_CUDA_OPTIONAL_FUNCTIONS(WEFT_CUDA_OPTIONAL_MEMBER)
#undef WEFT_CUDA_MEMBER
#undef WEFT_CUDA_OPTIONAL_MEMBER
  int version = 0;
};

extern Driver driver_table;  ///< for driver() only
/// The open driver. Requires device::available().
[[nodiscard]] inline const Driver& driver() { return driver_table; }
/// Fills the table from a library, which stays loaded until the process ends.
[[nodiscard]] Status load(const std::string& path, Driver& driver);

/// "CUDA_ERROR_INVALID_VALUE (invalid argument)".
[[nodiscard]] std::string describe(Code code);
/// The Error for a failed driver call: "what failed (call: CUDA_ERROR_..)".
[[nodiscard]] Error failure(Code code, std::string_view call, std::string_view what);
/// Whether the context or the driver no longer exists: not an error during cleanup.
[[nodiscard]] inline bool gone(Code code) {
  return code == kDeinitialized || code == kInvalidContext || code == kContextIsDestroyed ||
         code == kInvalidHandle;
}

/// Closes the driver. `free_all` frees the objects of all contexts before.
void close_driver(void (*free_all)());

}  // namespace weft::device::cuda

/// Calls a driver function; on failure returns an Error with `what`, a literal, as the problem.
#define WEFT_CUDA_TRY(member, what, ...)                                                             \
  do {                                                                                               \
    if (const auto weft_code_ = ::weft::device::cuda::driver().member(__VA_ARGS__); weft_code_ != 0) \
        [[unlikely]]                                                                                 \
      return ::weft::device::cuda::failure(weft_code_, #member, what);                               \
  } while (0)
