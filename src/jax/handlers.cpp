// SPDX-License-Identifier: BSD-3-Clause
// The handlers of weft_mpi.jax: XLA calls them for the collectives of a compiled function, on host memory or,
// in the order of its stream, on GPU memory: as kernels, or by the host. Threading: any thread of XLA, one
// call of a communicator at a time (the ordered effect).
#include <mpi.h>
#include <weft.h>

#include <cstring>
#include <mutex>
#include <string>

#include "jax/communicators.hpp"
#include "jax/ffi.hpp"
#include "jax/loaded.hpp"

namespace weft::jax {
namespace {

using ffi::Array;
using ffi::Frame;

/// Returns an error for XLA, after which this process makes no calls.
ffi::Error* fail(const Frame& frame, const std::string& message, int32_t code) {
  const std::string text = end_calls(message);
  ffi::CreateError arguments{sizeof arguments, nullptr, text.c_str(), code};
  return frame.api->create_error(&arguments);
}

/// The error of an MPI call of this thread; null if it has succeeded.
ffi::Error* outcome(const Frame& frame, int code) {
  return code == MPI_SUCCESS ? nullptr : fail(frame, last_error(), ffi::kInternal);
}

MPI_Datatype datatype_of(ffi::Type type) {
  switch (type) {
    case ffi::kPred:
      return MPI_C_BOOL;
    case ffi::kS8:
      return MPI_INT8_T;
    case ffi::kS16:
      return MPI_INT16_T;
    case ffi::kS32:
      return MPI_INT32_T;
    case ffi::kS64:
      return MPI_INT64_T;
    case ffi::kU8:
      return MPI_UINT8_T;
    case ffi::kU16:
      return MPI_UINT16_T;
    case ffi::kU32:
      return MPI_UINT32_T;
    case ffi::kU64:
      return MPI_UINT64_T;
    case ffi::kF16:
      return MPIX_C_FLOAT16;
    case ffi::kBF16:
      return MPIX_BFLOAT16;
    case ffi::kF32:
      return MPI_FLOAT;
    case ffi::kF64:
      return MPI_DOUBLE;
    case ffi::kC64:
      return MPI_C_FLOAT_COMPLEX;
    case ffi::kC128:
      return MPI_C_DOUBLE_COMPLEX;
    case ffi::kF8E4M3FN:
      return MPIX_FLOAT8_E4M3;
    case ffi::kF8E5M2:
      return MPIX_FLOAT8_E5M2;
    case ffi::kToken:
      break;
  }
  return MPI_DATATYPE_NULL;
}

MPI_Count elements(const Array& array) {
  MPI_Count count = 1;
  for (int64_t i = 0; i < array.rank; ++i) count *= array.dimensions[i];
  return count;
}

/// The first array that is no token; null if there is none.
const Array* first(const ffi::Arrays& arrays) {
  for (int64_t i = 0; i < arrays.count; ++i) {
    const auto* array = static_cast<const Array*>(arrays.values[i]);
    if (arrays.kinds[i] == ffi::kArrayKind && array->type != ffi::kToken) return array;
  }
  return nullptr;
}

/// Returns Weft's object of one of XLA's streams, which live as long as its client; made at the first use.
/// Null if the library refuses.
MPIX_Stream object_of(void* stream) {
  constexpr int kMaxStreams = 64;
  static std::mutex mutex;  // threads of a program may start functions at the same time
  const std::lock_guard lock(mutex);
  static struct {
    void* stream;
    MPIX_Stream object;
  } known[kMaxStreams];
  static int used = 0;
  for (int i = 0; i < used; ++i)
    if (known[i].stream == stream) return known[i].object;
  MPI_Info info = MPI_INFO_NULL;
  MPIX_Stream object = MPIX_STREAM_NULL;
  if (used == kMaxStreams || MPI_Info_create(&info) != MPI_SUCCESS) return MPIX_STREAM_NULL;
  const bool made = MPI_Info_set(info, "type", "cudaStream_t") == MPI_SUCCESS &&
                    MPIX_Info_set_hex(info, "value", &stream, sizeof stream) == MPI_SUCCESS &&
                    MPIX_Stream_create(info, &object) == MPI_SUCCESS;
  MPI_Info_free(&info);
  if (!made) return MPIX_STREAM_NULL;
  known[used++] = {stream, object};
  return object;
}

/// One call: its arguments, checked.
class Call {
 public:
  enum class Memory : uint8_t { host, gpu, kernels };  ///< kernels: of a GPU, which executes the call

