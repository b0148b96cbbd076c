// SPDX-License-Identifier: BSD-3-Clause
#include "rma/explain.hpp"

#include <algorithm>
#include <optional>
#include <sstream>
#include <string_view>

#include "base/fields.hpp"
#include "base/json.hpp"
#include "device/copy.hpp"
#include "device/info.hpp"
#include "device/window.hpp"
#include "rma/operation_slot.hpp"
#include "transport/cuda_ipc/ipc.hpp"
#include "transport/rma/rma.hpp"
#include "transport/shm/single_copy.hpp"

namespace weft::rma {
namespace {

using transport::rma::Path;

constexpr std::string_view kCalls[] = {
    "put", "get", "accumulate", "get_accumulate", "fetch_and_op", "compare_and_swap"};
constexpr std::string_view kKinds[] = {"host", "pinned", "cuda", "mapped", "pool", "managed"};
constexpr uint64_t kMaxBytes = uint64_t{1} << 40;

struct Query {
  std::string what = "put", kind = "cuda", to;
  bool allocate = false;  ///< MPI_Win_allocate, or memory of MPI_Alloc_mem
  uint64_t bytes = uint64_t{64} << 20;
  [[nodiscard]] bool moves() const { return what == "put" || what == "get"; }
  [[nodiscard]] bool one_element() const { return what == "fetch_and_op" || what == "compare_and_swap"; }
  /// Memory that only the GPU accesses.
  [[nodiscard]] static bool on_device(const std::string& kind) {
    return kind == "cuda" || kind == "mapped" || kind == "pool";
  }
};

template <size_t n>
bool among(const std::string_view (&list)[n], const std::string& text) {
  return std::find(std::begin(list), std::end(list), text) != std::end(list);
}

bool parse_field(Query& query, const std::string& key, const std::string& value) {
  if (key == "what") return query.what = value, among(kCalls, value);
  if (key == "kind") return query.kind = value, among(kKinds, value);
  if (key == "to") return query.to = value, among(kKinds, value);
  if (key == "window") return query.allocate = value == "allocate", query.allocate || value == "create";
  const auto bytes = parse_number(value, 1, kMaxBytes);
  if (bytes) query.bytes = *bytes;
  return key == "bytes" && bytes.has_value();
}

Result<Query> parse(const std::string& text) {
  Query query;
  WEFT_TRY(
      parse_fields(text,
                   "what=put, get, accumulate, get_accumulate, fetch_and_op or compare_and_swap, kind=KIND "
                   "and to=KIND (host, pinned, cuda, mapped, pool, managed), window=create or allocate, "
                   "bytes=NUMBER",
                   [&](const auto& key, const auto& value) { return parse_field(query, key, value); }));
  if (query.to.empty()) query.to = query.kind;
  return query;
}

struct Prediction {
  Path path = Path::message;
  const char* by = "the target's CPU, which must make progress";
  bool resident_kernel = false;  ///< takes operations in quick succession
  const char* reason = "";       ///< why no better path is possible
};

/// The executor of an operation on host memory that this process cannot map.
const char* by_system_calls(const Query& query, uint64_t bytes) {
  const bool slots = operation_slots_enabled() && !Query::on_device(query.kind) && query.to != "managed";
  const bool posts = slots && bytes <= OperationSlot::kMaxBytes;
  const bool shares = slots && bytes >= SharedTransfer::kMinBytes && query.kind != "managed";
  if (query.what == "put")
    return posts    ? "the target's CPU while it is inside of MPI, else process_vm_writev"
           : shares ? "process_vm_writev, shared with a target that is inside of MPI"
                    : "process_vm_writev";
  if (query.what == "get")
    return posts    ? "the target's CPU while it is inside of MPI, else process_vm_readv"
           : shares ? "process_vm_readv, shared with a target that is inside of MPI"
                    : "process_vm_readv";
  return posts ? "the target's CPU while it is inside of MPI, else process_vm_readv and process_vm_writev, "
                 "with the "
                 "accumulate lock of the target"
               : "process_vm_readv and process_vm_writev, with the accumulate lock of the target";
}

/// The window memory is host memory.
Prediction to_host(const Query& query, uint64_t bytes) {
  const bool device_origin = Query::on_device(query.kind);
  if (query.allocate)
    return {Path::direct,
            device_origin   ? "a copy engine of the origin's GPU"
            : query.moves() ? "loads and stores of the origin's CPU"
                            : "the origin's CPU, which holds the accumulate lock of the target",
            false, ""};
  if (!transport::shm::single_copy_enabled()) return {.reason = "WEFT_SHM_SINGLE_COPY=off"};
  return {Path::process_vm, by_system_calls(query, bytes), false,
          device_origin ? "staged: the origin is in GPU memory" : ""};
}

/// The window memory is on a GPU that the origin's GPU can access.
Prediction to_gpu(const Query& query, uint64_t bytes) {
  if (!query.moves())
    return {Path::direct, "atomic operations of a kernel (elements of up to 8 bytes)",
            bytes <= device::kResidentAccumulateBytes, ""};
  const bool by_kernel = query.kind != "host" && device::kernel_options_for(bytes).resident_blocks != 0;
  return {Path::direct, "a copy engine", by_kernel, ""};
}

Prediction predict(const Query& query, const device::GpuSurvey& gpus, uint64_t bytes) {
  if (query.to == "managed") {
    constexpr const char* kMigrates = "the driver may migrate a page of managed memory during a system call";
    Query read = query;
    read.allocate = false;
    if (query.what == "get") return to_host(read, bytes);
    return {.reason = kMigrates};
  }
  if (!Query::on_device(query.to)) return to_host(query, bytes);
  if (query.to == "pool") return {.reason = "memory of a pool has no handle for other processes"};
  if (query.to == "mapped" && !transport::cuda_ipc::descriptor_sharing_enabled())
    return {.reason = "cuMemMap memory is not shared by descriptors here"};
  if (!gpus.access) return {.reason = "the GPUs cannot access each other's memory"};
  return to_gpu(query, bytes);
}

void write(std::ostream& out, uint64_t bytes, const Prediction& row) {
  out << "{\"bytes\": " << bytes << ", \"path\": " << json_string(name(row.path))
      << ", \"by\": " << json_string(row.by)
      << ", \"resident_kernel\": " << (row.resident_kernel ? "true" : "false")
      << ", \"target_progress\": " << (row.path == Path::message ? "true" : "false")
      << ", \"reason\": " << json_string(row.reason) << "}";
}

}  // namespace

Result<std::string> explain(const std::string& text) {
  auto query = parse(text);
  if (!query) return std::move(query).error();
  const bool gpu = query->kind != "host" || query->to != "host";
  const device::GpuSurvey gpus = gpu ? device::survey_gpus() : device::GpuSurvey();
  std::ostringstream out;
  out << "{\"what\": " << json_string(query->what) << ", \"kind\": " << json_string(query->kind)
      << ", \"to\": " << json_string(query->to)
      << ", \"window\": " << (query->allocate ? "\"allocate\"" : "\"create\"")
      << ", \"devices\": " << gpus.devices << ", \"no_gpu\": " << json_string(gpus.no_gpu_reason)
      << ", \"rows\": [";
  const char* separator = "";
  const uint64_t most = query->one_element() ? 8 : query->bytes;
  for (uint64_t bytes = query->one_element() ? 8 : 1;; bytes = std::min(bytes * 2, most)) {
    out << separator;
    write(out, bytes, predict(*query, gpus, bytes));
    separator = ", ";
    if (bytes >= most) break;
  }
  out << "]}";
  return out.str();
}

}  // namespace weft::rma
