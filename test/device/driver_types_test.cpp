// SPDX-License-Identifier: BSD-3-Clause
// Compares Weft's declarations of the driver interface with cuda.h, if a toolkit is installed.
#include "device/cuda/driver_types.hpp"

#include <gtest/gtest.h>

#if __has_include(<cuda.h>)
#include <cuda.h>

#include <cstddef>

namespace weft::device::cuda {
static_assert(sizeof(CUdevice) == sizeof(Ordinal) && sizeof(CUdeviceptr) == sizeof(Address));
static_assert(sizeof(CUcontext) == sizeof(Context) && sizeof(CUresult) == sizeof(Code));
static_assert(kSuccess == CUDA_SUCCESS && kInvalidValue == CUDA_ERROR_INVALID_VALUE);
static_assert(kOutOfMemory == CUDA_ERROR_OUT_OF_MEMORY && kNotInitialized == CUDA_ERROR_NOT_INITIALIZED);
static_assert(kDeinitialized == CUDA_ERROR_DEINITIALIZED && kNoDevice == CUDA_ERROR_NO_DEVICE);
static_assert(kInvalidContext == CUDA_ERROR_INVALID_CONTEXT && kMapFailed == CUDA_ERROR_MAP_FAILED);
static_assert(kAlreadyMapped == CUDA_ERROR_ALREADY_MAPPED && kInvalidHandle == CUDA_ERROR_INVALID_HANDLE);
static_assert(kNotReady == CUDA_ERROR_NOT_READY && kIllegalAddress == CUDA_ERROR_ILLEGAL_ADDRESS);
static_assert(kContextIsDestroyed == CUDA_ERROR_CONTEXT_IS_DESTROYED &&
              kNotSupported == CUDA_ERROR_NOT_SUPPORTED);
static_assert(kInvalidDevice == CUDA_ERROR_INVALID_DEVICE &&
              kPeerAccessUnsupported == CUDA_ERROR_PEER_ACCESS_UNSUPPORTED);
static_assert(kAttributeContext == CU_POINTER_ATTRIBUTE_CONTEXT);
static_assert(kAttributeMemoryType == CU_POINTER_ATTRIBUTE_MEMORY_TYPE);
static_assert(kAttributeBufferId == CU_POINTER_ATTRIBUTE_BUFFER_ID);
static_assert(kAttributeIsManaged == CU_POINTER_ATTRIBUTE_IS_MANAGED);
static_assert(kAttributeDeviceOrdinal == CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL);
static_assert(kAttributeLegacyIpc == CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE);
static_assert(kAttributeRangeStart == CU_POINTER_ATTRIBUTE_RANGE_START_ADDR);
static_assert(kAttributeRangeSize == CU_POINTER_ATTRIBUTE_RANGE_SIZE);
static_assert(kMemoryHost == CU_MEMORYTYPE_HOST && kMemoryDevice == CU_MEMORYTYPE_DEVICE);
static_assert(kMemoryUnified == CU_MEMORYTYPE_UNIFIED);
static_assert(kDeviceMaxPitch == CU_DEVICE_ATTRIBUTE_MAX_PITCH &&
              kDevicePciBus == CU_DEVICE_ATTRIBUTE_PCI_BUS_ID);
static_assert(kDevicePciDevice == CU_DEVICE_ATTRIBUTE_PCI_DEVICE_ID);
static_assert(kDeviceMultiprocessors == CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT);
static_assert(kDeviceGpuDirect == CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_SUPPORTED &&
              kDeviceRemoteWriteFlush == CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_FLUSH_WRITES_OPTIONS &&
              kDeviceRemoteWriteOrder == CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_WRITES_ORDERING);
static_assert(int{kRemoteWritesForOwner} == CU_GPU_DIRECT_RDMA_WRITES_ORDERING_OWNER &&
              int{kRemoteWritesForOwner} == CU_FLUSH_GPU_DIRECT_RDMA_WRITES_TO_OWNER &&
              int{kFlushByHost} == CU_FLUSH_GPU_DIRECT_RDMA_WRITES_OPTION_HOST &&
              int{kFlushCurrentContext} == CU_FLUSH_GPU_DIRECT_RDMA_WRITES_TARGET_CURRENT_CTX);
static_assert(kDeviceComputeMode == CU_DEVICE_ATTRIBUTE_COMPUTE_MODE);
static_assert(kComputeModeDefault == CU_COMPUTEMODE_DEFAULT &&
              kComputeModeProhibited == CU_COMPUTEMODE_PROHIBITED &&
              kComputeModeExclusiveProcess == CU_COMPUTEMODE_EXCLUSIVE_PROCESS);
#if CUDA_VERSION >= 12030
static_assert(kDeviceMpsEnabled == CU_DEVICE_ATTRIBUTE_MPS_ENABLED);
#endif
static_assert(kDevicePciDomain == CU_DEVICE_ATTRIBUTE_PCI_DOMAIN_ID);
static_assert(kDeviceCapabilityMajor == CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR);
static_assert(kDeviceCapabilityMinor == CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR);
static_assert(kStreamNonBlocking == CU_STREAM_NON_BLOCKING && kEventDisableTiming == CU_EVENT_DISABLE_TIMING);
static_assert(kHostAllocPortable == CU_MEMHOSTALLOC_PORTABLE &&
              kHostAllocDeviceMap == CU_MEMHOSTALLOC_DEVICEMAP);
static_assert(kHostRegisterPortable == CU_MEMHOSTREGISTER_PORTABLE);
static_assert(kHostRegisterDeviceMap == CU_MEMHOSTREGISTER_DEVICEMAP);
static_assert(kIpcLazyEnablePeerAccess == CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS);
static_assert(kWriteValueDefault == CU_STREAM_WRITE_VALUE_DEFAULT);
static_assert(kCaptureModeRelaxed == CU_STREAM_CAPTURE_MODE_RELAXED);
static_assert(sizeof(Graph) == sizeof(CUgraph) && sizeof(GraphNode) == sizeof(CUgraphNode));
static_assert(sizeof(GraphExec) == sizeof(CUgraphExec));
static_assert(sizeof(KernelNode) == sizeof(CUDA_KERNEL_NODE_PARAMS));
static_assert(offsetof(KernelNode, grid) == offsetof(CUDA_KERNEL_NODE_PARAMS, gridDimX));
static_assert(offsetof(KernelNode, block) == offsetof(CUDA_KERNEL_NODE_PARAMS, blockDimX));
static_assert(offsetof(KernelNode, parameters) == offsetof(CUDA_KERNEL_NODE_PARAMS, kernelParams));
static_assert(offsetof(KernelNode, context) == offsetof(CUDA_KERNEL_NODE_PARAMS, ctx));
static_assert(kNodePriority == CU_LAUNCH_ATTRIBUTE_PRIORITY);
static_assert(sizeof(NodeAttribute) == sizeof(CUlaunchAttributeValue));
static_assert(sizeof(UuidBytes) == sizeof(CUuuid) && sizeof(IpcMemHandle) == sizeof(CUipcMemHandle));
static_assert(sizeof(Memcpy2D) == sizeof(CUDA_MEMCPY2D));
#if CUDA_VERSION >= 12080
static_assert(kSourceOrderStream == CU_MEMCPY_SRC_ACCESS_ORDER_STREAM);
static_assert(sizeof(BatchAttributes) == sizeof(CUmemcpyAttributes));
static_assert(offsetof(BatchAttributes, source_hint) == offsetof(CUmemcpyAttributes, srcLocHint));
static_assert(offsetof(BatchAttributes, flags) == offsetof(CUmemcpyAttributes, flags));
#endif
#define WEFT_SAME(ours, theirs) static_assert(offsetof(Memcpy2D, ours) == offsetof(CUDA_MEMCPY2D, theirs))
WEFT_SAME(src_x, srcXInBytes);
WEFT_SAME(src_y, srcY);
WEFT_SAME(src_type, srcMemoryType);
WEFT_SAME(src_host, srcHost);
WEFT_SAME(src_device, srcDevice);
WEFT_SAME(src_array, srcArray);
WEFT_SAME(src_pitch, srcPitch);
WEFT_SAME(dst_x, dstXInBytes);
WEFT_SAME(dst_y, dstY);
WEFT_SAME(dst_type, dstMemoryType);
WEFT_SAME(dst_host, dstHost);
WEFT_SAME(dst_device, dstDevice);
WEFT_SAME(dst_array, dstArray);
WEFT_SAME(dst_pitch, dstPitch);
WEFT_SAME(width, WidthInBytes);
WEFT_SAME(height, Height);
}  // namespace weft::device::cuda

TEST(DriverTypes, MatchTheToolkitsHeader) {
  SUCCEED() << "checked by the compiler against CUDA " << CUDA_VERSION;
}
#else
TEST(DriverTypes, MatchTheToolkitsHeader) { GTEST_SKIP() << "no cuda.h on this machine"; }
#endif