  Call(const Frame& frame, Memory memory) : frame_(frame), memory_(memory) {
    const int64_t index = attribute("comm");
    comm_ = index >= 0 && index < state().used.load(std::memory_order_acquire)
                ? state().communicators[index].load(std::memory_order_relaxed)
                : MPI_COMM_NULL;
    if (comm_ == MPI_COMM_NULL)
      refuse("weft_mpi.jax: the function was compiled for communicator number " + std::to_string(index) +
             ", which this process has not made");
    else
      find_arrays();
    if (memory == Memory::gpu && !refused()) enter_stream();
    if (memory == Memory::kernels && !refused()) enter_kernels(static_cast<size_t>(index));
  }

  [[nodiscard]] bool refused() const { return error_ != nullptr; }
  [[nodiscard]] ffi::Error* error() const { return error_; }
  [[nodiscard]] MPI_Comm comm() const { return comm_; }
  [[nodiscard]] bool in_kernels() const { return memory_ == Memory::kernels; }
  /// Returns the function of two that the call needs: of the host, or of kernels.
  template <class Function>
  [[nodiscard]] Function* of(Function* host, Function* kernels) const {
    return in_kernels() ? kernels : host;
  }
  [[nodiscard]] MPI_Datatype type() const { return type_; }
  [[nodiscard]] void* in() const { return in_->data; }
  [[nodiscard]] void* out() const { return out_->data; }
  [[nodiscard]] MPI_Count in_count() const { return elements(*in_); }
  [[nodiscard]] MPI_Count out_count() const { return elements(*out_); }
  [[nodiscard]] MPI_Count in_bytes() const { return in_count() * bytes_; }
  [[nodiscard]] MPI_Count out_bytes() const { return out_count() * bytes_; }
  [[nodiscard]] ffi::Error* end(int code) const { return outcome(frame_, code); }

  /// An attribute that is a number of 64 bits; -1 if it is absent.
  [[nodiscard]] int64_t attribute(const char* name) const {
    const ffi::Attributes& all = frame_.attributes;
    for (int64_t i = 0; i < all.count; ++i) {
      const ffi::Text& text = *all.names[i];
      if (text.length != std::strlen(name) || std::memcmp(text.data, name, text.length) != 0) continue;
      const auto* scalar = static_cast<const ffi::Scalar*>(all.values[i]);
      if (all.kinds[i] != ffi::kScalarKind || scalar->type != ffi::kS64) return -1;
      int64_t value = 0;
      std::memcpy(&value, scalar->value, sizeof value);
      return value;
    }
    return -1;
  }
  [[nodiscard]] int number(const char* name) const { return static_cast<int>(attribute(name)); }
  [[nodiscard]] MPI_Op op() const {
    return reinterpret_cast<MPI_Op>(static_cast<uintptr_t>(attribute("op")));
  }

  /// Sets the result to zero.
  ffi::Error* clear() const {
    const auto bytes = static_cast<size_t>(out_bytes());
    if (memory_ == Memory::host) {
      std::memset(out(), 0, bytes);
      return nullptr;
    }
    using Set = int (*)(uint64_t, unsigned char, size_t, void*);
    const auto set = find<Set>(kDriver, "cuMemsetD8Async");
    if (set == nullptr || set(reinterpret_cast<uint64_t>(out()), 0, bytes, stream_) != 0)
      return fail(frame_, "weft_mpi.jax: the result of a process without a source cannot be cleared",
                  ffi::kInternal);
    return nullptr;
  }

 private:
  void refuse(const std::string& message) { error_ = fail(frame_, message, ffi::kInvalidArgument); }

  void find_arrays() {
    in_ = first(frame_.operands);
    out_ = first(frame_.results);
    if ((in_ == nullptr) != (out_ == nullptr)) return refuse("weft_mpi.jax: an array is missing");
    if (in_ == nullptr) return;  // a barrier
    type_ = datatype_of(in_->type);
    int bytes = 0;
    if (type_ == MPI_DATATYPE_NULL || in_->type != out_->type || MPI_Type_size(type_, &bytes) != MPI_SUCCESS)
      return refuse("weft_mpi.jax: MPI has no datatype for XLA's element type " + std::to_string(in_->type));
    bytes_ = bytes;
  }

  /// Finds XLA's stream, else the call is refused.
  bool find_stream() {
    ffi::GetStream arguments{sizeof arguments, nullptr, frame_.context, nullptr};
    error_ = frame_.api->get_stream(&arguments);
    stream_ = arguments.stream;
    if (refused()) end_calls("weft_mpi.jax: XLA has no stream for a call");
    return !refused();
  }

