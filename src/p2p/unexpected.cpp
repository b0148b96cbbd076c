// SPDX-License-Identifier: BSD-3-Clause
#include "p2p/unexpected.hpp"

#include "core/communicator.hpp"
#include "p2p/engine/engine.hpp"

namespace weft::p2p {
namespace {

constexpr int kMaxCandidates = 256;  // messages of other communicators, each of which takes a search
constexpr core::ContextId kChannels = core::kContextStep - 1;

/// The communicator of the program with these messages; null: freed, or not created yet.
const core::Communicator* communicator_of(core::ContextId context) {
  const core::Communicator* found = nullptr;
  core::Communicator::slab().for_each([&](const core::Communicator& comm) {
    if (comm.has_handle && comm.context(core::Channel::user) == context) found = &comm;
  });
  return found;
}

}  // namespace

bool find_similar(const core::Operands& wanted, const core::Communicator& comm, core::SimilarMessage& found) {
  const auto& unexpected = engine_of(comm.instance).delivery.unexpected();
  const core::ContextId context = comm.context(core::Channel::user);
  const auto take = [&](const match::MatchEntry& entry, const core::Communicator& of) {
    const auto& message = static_cast<const UnexpectedMessage&>(entry);
    found = {entry.key().source, entry.key().tag, message.completion.bytes, &of};
  };
  const bool any_source = wanted.rank < 0;
  unexpected.for_each(context, [&](const match::MatchEntry& entry) {
    const bool awaited = any_source || entry.key().source == wanted.rank;
    if (awaited || (found.comm == nullptr && entry.key().tag == wanted.tag)) take(entry, comm);
    return !awaited;
  });
  if (found.comm != nullptr && (any_source || found.source == wanted.rank)) return true;
  int candidates = 0;
  unexpected.for_all([&](const match::MatchEntry& entry) {
    const match::Key& key = entry.key();
    if (key.context == context || (key.context & kChannels) != 0) return;
    if (wanted.tag >= 0 && key.tag != wanted.tag) return;
    if ((found.comm != nullptr && found.comm != &comm) || ++candidates > kMaxCandidates) return;
    const core::Communicator* const other = communicator_of(key.context);
    if (other == nullptr || key.source >= other->remote_size()) return;
    if (any_source || other->process(key.source) == comm.process(wanted.rank)) take(entry, *other);
  });
  return found.comm != nullptr;
}

std::vector<core::SimilarMessage> unreceived(const core::Instance& instance) {
  std::vector<core::SimilarMessage> found;
  engine_of(instance).delivery.unexpected().for_all([&](const match::MatchEntry& entry) {
    const match::Key& key = entry.key();
    if ((key.context & kChannels) != 0) return;
    const auto& message = static_cast<const UnexpectedMessage&>(entry);
    found.push_back({key.source, key.tag, message.completion.bytes, communicator_of(key.context)});
  });
  return found;
}

}  // namespace weft::p2p
