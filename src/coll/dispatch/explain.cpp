// SPDX-License-Identifier: BSD-3-Clause
#include "coll/dispatch/explain.hpp"

#include <algorithm>
#include <optional>
#include <sstream>
#include <vector>

#include "base/fields.hpp"
#include "coll/dispatch/path.hpp"
#include "coll/gpu/direct_buffers.hpp"
#include "coll/gpu/plan.hpp"
#include "coll/gpu/region_pool.hpp"
#include "coll/select/table.hpp"
#include "datatype/predefined.hpp"
#include "device/info.hpp"

namespace weft::coll {
namespace {

using enum Collective;

constexpr uint64_t kMaxBytes = uint64_t{1} << 40;                // bytes
constexpr uintptr_t kByte = 0x247, kFloat = 0x210, kSum = 0x21;  // handles in the ABI
constexpr Collective kVectors[] = {allreduce, reduce, bcast, scan, exscan};
constexpr Collective kBlocks[] = {allgather, alltoall, gather, scatter, reduce_scatter_block};

struct Query {
  Collective what = allreduce;
  int ranks = 2;
  bool device = true;
  uint64_t bytes = uint64_t{64} << 20;
};

template <class List>
bool among(const List& list, Collective what) {
  return std::find(std::begin(list), std::end(list), what) != std::end(list);
}

std::optional<Collective> named(const std::string& text) {
  for (int i = 0; i < kCollectives; ++i)
    if (const auto what = static_cast<Collective>(i);
        text == name(what) && (among(kVectors, what) || among(kBlocks, what)))
      return what;
  return std::nullopt;
}

bool parse_field(Query& query, const std::string& key, const std::string& value) {
  if (key == "what") {
    const auto what = named(value);
    if (what) query.what = *what;
    return what.has_value();
  }
  if (key == "ranks") {
    const auto ranks = parse_number(value, 1, 4096);
    if (ranks) query.ranks = static_cast<int>(*ranks);
    return ranks.has_value();
  }
  if (key == "kind") {
    query.device = value == "cuda";
    return query.device || value == "host";
  }
  const auto bytes = parse_number(value, 1, kMaxBytes);
  if (bytes) query.bytes = *bytes;
  return key == "bytes" && bytes.has_value();
}

Result<Query> parse(const std::string& text) {
  Query query;
  WEFT_TRY(
      parse_fields(text,
                   "what=allreduce, reduce, bcast, scan, exscan, allgather, alltoall, gather, scatter or "
                   "reduce_scatter_block, ranks=NUMBER, kind=host or cuda, bytes=NUMBER",
                   [&](const auto& key, const auto& value) { return parse_field(query, key, value); }));
  return query;
}

/// Number of GPUs with which the protocol thresholds were measured (bench/results/collectives*.json). For
/// other numbers the thresholds are derived from the total bytes that one GPU sends.
constexpr int kMeasuredRanks = 2;

/// A call without buffers; reductions add floats.
Call sample_call(const Query& query, uint64_t bytes) {
  const bool reduction = query.what == reduce || query.what == allreduce || query.what == scan ||
                         query.what == exscan || query.what == reduce_scatter_block;
  Call call;
  call.what = query.what;
  call.size = query.ranks;
  call.op = reduction ? core::Op::predefined(kSum) : nullptr;
  const datatype::Datatype* const type = datatype::predefined(reduction ? kFloat : kByte);
  const auto count = std::max<int64_t>(1, static_cast<int64_t>(bytes) / type->size());
  for (Operand* operand : {&call.send, &call.recv}) {
    operand->type = type;
    operand->count = count;
    operand->blocks = query.ranks;
  }
  call.bytes = static_cast<uint64_t>(count * type->size());
  if (query.what == reduce_scatter_block) call.bytes *= static_cast<uint64_t>(query.ranks);
  return call;
}

constexpr const char* kProtocols[] = {"LL", "LL128", "Simple", "mapped buffers"};

const char* form_of(const Call& call, const gpu::Plan& plan) {
  using Form = device::kernel::Collective;
  if (plan.protocol == device::Protocol::direct) return among(kVectors, call.what) ? "parts" : "direct";
  if (plan.collective.form == Form::two_shot) return "parts";
  return call.op != nullptr && call.what != reduce_scatter_block ? "whole vectors" : "direct";
}

/// True if NVLink connects all local GPUs, or if there are none: the thresholds were measured with NVLink.
bool detect_nvlink() {
  const auto here = device::devices(device::Initialise::yes);
  if (!here) return true;
  std::vector<device::GpuId> gpus;
  for (const auto& device : *here)
    if (const auto id = device::id_of(device.ordinal)) gpus.push_back(*id);
  return device::all_have_nvlink(gpus);
}

void explain_kernels(std::ostream& out, const Call& call, uint64_t largest) {
  const uint64_t data_bytes = gpu::region_data_bytes();
  static const bool nvlink = detect_nvlink();
  const auto capacity = gpu::RegionCapacity::of_region(static_cast<uint32_t>(call.size), nvlink, data_bytes);
  const gpu::Plan plan = gpu::wants_direct_buffers(call, largest)
                             ? gpu::direct_buffers_plan(call, largest, data_bytes, 0)
                             : gpu::make_plan(call, largest, capacity);
  out << "\"path\": \"kernels\", \"form\": \"" << form_of(call, plan) << "\", \"protocol\": \""
      << kProtocols[static_cast<size_t>(plan.protocol)] << "\", \"blocks\": " << plan.blocks
      << ", \"doorbell\": " << (plan.command ? "true" : "false");
}

void explain_row(std::ostream& out, const Query& query, uint64_t bytes) {
  const Call call = sample_call(query, bytes);
  const bool forced = select::forced(call.what);
  const uint64_t largest = gpu::largest_message(call, {});
  out << "{\"bytes\": " << bytes << ", ";
  if (query.device && !forced && gpu::supports(call) &&
      (gpu::kernels_faster(call, largest) || gpu::wants_direct_buffers(call, largest)))
    explain_kernels(out, call, largest);
  else if (!query.device && dispatch::may_use_slots(call))
    out << "\"path\": \"shared memory\"";
  else
    out << "\"path\": \"messages\", \"algorithm\": \"" << dispatch::choose(call).name << "\"";
  out << "}";
}

}  // namespace

Result<std::string> explain(const std::string& text) {
  auto query = parse(text);
  if (!query) return std::move(query).error();
  std::ostringstream out;
  out << "{\"what\": \"" << name(query->what) << "\", \"ranks\": " << query->ranks << ", \"kind\": \""
      << (query->device ? "cuda" : "host") << "\", \"of\": \""
      << (among(kVectors, query->what) ? "vector" : "block") << "\", ";
  if (query->device) out << "\"measured_ranks\": " << kMeasuredRanks << ", ";
  out << "\"rows\": [";
  const char* separator = "";
  for (uint64_t bytes = 1; bytes <= query->bytes; bytes *= 2) {
    out << separator;
    explain_row(out, *query, bytes);
    separator = ", ";
  }
  out << "]}";
  return out.str();
}

}  // namespace weft::coll
