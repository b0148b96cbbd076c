// SPDX-License-Identifier: BSD-3-Clause
// What would become of a message between two processes of this host: the engine's own choices, made for
// messages that nobody sends.
#include <algorithm>
#include <array>
#include <cstdlib>
#include <sstream>
#include <vector>

#include "device/bar.hpp"
#include "device/copy.hpp"
#include "device/info.hpp"
#include "p2p/p2p.hpp"
#include "p2p/protocol/choice.hpp"
#include "transport/cuda_ipc/ipc.hpp"

namespace weft::p2p {
namespace {

using device::MemoryKind;

/// Whether and how a peer can map memory.
enum class Sharing : uint8_t { none, handle, descriptors };

/// Memory as `weft explain` names it.
struct NamedKind {
  const char* name;
  MemoryKind kind;
  Sharing sharing;
  [[nodiscard]] bool exportable() const {
    return sharing == Sharing::handle ||
           (sharing == Sharing::descriptors && transport::cuda_ipc::shares_descriptors());
  }
};
constexpr NamedKind kKinds[] = {{"host", MemoryKind::host, Sharing::none},
                                {"pinned", MemoryKind::host_pinned, Sharing::none},
                                {"cuda", MemoryKind::cuda_device, Sharing::handle},
                                {"mapped", MemoryKind::cuda_device, Sharing::descriptors},
                                {"pool", MemoryKind::cuda_device, Sharing::none},
                                {"managed", MemoryKind::cuda_managed, Sharing::none}};

constexpr uint64_t kMost = uint64_t{1} << 50;  // bytes

struct Question {
  NamedKind from = kKinds[2], to = kKinds[2];
  uint64_t bytes = uint64_t{64} << 20;
  uint64_t block = 0;  ///< bytes of each run of the sender's data; 0: contiguous
};

Error bad(const std::string& word) {
  return Error(Errc::arg, "'" + word +
                              "' is not understood: kind=KIND, to=KIND (host, pinned, cuda, mapped, pool, "
                              "managed), "
                              "bytes=NUMBER, block=NUMBER");
}

Result<NamedKind> kind_named(const std::string& name, const std::string& word) {
  const auto at = std::find_if(std::begin(kKinds), std::end(kKinds),
                               [&](const NamedKind& kind) { return name == kind.name; });
  if (at == std::end(kKinds)) return bad(word);
  return *at;
}

Result<Question> parse(const std::string& query) {
  Question question;
  bool to_given = false;
  std::istringstream words(query);
  for (std::string word; words >> word;) {
    const size_t equals = word.find('=');
    const std::string key = word.substr(0, equals);
    const std::string value = equals == std::string::npos ? "" : word.substr(equals + 1);
    if (key == "kind" || key == "to") {
      auto kind = kind_named(value, word);
      if (!kind) return std::move(kind).error();
      (key == "to" ? question.to : question.from) = *kind;
      to_given = to_given || key == "to";
    } else if ((key == "bytes" || key == "block") && !value.empty() &&
               value.find_first_not_of("0123456789") == std::string::npos) {
      (key == "bytes" ? question.bytes : question.block) =
          std::min<uint64_t>(std::strtoull(value.c_str(), nullptr, 10), kMost);
    } else {
      return bad(word);
    }
  }
  if (!to_given) question.to = question.from;
  return question;
}

/// What this machine has to offer, as far as one process can find out.
struct Machine {
  int devices = 0;
  bool access = true;  ///< each of its GPUs can map the others' memory
  std::string why;     ///< there is no GPU to be used
};

Machine look() {
  Machine machine;
  auto found = device::devices(device::Initialise::yes);
  if (!found) {
    machine.access = false;
    machine.why = device::available() ? found.error().message() : device::absence();
    return machine;
  }
  machine.devices = static_cast<int>(found->size());
  for (const auto& one : *found)
    for (const auto& other : *found) {
      const auto can = device::can_access_peer(one.ordinal, other.ordinal);
      machine.access = machine.access && can && *can;
    }
  return machine;
}

struct Answer {
  bool eager = false;
  Way way = Way::fragments;
  device::Carriers carriers{};
  bool ahead = false;  ///< packed when it is sent
  bool put = false;    ///< by the sender when the receive comes first
};

Answer answer(const Question& question, const Machine& machine, uint64_t bytes) {
  Answer result;
  const bool contiguous = question.block == 0 || question.block >= bytes;
  result.eager =
      sends_eagerly(question.from.kind, bytes, eager_limit_of(UINT64_MAX)) ||
      (contiguous && question.from.sharing == Sharing::handle && bytes <= device::bar_limits().read);
  if (result.eager) return result;
  Announced message;
  message.device = device_side(question.from.kind);
  message.contiguous = contiguous;
  message.bytes = bytes;
  if (message.device) {
    message.region = machine.access;
    const Offer offer = offer_of(question.from.kind, contiguous, question.from.exportable());
    message.strided =
        offer == Offer::strides && question.from.exportable() && reads_well(question.block, bytes);
    message.scratch = offer == Offer::scratch || (offer == Offer::strides && !message.strided);
  }
  result.way = way_of(question.to.kind, message, [] { return true; });
  result.ahead = result.way == Way::scratch && bytes <= ahead_limit();
  if (result.way == Way::mapped) result.carriers = device::carriers_of(bytes);
  const auto unmapped = [](const NamedKind& kind) {
    return kind.kind == MemoryKind::cuda_device && !kind.exportable();
  };
  const bool aside = unmapped(question.from) && unmapped(question.to) && may_put_aside(bytes);
  result.put = contiguous && message.region && (question.to.exportable() ? may_put(bytes) : aside);
  return result;
}

std::string quoted(const std::string& text) {
  std::string out = "\"";
  for (const char c : text) out += c == '"' || c == '\\' ? std::string("\\") + c : std::string(1, c);
  return out + '"';
}

void write(std::ostream& out, uint64_t bytes, const Answer& row) {
  out << "{\"bytes\": " << bytes << ", \"protocol\": " << quoted(row.eager ? "eager" : name(row.way))
      << ", \"copier_blocks\": " << row.carriers.copier_blocks
      << ", \"list\": " << (row.carriers.list ? "true" : "false")
      << ", \"ahead\": " << (row.ahead ? "true" : "false") << ", \"put\": " << (row.put ? "true" : "false")
      << "}";
}

/// Powers of two, and the size asked for.
std::vector<uint64_t> sizes_up_to(uint64_t most) {
  std::vector<uint64_t> sizes;
  for (uint64_t size = 1; size < most; size *= 2) sizes.push_back(size);
  sizes.push_back(most);
  return sizes;
}

}  // namespace

const char* name(Way way) {
  constexpr std::array<const char*, 7> kNames = {"single copy", "upload",  "mapped",   "strided",
                                                 "scratch",     "offered", "fragments"};
  return kNames[static_cast<size_t>(way)];
}

Result<std::string> explain_send(const std::string& query) {
  auto question = parse(query);
  if (!question) return std::move(question).error();
  const bool gpu = question->from.kind != MemoryKind::host || question->to.kind != MemoryKind::host;
  const Machine machine = gpu ? look() : Machine();
  std::ostringstream out;
  out << "{\"kind\": " << quoted(question->from.name) << ", \"to\": " << quoted(question->to.name)
      << ", \"devices\": " << machine.devices << ", \"peer_access\": " << (machine.access ? "true" : "false")
      << ", \"no_gpu\": " << quoted(machine.why) << ", \"rows\": [";
  const char* separator = "";
  for (const uint64_t bytes : sizes_up_to(std::max<uint64_t>(question->bytes, 1))) {
    out << separator;
    write(out, bytes, answer(*question, machine, bytes));
    separator = ", ";
  }
  out << "]}";
  return out.str();
}

}  // namespace weft::p2p
