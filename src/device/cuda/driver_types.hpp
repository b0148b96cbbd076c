// SPDX-License-Identifier: BSD-3-Clause
// The used part of the CUDA driver's binary interface: opaque handles, values, structures.
// test/device/driver_types_test.cpp compares these definitions with cuda.h, if installed.
#pragma once
#include <cstddef>
#include <cstdint>

namespace weft::device::cuda {

using Code = int;     ///< CUresult
using Ordinal = int;  ///< CUdevice
using Context = void*;
using Stream = void*;
using Event = void*;
using Module = void*;
using Function = void*;
using Graph = void*;
using GraphNode = void*;
using GraphExec = void*;
using UserObject = void*;
using Address = unsigned long long;  ///< CUdeviceptr

inline constexpr Code kSuccess = 0, kInvalidValue = 1, kOutOfMemory = 2, kNotInitialized = 3,
                      kDeinitialized = 4, kNoDevice = 100, kInvalidDevice = 101, kInvalidContext = 201,
                      kMapFailed = 205, kAlreadyMapped = 208, kPeerAccessUnsupported = 217,
                      kInvalidHandle = 400, kNotReady = 600, kIllegalAddress = 700, kContextIsDestroyed = 709,
                      kNotSupported = 801, kCaptureUnsupported = 900, kCaptureInvalidated = 901,
                      kCaptureImplicit = 906;

/// CUpointer_attribute
inline constexpr int kAttributeContext = 1, kAttributeMemoryType = 2, kAttributeSyncMemops = 6,
                     kAttributeBufferId = 7, kAttributeIsManaged = 8, kAttributeDeviceOrdinal = 9,
                     kAttributeLegacyIpc = 10, kAttributeRangeStart = 11, kAttributeRangeSize = 12,
                     kAttributePool = 17, kAttributeMappingSize = 18, kAttributeMappingBase = 19,
                     kAttributeBlockId = 20;

/// CUmemorytype
inline constexpr unsigned kMemoryHost = 1, kMemoryDevice = 2, kMemoryUnified = 4;

/// CUdevice_attribute
inline constexpr int kDeviceMaxPitch = 11, kDeviceMultiprocessors = 16, kDeviceComputeMode = 20,
                     kDevicePciBus = 33, kDevicePciDevice = 34, kDevicePciDomain = 50,
                     kDeviceCapabilityMajor = 75, kDeviceCapabilityMinor = 76, kDeviceGpuDirect = 116,
                     kDeviceRemoteWriteFlush = 117, kDeviceRemoteWriteOrder = 118,
                     kDeviceStreamMemoryOperations = 122, kDeviceMpsEnabled = 133;
/// CUGPUDirectRDMAWritesOrdering, CUflushGPUDirectRDMAWritesScope: kernels of the GPU that has the memory
inline constexpr int kRemoteWritesForOwner = 100;
inline constexpr int kFlushByHost = 1;          ///< CU_FLUSH_GPU_DIRECT_RDMA_WRITES_OPTION_HOST
inline constexpr int kFlushCurrentContext = 0;  ///< CU_FLUSH_GPU_DIRECT_RDMA_WRITES_TARGET_CURRENT_CTX

/// CUcomputemode
inline constexpr int kComputeModeDefault = 0, kComputeModeProhibited = 2, kComputeModeExclusiveProcess = 3;

inline constexpr unsigned kStreamNonBlocking = 1, kEventDisableTiming = 2, kHostAllocPortable = 1,
                          kHostAllocDeviceMap = 2, kHostRegisterPortable = 1, kHostRegisterDeviceMap = 2,
                          kIpcLazyEnablePeerAccess = 1, kMemAttachGlobal = 1, kWriteValueDefault = 0;
inline constexpr int kHighestPriority = -100;  ///< stream priority: the driver clamps it to its range
inline constexpr int kCaptureModeRelaxed = 2;  ///< CU_STREAM_CAPTURE_MODE_RELAXED
inline constexpr int kCaptureNone = 0;         ///< CU_STREAM_CAPTURE_STATUS_NONE

inline constexpr int kSourceOrderStream = 1;  ///< CU_MEMCPY_SRC_ACCESS_ORDER_STREAM
struct BatchAttributes {                      ///< CUmemcpyAttributes
  int source_access_order;
  struct Location {
    int type, id;
  } source_hint, destination_hint;
  unsigned flags;
};

struct KernelNode {  ///< CUDA_KERNEL_NODE_PARAMS_v2
  Function function;
  unsigned grid[3], block[3];
  unsigned shared_bytes;
  void** parameters;
  void** extra;
  void* kernel;
  Context context;
};
inline constexpr int kNodePriority = 8;  ///< CU_LAUNCH_ATTRIBUTE_PRIORITY
union NodeAttribute {                    ///< CUlaunchAttributeValue
  char bytes[64];
  int priority;
};

inline constexpr int kMemOpWait32 = 1, kMemOpWrite32 = 2;  ///< CUstreamBatchMemOpType
struct BatchMemOp {                                        ///< CUstreamBatchMemOpParams
  int operation;
  Address address;
  uint64_t value;
  unsigned flags;  // 0: wait until the word is at least the value; write after a fence of the whole system
  Address alias;
  uint64_t reserved;
};
inline constexpr unsigned kUserObjectNoDestructorSync = 1;  ///< CU_USER_OBJECT_NO_DESTRUCTOR_SYNC
inline constexpr unsigned kUserObjectMove = 1;              ///< CU_GRAPH_USER_OBJECT_MOVE

struct UuidBytes {  ///< CUuuid
  char bytes[16];
};

struct IpcMemHandle {  ///< CUipcMemHandle
  char reserved[64];
};

using MemoryHandle = unsigned long long;  ///< CUmemGenericAllocationHandle

struct MemoryLocation {  ///< CUmemLocation
  int type, id;
};
inline constexpr int kLocationDevice = 1;   ///< CU_MEM_LOCATION_TYPE_DEVICE
inline constexpr int kPosixDescriptor = 1;  ///< CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR
inline constexpr int kReadWrite = 3;        ///< CU_MEM_ACCESS_FLAGS_PROT_READWRITE

struct MemoryProperties {  ///< CUmemAllocationProp
  int type;                // 1: pinned device memory
  int handle_types;        // bit mask
  MemoryLocation location;
  void* win32;
  unsigned char flags[8];
};

struct MemoryAccess {  ///< CUmemAccessDesc
  MemoryLocation location;
  int flags;
};

struct Memcpy2D {  ///< CUDA_MEMCPY2D_v2
  size_t src_x, src_y;
  unsigned src_type;
  const void* src_host;
  Address src_device;
  void* src_array;
  size_t src_pitch;
  size_t dst_x, dst_y;
  unsigned dst_type;
  void* dst_host;
  Address dst_device;
  void* dst_array;
  size_t dst_pitch;
  size_t width, height;
};

}  // namespace weft::device::cuda
