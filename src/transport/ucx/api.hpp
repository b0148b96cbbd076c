// SPDX-License-Identifier: BSD-3-Clause
// Subset of the ABI of libucp.so.0 (1.13 and later 1.x) used by Weft. Structures end at the last used field,
// since UCX accesses only the fields named by the mask. test/network/ucx_types_test.cpp compares the
// declarations with ucp/api/ucp.h if installed.
#pragma once
#include <cstddef>
#include <cstdint>

namespace weft::transport::ucx::api {

using Context = struct ContextObject*;
using Worker = struct WorkerObject*;
using Endpoint = struct EndpointObject*;
using Config = struct ConfigObject*;

enum class Code : int8_t {
  ok = 0,
  in_progress = 1,
  no_memory = -4,
  unreachable = -6,
  canceled = -16,
  last = -100
};

enum MemoryType : int { kHost = 0, kCuda = 1, kCudaManaged = 2 };
inline constexpr int kSerialized = 1;                 // thread mode
inline constexpr int kPeerErrors = 1, kNoErrors = 0;  // error handling mode
inline constexpr uint64_t kFeatureAm = 1 << 6;

struct Parameters {
  static constexpr uint64_t kFeatures = 1, kRequestSize = 2, kSharedByThreads = 1 << 5, kEndpoints = 1 << 6,
                            kName = 1 << 8;
  uint64_t mask, features;
  size_t request_size;
  void (*request_init)(void*);
  void (*request_cleanup)(void*);
  uint64_t tag_sender_mask;
  int shared_by_threads;
  size_t estimated_endpoints, estimated_per_node;
  const char* name;
};

struct ContextAttributes {
  static constexpr uint64_t kMemoryTypes = 1 << 2;
  uint64_t mask;
  size_t request_size;
  int thread_mode;
  uint64_t memory_types;
  char name[32];
};

struct WorkerParameters {
  static constexpr uint64_t kThreadMode = 1;
  uint64_t mask;
  int thread_mode;
};

struct WorkerAttributes {
  static constexpr uint64_t kMaxAmHeader = 1 << 3;
  uint64_t mask;
  int thread_mode;
  uint32_t address_flags;
  void* address;
  size_t address_length, max_am_header;
};

using ErrorCallback = void (*)(void* argument, Endpoint endpoint, Code status);

struct EndpointParameters {
  static constexpr uint64_t kAddress = 1, kErrorMode = 2, kErrorHandler = 4;
  uint64_t mask;
  const void* address;
  int error_mode;
  ErrorCallback on_error;
  void* argument;
};

using SendCallback = void (*)(void* request, Code status, void* user);
using ReceiveCallback = void (*)(void* request, Code status, size_t length, void* user);

/// ucp_request_param_t
struct RequestParameters {
  static constexpr uint32_t kCallback = 1 << 1, kUser = 1 << 2, kFlags = 1 << 4, kMemoryType = 1 << 6;
  static constexpr uint32_t kEager = 1 << 1, kRendezvous = 1 << 2;  // flags of a send
  static constexpr uint32_t kForce = 1 << 0;                        // flag of a close
  uint32_t mask, flags;
  void* request;
  union {
    SendCallback send;
    ReceiveCallback receive;
  };
  uint64_t datatype;
  void* user;
  void* reply_buffer;
  int memory_type;
  void* information;
  void* memory;
};

struct AmReceiveParameters {  // ucp_am_recv_param_t
  static constexpr uint64_t kData = 1 << 16, kRendezvous = 1 << 17;
  uint64_t attributes;
  Endpoint reply;
};
using AmCallback = Code (*)(void* argument, const void* header, size_t header_size, void* data, size_t size,
                            const AmReceiveParameters* arrival);

struct AmHandlerParameters {
  static constexpr uint64_t kId = 1, kFlags = 2, kCallback = 4, kArgument = 8;
  static constexpr uint32_t kWhole = 1;
  uint64_t mask;
  unsigned id;
  uint32_t flags;
  AmCallback callback;
  void* argument;
};

/// A ucs_status_ptr_t: null (completed), an error, or a request.
inline bool is_error(const void* result) {
  return reinterpret_cast<uintptr_t>(result) >= static_cast<uintptr_t>(static_cast<intptr_t>(Code::last));
}
inline Code error_in(const void* result) {
  return static_cast<Code>(static_cast<int8_t>(reinterpret_cast<intptr_t>(result)));
}

/// Functions of libucp used by Weft: return type, name, parameters.
#define WEFT_UCX_FUNCTIONS(X)                                                                       \
  X(void, ucp_get_version, (unsigned*, unsigned*, unsigned*))                                       \
  X(Code, ucp_config_read, (const char* prefix, const char* file, Config*))                         \
  X(Code, ucp_config_modify, (Config, const char* name, const char* value))                         \
  X(void, ucp_config_release, (Config))                                                             \
  X(Code, ucp_init_version, (unsigned major, unsigned minor, const Parameters*, Config, Context*))  \
  X(void, ucp_cleanup, (Context))                                                                   \
  X(Code, ucp_context_query, (Context, ContextAttributes*))                                         \
  X(Code, ucp_worker_create, (Context, const WorkerParameters*, Worker*))                           \
  X(Code, ucp_worker_query, (Worker, WorkerAttributes*))                                            \
  X(void, ucp_worker_destroy, (Worker))                                                             \
  X(Code, ucp_worker_get_address, (Worker, void** address, size_t* length))                         \
  X(void, ucp_worker_release_address, (Worker, void* address))                                      \
  X(unsigned, ucp_worker_progress, (Worker))                                                        \
  X(void*, ucp_ep_flush_nbx, (Endpoint, const RequestParameters*))                                  \
  X(void*, ucp_worker_flush_nbx, (Worker, const RequestParameters*))                                \
  X(Code, ucp_worker_set_am_recv_handler, (Worker, const AmHandlerParameters*))                     \
  X(Code, ucp_ep_create, (Worker, const EndpointParameters*, Endpoint*))                            \
  X(void*, ucp_ep_close_nbx, (Endpoint, const RequestParameters*))                                  \
  X(void*, ucp_am_send_nbx,                                                                         \
    (Endpoint, unsigned id, const void* header, size_t header_size, const void* data, size_t count, \
     const RequestParameters*))                                                                     \
  X(void*, ucp_am_recv_data_nbx,                                                                    \
    (Worker, void* descriptor, void* to, size_t count, const RequestParameters*))                   \
  X(void, ucp_am_data_release, (Worker, void* descriptor))                                          \
  X(Code, ucp_request_check_status, (void* request))                                                \
  X(void, ucp_request_free, (void* request))                                                        \
  X(const char*, ucs_status_string, (Code))

}  // namespace weft::transport::ucx::api
