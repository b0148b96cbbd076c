// SPDX-License-Identifier: BSD-3-Clause
// Predicts the protocol of a message between two processes of this host, with the engine's own selection
// functions.
#include <algorithm>
#include <optional>
#include <sstream>
#include <vector>

#include "base/fields.hpp"
#include "base/json.hpp"
#include "device/bar.hpp"
#include "device/copy.hpp"
#include "device/info.hpp"
#include "p2p/engine/choice.hpp"
#include "p2p/p2p.hpp"
#include "p2p/protocol/all.hpp"
#include "p2p/protocol/device/choice.hpp"
#include "p2p/protocol/table.hpp"
#include "transport/cuda_ipc/ipc.hpp"

namespace weft::p2p {
namespace {

using device::MemoryKind;

/// Whether and how a peer can map memory.
enum class Sharing : uint8_t { none, handle, descriptors };

/// A memory kind as named by `weft explain`.
struct NamedKind {
  const char* name;
  MemoryKind kind;
  Sharing sharing;
  [[nodiscard]] bool exportable() const {
    return sharing == Sharing::handle ||
           (sharing == Sharing::descriptors && transport::cuda_ipc::descriptor_sharing_enabled());
  }
};
constexpr NamedKind kKinds[] = {{"host", MemoryKind::host, Sharing::none},
                                {"pinned", MemoryKind::host_pinned, Sharing::none},
                                {"cuda", MemoryKind::cuda_device, Sharing::handle},
                                {"mapped", MemoryKind::cuda_device, Sharing::descriptors},
                                {"pool", MemoryKind::cuda_device, Sharing::none},
                                {"managed", MemoryKind::cuda_managed, Sharing::none}};

constexpr uint64_t kMaxBytes = uint64_t{1} << 50;  // bytes

struct Query {
  NamedKind from = kKinds[2], to = kKinds[2];
  uint64_t bytes = uint64_t{64} << 20;
  uint64_t block = 0;  ///< bytes per run of the sender's data; 0: contiguous
};

bool parse_kind(NamedKind& kind, const std::string& name) {
  const auto* const at = std::find_if(std::begin(kKinds), std::end(kKinds),
                                      [&](const NamedKind& one) { return name == one.name; });
  if (at == std::end(kKinds)) return false;
  kind = *at;
  return true;
}

Result<Query> parse(const std::string& text) {
  Query query;
  std::optional<NamedKind> to;
  WEFT_TRY(parse_fields(text,
                        "kind=KIND, to=KIND (host, pinned, cuda, mapped, pool, managed), bytes=NUMBER, "
                        "block=NUMBER",
                        [&](const std::string& key, const std::string& value) {
                          if (key == "kind") return parse_kind(query.from, value);
                          if (key == "to") return parse_kind(to.emplace(), value);
                          const auto bytes = parse_number(value, 0, kMaxBytes);
                          if (bytes) (key == "bytes" ? query.bytes : query.block) = *bytes;
                          return (key == "bytes" || key == "block") && bytes.has_value();
                        }));
  query.to = to.value_or(query.from);
  return query;
}

struct Prediction {
  const Protocol* protocol = &kEager;
  unsigned cost = 2;  ///< copies of the payload
  device::KernelOptions kernel_options{};
  bool eager_pack = false;  ///< packed when it is sent
  bool put = false;         ///< put by the sender if the receive is posted first
};

Prediction predict(const Query& query, const device::GpuSurvey& machine, uint64_t bytes) {
  Prediction result;
  const bool contiguous = query.block == 0 || query.block >= bytes;
  if (sends_eagerly(query.from.kind, bytes, eager_limit_of(UINT64_MAX)) ||
      (contiguous && query.from.sharing == Sharing::handle && bytes <= device::kMaxBarRead &&
       device::bar_ready()))
    return result;
  MessageInfo message;
  message.to = query.to.kind;
  message.device = device_side(query.from.kind);
  message.contiguous = contiguous;
  message.bytes = bytes;
  if (message.device) {
    message.region = machine.access;
    const RtsSource source = rts_source(query.from.kind, contiguous, query.from.exportable());
    message.strided =
        source == RtsSource::strided && query.from.exportable() && prefers_strided_get(query.block, bytes);
    message.bounce = source == RtsSource::bounce || (source == RtsSource::strided && !message.strided);
  }
  result.protocol = protocol_table().select(message);
  result.cost = cost_of(*result.protocol, message);
  result.eager_pack = result.protocol == &kBounce && bytes <= eager_pack_limit();
  if (result.protocol == &kMapped) result.kernel_options = device::kernel_options_for(bytes);
  const auto unmapped = [](const NamedKind& kind) {
    return kind.kind == MemoryKind::cuda_device && !kind.exportable();
  };
  const bool put_bounce = unmapped(query.from) && unmapped(query.to) && may_put_bounce(bytes);
  result.put = contiguous && message.region && (query.to.exportable() ? may_put(bytes) : put_bounce);
  return result;
}

void write(std::ostream& out, uint64_t bytes, const Prediction& row) {
  out << "{\"bytes\": " << bytes << ", \"protocol\": " << json_string(row.protocol->name)
      << ", \"text\": " << json_string(row.protocol->text) << ", \"copies\": " << row.cost
      << ", \"resident_blocks\": " << row.kernel_options.resident_blocks
      << ", \"batch_copy\": " << (row.kernel_options.batch_copy ? "true" : "false")
      << ", \"eager_pack\": " << (row.eager_pack ? "true" : "false")
      << ", \"put\": " << (row.put ? "true" : "false") << "}";
}

/// Returns the powers of two below a size, and the size.
std::vector<uint64_t> sizes_up_to(uint64_t max_bytes) {
  std::vector<uint64_t> sizes;
  for (uint64_t size = 1; size < max_bytes; size *= 2) sizes.push_back(size);
  sizes.push_back(max_bytes);
  return sizes;
}

}  // namespace

Result<std::string> explain_send(const std::string& text) {
  auto query = parse(text);
  if (!query) return std::move(query).error();
  const bool gpu = query->from.kind != MemoryKind::host || query->to.kind != MemoryKind::host;
  const device::GpuSurvey machine = gpu ? device::survey_gpus() : device::GpuSurvey();
  std::ostringstream out;
  out << "{\"kind\": " << json_string(query->from.name) << ", \"to\": " << json_string(query->to.name)
      << ", \"devices\": " << machine.devices << ", \"peer_access\": " << (machine.access ? "true" : "false")
      << ", \"no_gpu\": " << json_string(machine.no_gpu_reason) << ", \"rows\": [";
  const char* separator = "";
  for (const uint64_t bytes : sizes_up_to(std::max<uint64_t>(query->bytes, 1))) {
    out << separator;
    write(out, bytes, predict(*query, machine, bytes));
    separator = ", ";
  }
  out << "]}";
  return out.str();
}

}  // namespace weft::p2p
