// SPDX-License-Identifier: BSD-3-Clause
#include "coll/explain.hpp"

#include <algorithm>
#include <cstdlib>
#include <optional>
#include <sstream>
#include <vector>

#include "coll/gpu/direct.hpp"
#include "coll/gpu/plan.hpp"
#include "coll/gpu/scratch.hpp"
#include "coll/select/table.hpp"
#include "coll/shared/shared.hpp"
#include "datatype/predefined.hpp"
#include "device/info.hpp"

namespace weft::coll {
namespace {

using enum Collective;

constexpr uint64_t kMost = uint64_t{1} << 40;                    // bytes
constexpr uintptr_t kByte = 0x247, kFloat = 0x210, kSum = 0x21;  // handles in the ABI
constexpr Collective kVectors[] = {allreduce, reduce, bcast, scan, exscan};
constexpr Collective kBlocks[] = {allgather, alltoall, gather, scatter, reduce_scatter_block};

struct Question {
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

std::optional<uint64_t> number(const std::string& text, uint64_t least, uint64_t most) {
  if (text.empty() || text.find_first_not_of("0123456789") != std::string::npos) return std::nullopt;
  const uint64_t value = std::strtoull(text.c_str(), nullptr, 10);
  return value < least || value > most ? std::nullopt : std::optional(value);
}

bool understood(Question& question, const std::string& key, const std::string& value) {
  if (key == "what") {
    const auto what = named(value);
    if (what) question.what = *what;
    return what.has_value();
  }
  if (key == "ranks") {
    const auto ranks = number(value, 1, 4096);
    if (ranks) question.ranks = static_cast<int>(*ranks);
    return ranks.has_value();
  }
  if (key == "kind") {
    question.device = value == "cuda";
    return question.device || value == "host";
  }
  const auto bytes = number(value, 1, kMost);
  if (bytes) question.bytes = *bytes;
  return key == "bytes" && bytes.has_value();
}

Result<Question> parse(const std::string& query) {
  Question question;
  std::istringstream words(query);
  for (std::string word; words >> word;) {
    const size_t equals = word.find('=');
    if (equals == std::string::npos || !understood(question, word.substr(0, equals), word.substr(equals + 1)))
      return Error(Errc::arg,
                   "'" + word +
                       "' is not understood: what=allreduce, reduce, bcast, scan, exscan, allgather, "
                       "alltoall, gather, scatter or reduce_scatter_block, ranks=NUMBER, kind=host or "
                       "cuda, bytes=NUMBER");
  }
  return question;
}

/// GPUs with which the sizes were measured at which kernels change their method
/// (bench/results/collectives*.json). For others they are derived: what one GPU sends in all counts, not the
/// length of a vector.
constexpr int kMeasuredRanks = 2;

/// A call without buffers, of floats where they are added.
Call imagined(const Question& question, uint64_t bytes) {
  const bool reduction = question.what == reduce || question.what == allreduce || question.what == scan ||
                         question.what == exscan || question.what == reduce_scatter_block;
  Call call;
  call.what = question.what;
  call.size = question.ranks;
  call.op = reduction ? core::Op::predefined(kSum) : nullptr;
  const datatype::Datatype* const type = datatype::predefined(reduction ? kFloat : kByte);
  const auto count = std::max<int64_t>(1, static_cast<int64_t>(bytes) / type->size());
  for (Operand* operand : {&call.send, &call.recv}) {
    operand->type = type;
    operand->count = count;
    operand->blocks = question.ranks;
  }
  call.bytes = static_cast<uint64_t>(count * type->size());
  if (question.what == reduce_scatter_block) call.bytes *= static_cast<uint64_t>(question.ranks);
  return call;
}

constexpr const char* kWires[] = {"packets", "lines", "pieces", "mapped buffers"};

const char* form_of(const Call& call, const gpu::Plan& plan) {
  using Form = device::kernel::Collective;
  if (plan.wire == device::Wire::direct) return among(kVectors, call.what) ? "parts" : "direct";
  if (plan.collective.form == Form::two_shot) return "parts";
  return call.op != nullptr && call.what != reduce_scatter_block ? "whole vectors" : "direct";
}

/// Whether NVLink lies between the GPUs that are here; without any: as on the machines that the tables are
/// of.
bool look_for_links() {
  const auto here = device::devices(device::Initialise::yes);
  if (!here) return true;
  std::vector<int> devices;
  for (const auto& device : *here) devices.push_back(device.ordinal);
  return device::all_have_nvlink(devices);
}

void by_kernels(std::ostream& out, const Call& call, uint64_t largest) {
  const uint64_t pieces = gpu::wants_large_area(largest) ? gpu::large_area_data() : gpu::area_data();
  static const bool linked = look_for_links();
  const auto room = gpu::Room::of_area(static_cast<uint32_t>(call.size), linked, pieces);
  const gpu::Plan plan = gpu::wants_direct(call, largest) ? gpu::direct_plan(call, largest, pieces)
                                                          : gpu::make_plan(call, largest, room);
  out << "\"way\": \"kernels\", \"form\": \"" << form_of(call, plan) << "\", \"wire\": \""
      << kWires[static_cast<size_t>(plan.wire)] << "\", \"blocks\": " << plan.blocks
      << ", \"bell\": " << (plan.small ? "true" : "false");
}

void row(std::ostream& out, const Question& question, uint64_t bytes) {
  const Call call = imagined(question, bytes);
  const bool forced = select::forced(call.what);
  const uint64_t largest = gpu::largest_message(call, {});
  out << "{\"bytes\": " << bytes << ", ";
  if (question.device && !forced && gpu::suits(call) &&
      (gpu::pays(call, largest) || gpu::wants_direct(call, largest)))
    by_kernels(out, call, largest);
  else if (!question.device && shared::possible(call))
    out << "\"way\": \"shared memory\"";
  else
    out << "\"way\": \"messages\", \"algorithm\": \"" << select::choose(call).name << "\"";
  out << "}";
}

}  // namespace

Result<std::string> explain(const std::string& query) {
  auto question = parse(query);
  if (!question) return std::move(question).error();
  std::ostringstream out;
  out << "{\"what\": \"" << name(question->what) << "\", \"ranks\": " << question->ranks << ", \"kind\": \""
      << (question->device ? "cuda" : "host") << "\", \"of\": \""
      << (among(kVectors, question->what) ? "vector" : "block") << "\", ";
  if (question->device) out << "\"measured_ranks\": " << kMeasuredRanks << ", ";
  out << "\"rows\": [";
  const char* separator = "";
  for (uint64_t bytes = 1; bytes <= question->bytes; bytes *= 2) {
    out << separator;
    row(out, *question, bytes);
    separator = ", ";
  }
  out << "]}";
  return out.str();
}

}  // namespace weft::coll
