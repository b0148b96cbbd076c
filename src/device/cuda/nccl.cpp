// SPDX-License-Identifier: BSD-3-Clause
#include "device/nccl.hpp"

#include <dlfcn.h>

#include <cstring>
#include <optional>
#include <string>
#include <utility>

#include "base/config.hpp"
#include "base/secure.hpp"
#include "device/cuda/context.hpp"

namespace weft::device {
namespace {

config::Path library{"coll.nccl_library", "libnccl.so.2", "Name or path of the NCCL library for coll.nccl.",
                     "NCCL is installed outside the linker's search path"};

/// The used part of the binary interface of NCCL 2.
struct Id {
  char bytes[128];
};
struct Api {
  int (*get_id)(Id*);
  int (*init)(void**, int, Id, int);
  int (*destroy)(void*);
  int (*all_reduce)(const void*, void*, size_t, int, int, void*, void*);
  int (*reduce)(const void*, void*, size_t, int, int, int, void*, void*);
  int (*reduce_scatter)(const void*, void*, size_t, int, int, void*, void*);
  const char* (*error_string)(int);
};

Error missing(const char* what) {
  return Error(Errc::unsupported, std::string(what) + " of NCCL is not available (" + secure::open_error() +
                                      "): set WEFT_COLL_NCCL_LIBRARY to its path, or coll.nccl off");
}

Result<Api> open() {
  void* const handle = secure::open_library(library.value(), RTLD_NOW | RTLD_LOCAL);
  if (handle == nullptr) return missing("the library");
  Api api{};
  const auto find = [&](const char* name, auto& function) {
    void* const symbol = ::dlsym(handle, name);
    std::memcpy(&function, &symbol, sizeof symbol);
    return symbol != nullptr;
  };
  if (find("ncclGetUniqueId", api.get_id) && find("ncclCommInitRank", api.init) &&
      find("ncclCommDestroy", api.destroy) && find("ncclAllReduce", api.all_reduce) &&
      find("ncclReduce", api.reduce) && find("ncclReduceScatter", api.reduce_scatter) &&
      find("ncclGetErrorString", api.error_string))
    return api;
  return missing("a function");
}

/// Opens the library on first use. Never unloaded, since NCCL runs threads.
Result<Api>& api() {
  static Result<Api> opened = open();
  return opened;
}

Error failed(const char* call, int code) {
  return Error(Errc::other, std::string("NCCL: ") + call + ": " + api()->error_string(code));
}

/// ncclDataType_t
std::optional<int> type_of(kernel::Element element) {
  using enum kernel::Element;
  switch (element) {
    case int8:
      return 0;
    case uint8:
      return 1;
    case int32:
      return 2;
    case uint32:
      return 3;
    case int64:
      return 4;
    case uint64:
      return 5;
    case float16:
      return 6;
    case float32:
      return 7;
    case float64:
      return 8;
    case bfloat16:
      return 9;
    default:
      return std::nullopt;
  }
}

/// ncclRedOp_t
std::optional<int> op_of(kernel::ReduceOp op) {
  using enum kernel::ReduceOp;
  switch (op) {
    case sum:
      return 0;
    case prod:
      return 1;
    case max:
      return 2;
    case min:
      return 3;
    default:
      return std::nullopt;
  }
}

Error no_context(cuda::Code code) {
  return cuda::failure(code, "cuCtxPushCurrent", "the GPU's context cannot be used for NCCL");
}

}  // namespace

Result<Nccl::Id> Nccl::make_id() {
  if (!api()) return Error(Errc::unsupported, api().error().message());
  weft::device::Id made{};
  if (const int code = api()->get_id(&made); code != 0) return failed("ncclGetUniqueId", code);
  Id id;
  std::memcpy(id.data(), made.bytes, id.size());
  return id;
}

Result<std::unique_ptr<Nccl>> Nccl::join(const Id& id, int rank, int size, const Memory& near) {
  if (!api()) return Error(Errc::unsupported, api().error().message());
  auto context = cuda::context_of(near);
  if (!context) return std::move(context).error();
  std::unique_ptr<Nccl> made(new Nccl);
  made->context_ = *context;
  const cuda::CurrentContext current(*context);
  if (current.code() != cuda::kSuccess) return no_context(current.code());
  const cuda::RelaxedCapture relaxed;
  WEFT_CUDA_TRY(stream_create_with_priority, "a stream for NCCL cannot be created", &made->stream_,
                cuda::kStreamNonBlocking, cuda::kHighestPriority);
  weft::device::Id given{};
  std::memcpy(given.bytes, id.data(), id.size());
  if (const int code = api()->init(&made->comm_, size, given, rank); code != 0)
    return failed("ncclCommInitRank", code);
  return made;
}

Nccl::~Nccl() {
  if (!available()) return;
  const cuda::CurrentContext current(context_);
  if (current.code() != cuda::kSuccess) return;
  if (comm_ != nullptr) static_cast<void>(api()->destroy(comm_));
  if (stream_ != nullptr) cuda::driver().stream_destroy(stream_);
}

bool Nccl::computes(kernel::Reduction reduction) {
  return type_of(reduction.element).has_value() && op_of(reduction.op).has_value();
}

Status Nccl::start(Kind kind, const void* in, void* out, size_t count, kernel::Reduction reduction,
                   int root) {
  const cuda::CurrentContext current(context_);
  if (current.code() != cuda::kSuccess) return no_context(current.code());
  const cuda::RelaxedCapture relaxed;
  const int type = type_of(reduction.element).value_or(-1), op = op_of(reduction.op).value_or(-1);
  int code = 0;
  switch (kind) {
    case Kind::all_reduce:
      code = api()->all_reduce(in, out, count, type, op, comm_, stream_);
      break;
    case Kind::reduce:
      code = api()->reduce(in, out, count, type, op, root, comm_, stream_);
      break;
    case Kind::reduce_scatter:
      code = api()->reduce_scatter(in, out, count, type, op, comm_, stream_);
      break;
  }
  if (code != 0) return failed("a reduction", code);
  return {};
}

Result<bool> Nccl::done() {
  const cuda::CurrentContext current(context_);
  if (current.code() != cuda::kSuccess) return no_context(current.code());
  const cuda::RelaxedCapture relaxed;
  const cuda::Code code = cuda::driver().stream_query(stream_);
  if (code == cuda::kSuccess || code == cuda::kNotReady) return code == cuda::kSuccess;
  return cuda::failure(code, "cuStreamQuery", "a reduction by NCCL failed on the GPU");
}

}  // namespace weft::device