  void enter_kernels(size_t index) {
    Kernels* const kernels = state().kernels[index].get();
    if (kernels == nullptr)
      return refuse("weft_mpi.jax: the function was compiled for kernels, which communicator number " +
                    std::to_string(index) + " does not have in this process");
    if (!find_stream()) return;
    lock_ = std::unique_lock(kernels->mutex());
    comm_ = kernels->comm();
    if (!kernels->enter(stream_))
      refuse(
          "weft_mpi.jax: collectives cannot be put into XLA's stream: its GPU is not the default device of "
          "JAX");
  }

  /// Makes the calls of MPI follow XLA's stream: in its order where the library can, else after it.
  void enter_stream() {
    if (!find_stream()) return;
    using SetStream = int (*)(MPI_Comm, MPIX_Stream);
    static const auto set_stream = find<SetStream>("libmpi_abi.so.1", "MPIX_Comm_set_stream");
    if (set_stream != nullptr) {
      const MPIX_Stream object = object_of(stream_);
      error_ = object == MPIX_STREAM_NULL ? outcome(frame_, MPI_ERR_OTHER)
                                          : outcome(frame_, set_stream(comm_, object));
      return;
    }
    using Synchronize = int (*)(void*);
    static const auto synchronize = find<Synchronize>(kDriver, "cuStreamSynchronize");
    state().stream_waits.fetch_add(1, std::memory_order_relaxed);
    if (synchronize == nullptr || synchronize(stream_) != 0)
      refuse("weft_mpi.jax: XLA's stream cannot be synchronised");
  }

  const Frame& frame_;
  const Memory memory_;
  MPI_Comm comm_ = MPI_COMM_NULL;
  const Array* in_ = nullptr;
  const Array* out_ = nullptr;
  MPI_Datatype type_ = MPI_DATATYPE_NULL;
  MPI_Count bytes_ = 0;
  void* stream_ = nullptr;
  std::unique_lock<std::mutex> lock_;  ///< of the kernels
  ffi::Error* error_ = nullptr;
};

ffi::Error* allreduce(const Call& call) {
  const void* from = call.in() == call.out() ? MPI_IN_PLACE : call.in();
  const auto function = call.of(MPI_Allreduce_c, MPIX_Allreduce_enqueue_c);
  return call.end(function(from, call.out(), call.in_count(), call.type(), call.op(), call.comm()));
}

ffi::Error* reduce_scatter(const Call& call) {
  const auto function = call.of(MPI_Reduce_scatter_block_c, MPIX_Reduce_scatter_block_enqueue_c);
  return call.end(function(call.in(), call.out(), call.out_count(), call.type(), call.op(), call.comm()));
}

ffi::Error* allgather(const Call& call) {
  const MPI_Count bytes = call.in_bytes();
  const auto function = call.of(MPI_Allgather_c, MPIX_Allgather_enqueue_c);
  return call.end(function(call.in(), bytes, MPI_BYTE, call.out(), bytes, MPI_BYTE, call.comm()));
}

ffi::Error* alltoall(const Call& call) {
  int size = 1;
  MPI_Comm_size(call.comm(), &size);
  const MPI_Count bytes = call.in_bytes() / size;
  const auto function = call.of(MPI_Alltoall_c, MPIX_Alltoall_enqueue_c);
  return call.end(function(call.in(), bytes, MPI_BYTE, call.out(), bytes, MPI_BYTE, call.comm()));
}

/// The operand and the result are the same buffer (operand_output_aliases).
ffi::Error* bcast(const Call& call) {
  const auto function = call.of(MPI_Bcast_c, MPIX_Bcast_enqueue_c);
  return call.end(function(call.out(), call.out_bytes(), MPI_BYTE, call.number("root"), call.comm()));
}

/// A negative number: no process.
int process(const Call& call, const char* name) {
  const int rank = call.number(name);
  return rank < 0 ? MPI_PROC_NULL : rank;
}

/// Both messages in the stream, behind which it waits for them.
ffi::Error* exchange(const Call& call, int source) {
  MPI_Request requests[2] = {MPI_REQUEST_NULL, MPI_REQUEST_NULL};
  int code = MPIX_Irecv_enqueue_c(call.out(), call.out_bytes(), MPI_BYTE, source, call.number("recvtag"),
                                  call.comm(), &requests[0]);
  if (code != MPI_SUCCESS) return call.end(code);
  code = MPIX_Isend_enqueue_c(call.in(), call.in_bytes(), MPI_BYTE, process(call, "dest"),
                              call.number("sendtag"), call.comm(), &requests[1]);
  return call.end(code != MPI_SUCCESS ? code : MPIX_Waitall_enqueue(2, requests, MPI_STATUSES_IGNORE));
}

ffi::Error* sendrecv(const Call& call) {
  const int source = process(call, "source");
  if (source == MPI_PROC_NULL)
    if (ffi::Error* failed = call.clear(); failed != nullptr) return failed;
  if (call.in_kernels()) return exchange(call, source);
  return call.end(MPI_Sendrecv_c(call.in(), call.in_bytes(), MPI_BYTE, process(call, "dest"),
                                 call.number("sendtag"), call.out(), call.out_bytes(), MPI_BYTE, source,
                                 call.number("recvtag"), call.comm(), MPI_STATUS_IGNORE));
}

ffi::Error* barrier(const Call& call) { return call.end(MPI_Barrier(call.comm())); }

/// Answers XLA's question for the version of the interface.
void describe(const Frame& frame, bool in_graphs, ffi::Metadata& metadata) {
  const ffi::Version& known = frame.api->version;
  metadata.version.major = ffi::kMajor;
  metadata.version.minor =
      known.major == ffi::kMajor && known.minor < ffi::kMinor ? known.minor : ffi::kMinor;
  metadata.traits = in_graphs ? ffi::kCommandBufferCompatible : 0;
}

template <Call::Memory memory, bool in_graphs = false>
ffi::Error* handle(Frame* frame, ffi::Error* (*run)(const Call&)) {
  if (frame->extensions != nullptr && frame->extensions->type == ffi::kMetadataExtension) {
    describe(*frame, in_graphs, *reinterpret_cast<ffi::MetadataExtension*>(frame->extensions)->metadata);
    return nullptr;
  }
  if (frame->stage != ffi::Stage::execute) return nullptr;
  if (const std::string* first = state().failure.load(std::memory_order_acquire); first != nullptr)
    return fail(*frame, *first, ffi::kInternal);
  const Call call(*frame, memory);
  return call.refused() ? call.error() : run(call);
}

}  // namespace
}  // namespace weft::jax

