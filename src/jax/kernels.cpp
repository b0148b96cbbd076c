// SPDX-License-Identifier: BSD-3-Clause
#include "jax/kernels.hpp"

#include "jax/loaded.hpp"

namespace weft::jax {
namespace {

constexpr unsigned kDisableTiming = 2;  // CU_EVENT_DISABLE_TIMING
constexpr unsigned kNonBlocking = 1;    // CU_STREAM_NON_BLOCKING

/// Functions of the driver, which XLA has loaded.
struct Driver {
#define WEFT_X(name, parameters) int(*name) parameters = find<int(*) parameters>(kDriver, #name);
  WEFT_X(cuDevicePrimaryCtxRetain, (void** context, int device))
  WEFT_X(cuCtxPushCurrent_v2, (void* context))
  WEFT_X(cuCtxPopCurrent_v2, (void** context))
  WEFT_X(cuStreamCreate, (void** stream, unsigned flags))
  WEFT_X(cuStreamDestroy_v2, (void* stream))
  WEFT_X(cuStreamIsCapturing, (void* stream, int* status))
  WEFT_X(cuStreamWaitEvent, (void* stream, void* event, unsigned flags))
  WEFT_X(cuEventCreate, (void** event, unsigned flags))
  WEFT_X(cuEventDestroy_v2, (void* event))
  WEFT_X(cuEventRecord, (void* event, void* stream))
#undef WEFT_X
  [[nodiscard]] bool complete() const {
    return cuDevicePrimaryCtxRetain != nullptr && cuCtxPushCurrent_v2 != nullptr &&
           cuCtxPopCurrent_v2 != nullptr && cuStreamCreate != nullptr && cuStreamDestroy_v2 != nullptr &&
           cuStreamIsCapturing != nullptr && cuStreamWaitEvent != nullptr && cuEventCreate != nullptr &&
           cuEventDestroy_v2 != nullptr && cuEventRecord != nullptr;
  }
};
const Driver& driver() {
  static const Driver found;
  return found;
}

/// Makes a context current as long as the object lives.
class CurrentContext {
 public:
  explicit CurrentContext(void* context) : pushed_(driver().cuCtxPushCurrent_v2(context) == 0) {}
  CurrentContext(const CurrentContext&) = delete;
  CurrentContext& operator=(const CurrentContext&) = delete;
  ~CurrentContext() {
    void* popped = nullptr;
    if (pushed_) driver().cuCtxPopCurrent_v2(&popped);
  }
  [[nodiscard]] bool pushed() const { return pushed_; }

 private:
  const bool pushed_;
};

}  // namespace

std::string last_error() {
  char text[4096];
  return MPIX_Last_error_message(text, sizeof text, nullptr) == MPI_SUCCESS ? text : "an error of MPI";
}

std::string Kernels::prepare(int device) {
  if (!driver().complete()) return "the CUDA driver lacks functions";
  const std::string gpu = "GPU number " + std::to_string(device);
  if (driver().cuDevicePrimaryCtxRetain(&context_, device) != 0) return gpu + " has no context";
  const CurrentContext current(context_);
  if (!current.pushed()) return gpu + " has a context that can't be used";
  if (driver().cuStreamCreate(&own_, kNonBlocking) != 0) own_ = nullptr;
  if (own_ == nullptr || driver().cuEventCreate(&event_, kDisableTiming) != 0)
    return gpu + " has no further stream or event";
  target_ = own_;
  MPI_Info info = MPI_INFO_NULL;
  int code = MPI_Info_create(&info);
  if (code == MPI_SUCCESS) code = MPI_Info_set(info, "type", "cudaStream_t");
  if (code == MPI_SUCCESS) code = MPI_Info_set(info, "weft_stream_kernels", "true");
  if (code == MPI_SUCCESS) code = MPIX_Info_set_hex(info, "value", &own_, sizeof own_);
  if (code == MPI_SUCCESS) code = MPIX_Stream_create(info, &object_);
  const std::string problem = code == MPI_SUCCESS ? "" : last_error();
  if (info != MPI_INFO_NULL) MPI_Info_free(&info);
  return problem;
}

int Kernels::open(MPI_Comm comm) {
  const CurrentContext current(context_);
  return MPIX_Stream_comm_create(comm, object_, &comm_);
}

bool Kernels::enter(void* stream) {
  int status = 0;
  if (stream == target_ && stream == last_) return true;
  if (driver().cuStreamIsCapturing(stream, &status) != 0) return false;
  if (status == 0) {  // a graph is launched in a stream that XLA orders
    if (last_ != nullptr && last_ != stream &&
        (driver().cuEventRecord(event_, last_) != 0 || driver().cuStreamWaitEvent(stream, event_, 0) != 0))
      return false;
    last_ = stream;
  }
  if (stream == target_) return true;
  if (MPIX_Stream_comm_redirect(comm_, stream) != MPI_SUCCESS) return false;
  target_ = stream;
  return true;
}

void Kernels::close() {
  if (own_ == nullptr) return;
  const std::lock_guard lock(mutex_);
  if (comm_ != MPI_COMM_NULL) {
    if (last_ != nullptr && driver().cuEventRecord(event_, last_) == 0)
      driver().cuStreamWaitEvent(own_, event_, 0);
    MPIX_Stream_comm_redirect(comm_, own_);
    MPI_Comm_free(&comm_);
  }
  if (object_ != MPIX_STREAM_NULL) MPIX_Stream_free(&object_);
  if (event_ != nullptr) driver().cuEventDestroy_v2(event_);
  driver().cuStreamDestroy_v2(own_);
  own_ = nullptr;
}

}  // namespace weft::jax