extern "C" {

#define WEFT_X(name)                                                     \
  WEFT_EXPORT void* weft_jax_##name(void* frame) {                       \
    using namespace weft::jax;                                           \
    return handle<Call::Memory::host>(static_cast<Frame*>(frame), name); \
  }                                                                      \
  WEFT_EXPORT void* weft_jax_##name##_gpu(void* frame) {                 \
    using namespace weft::jax;                                           \
    return handle<Call::Memory::gpu>(static_cast<Frame*>(frame), name);  \
  }
WEFT_X(allreduce)
WEFT_X(reduce_scatter)
WEFT_X(allgather)
WEFT_X(alltoall)
WEFT_X(bcast)
WEFT_X(sendrecv)
WEFT_X(barrier)
#undef WEFT_X

#define WEFT_X(name, in_graphs)                                                        \
  WEFT_EXPORT void* weft_jax_##name##_kernel(void* frame) {                            \
    using namespace weft::jax;                                                         \
    return handle<Call::Memory::kernels, in_graphs>(static_cast<Frame*>(frame), name); \
  }
WEFT_X(allreduce, true)
WEFT_X(reduce_scatter, true)
WEFT_X(allgather, true)
WEFT_X(alltoall, true)
WEFT_X(bcast, true)
WEFT_X(sendrecv, false)  // a message in a graph keeps a state of its own, and XLA may capture it often
#undef WEFT_X

/// Returns whether the communicator has kernels that reduce XLA's element type `type` by `op`; equal on all
/// ranks. Without elements nothing is enqueued.
WEFT_EXPORT int weft_jax_reduces(int index, int type, int64_t op) {
  using namespace weft::jax;
  Kernels* const kernels = state().kernels[index].get();
  const MPI_Datatype datatype = datatype_of(static_cast<ffi::Type>(type));
  if (kernels == nullptr || datatype == MPI_DATATYPE_NULL) return 0;
  const std::lock_guard lock(kernels->mutex());
  return MPIX_Allreduce_enqueue_c(MPI_IN_PLACE, &type, 0, datatype, reinterpret_cast<MPI_Op>(op),
                                  kernels->comm()) == MPI_SUCCESS;
}

}  // extern "C"
