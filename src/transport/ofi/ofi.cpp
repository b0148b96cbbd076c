// SPDX-License-Identifier: BSD-3-Clause
#include "transport/ofi/ofi.hpp"

#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <ctime>
#include <functional>

#include "base/config.hpp"
#include "base/log.hpp"

namespace weft::transport::ofi {
namespace {

config::Size message_bytes{"net.ofi_message_bytes", 66 << 10, 4 << 10, 1 << 20,
                           "Largest message given to libfabric, in bytes; larger data is read by RMA."};
config::Size receives{"net.ofi_receives", 64, 4, 4096, "Receives of messages that are posted to libfabric."};
config::Size sends{"net.ofi_sends", 128, 8, 4096, "Messages that may be on their way out through libfabric."};

// A tag: the sender, what it says, and some bits of the job's name, so that a late message of another job
// that had our port is known. 48 bits, which all providers have.
constexpr uint64_t kGoodbye = uint64_t{1} << 32;
constexpr int kJobShift = 34;
constexpr uint64_t kJobMask = uint64_t{0x3fff} << kJobShift;
constexpr uint64_t kAnyTag = (uint64_t{1} << 48) - 1;

constexpr size_t kReadAtOnce = 16;  // completions
constexpr size_t kBeats = 128;
constexpr time_t kGoodbyeSeconds = 2;
constexpr size_t kPerPeer = 4;  // a peer that takes nothing may hold this part of all sends: one in kPerPeer

size_t rounded(size_t bytes) { return (bytes + 63) & ~size_t{63}; }

}  // namespace

Ofi::Ofi(const launch::Job& job, std::unique_ptr<Endpoint> endpoint)
    : self_(static_cast<Peer>(job.rank)),
      job_bits_((std::hash<std::string>{}(job.id) << kJobShift) & kJobMask),
      place_(own_place()),
      endpoint_(std::move(endpoint)),
      exposed_(*endpoint_, abi::kRemoteRead),
      local_(*endpoint_, abi::kRead),
      sends_(*endpoint_, Operation::Kind::send, rounded(message_bytes), sends),
      receives_(*endpoint_, Operation::Kind::receive, rounded(message_bytes), receives),
      contacts_(static_cast<size_t>(job.size)),
      reads_(most_reads()),
      piece_(std::min(endpoint_->info().ep_attr->max_msg_size, size_t{1} << 30)),
      pulse_(std::make_unique<Pulse>()) {
  for (Read& read : reads_) {
    read.kind = Operation::Kind::read;
    free_reads_.push_back(&read);
  }
}

Result<std::unique_ptr<Network>> Ofi::open(const launch::Job& job) {
  auto opened = library();
  if (!opened) return std::move(opened).error();
  auto choice = choose(**opened, job.local_rank);
  if (!choice) return std::move(choice).error();
  auto endpoint = Endpoint::create(**opened, std::move(*choice), receives + sends + most_reads() + kBeats);
  if (!endpoint) return std::move(endpoint).error();
  std::unique_ptr<Ofi> network(new Ofi(job, std::move(*endpoint)));
  WEFT_TRY(network->prepare());
  log::write(log::Level::info, "%s", network->description().c_str());
  return std::unique_ptr<Network>(std::move(network));
}

Status Ofi::prepare() {
  const abi::Info& info = endpoint_->info();
  provider_ = info.fabric_attr->prov_name;
  in_memory_ = has_part(provider_, "shm");
  over_tcp_ = over_ip(provider_) && provider_.find("udp") == std::string::npos;
  auto region = endpoint_->add_memory(pulse_.get(), sizeof(Pulse), abi::kRemoteRead | abi::kRead, {});
  if (!region) return std::move(region).error();
  pulse_region_ = std::move(*region);
  for (size_t i = 0; i < receives; ++i) {
    Message* message = receives_.take();
    if (message == nullptr) return receives_.failure().error().copy();
    post(*message);
  }
  auto name = endpoint_->name();
  if (!name) return std::move(name).error();
  loopback_ = is_loopback(info.addr_format, name->data(), name->size());
  Card card;
  card.place = place_;
  card.machine = own_machine();
  card.process = ::getpid();
  card.pulse = endpoint_->remote_address(pulse_.get(), &pulse_->own);
  card.pulse_key = pulse_region_->key;
  card.loopback = loopback_;
  card.provider = provider_;
  card.address = std::move(*name);
  card_ = card.text();
  return {};
}

std::string Ofi::description() const {
  const Choice& choice = endpoint_->choice();
  const auto& kept = exposed_.counters();
  std::string text = "libfabric " + endpoint_->library().version_text() + " (" + endpoint_->library().path +
                     "), provider " + provider_ + " over " + endpoint_->info().domain_attr->name + " (" +
                     choice.why + "), device memory " + (choice.hmem ? "taken" : "staged");
  if (kept.misses != 0)
    text += ", registrations: " + std::to_string(kept.count) + " of " + std::to_string(kept.bytes) +
            " bytes, " + std::to_string(kept.hits) + " hits, " + std::to_string(kept.misses) + " misses, " +
            std::to_string(kept.evictions) + " evictions";
  return text;
}

Contact& Ofi::contact(Peer peer) {
  auto& slot = contacts_[peer];
  if (slot == nullptr) [[unlikely]] {
    slot = std::make_unique<Contact>(peer);
    known_.push_back(slot.get());
  }
  return *slot;
}

Status Ofi::look_up(Contact& contact) {
  auto text = directory_->address(contact.peer);
  if (!text) return std::move(text).error();
  auto card = Card::parse(*text);
  if (!card) return std::move(card).error();
  if (card->provider != provider_)
    return Error(Errc::other, "libfabric uses the provider " + provider_ + " here and " + card->provider +
                                  " at process " + std::to_string(contact.peer) +
                                  ": name one for all by FI_PROVIDER or WEFT_NET_OFI_PROVIDER");
  if (card->loopback && card->place != place_)
    return Error(Errc::other,
                 "process " + std::to_string(contact.peer) +
                     " is on another host, but libfabric's only address there is of its loopback "
                     "interface: give its host a network, or name one by WEFT_NET_OFI_NIC");
  auto address = endpoint_->insert(card->address);
  if (!address) return std::move(address).error();
  contact.address = *address;
  contact.where = std::move(card->address);
  if (in_memory_ && card->machine == own_machine()) contact.witness = Witness::of(card->process);
  contact.pulse = card->pulse;
  contact.pulse_key = card->pulse_key;
  return {};
}

/// False: the peer is lost, or cannot be found and is lost now.
bool Ofi::connect(Contact& contact) {
  if (contact.address != abi::kNoAddress) [[likely]]
    return contact.state != Contact::State::lost;
  if (contact.state == Contact::State::lost) return false;
  if (Status found = look_up(contact); !found) {
    lose(contact, std::move(found).error());
    return false;
  }
  if (contact.state == Contact::State::unknown) contact.state = Contact::State::open;
  return true;
}

std::byte* Ofi::reserve(Peer peer, size_t size) {
  if (size + kPrefix > sends_.bytes()) return nullptr;
  Contact& to = contact(peer);
  if (to.unsent.size() >= sends / kPerPeer) return nullptr;
  if (reserved_ == nullptr) reserved_ = sends_.take();
  return reserved_ != nullptr ? reserved_->data + kPrefix : nullptr;
}

void Ofi::commit(Peer peer, size_t size) {
  Message& message = *std::exchange(reserved_, nullptr);
  Contact& to = contact(peer);
  if (!connect(to)) return sends_.give_back(&message);
  to.told = false;
  queue(to, message, size, 0);
}

void Ofi::queue(Contact& to, Message& message, size_t size, uint64_t flags) {
  message.peer = to.peer;
  message.size = static_cast<uint32_t>(size + kPrefix);
  message.tag = self_ | job_bits_ | flags;
  const uint64_t number = to.sent++;
  std::memcpy(message.data, &number, kPrefix);
  if (to.unsent.empty() && try_send(to, message)) return;
  if (to.state == Contact::State::lost) return;
  to.unsent.push_back(&message);
  if (!std::exchange(to.listed, true)) backlog_.push_back(&to);
}

/// False: it must wait, unless the peer is lost by now (then the message is gone).
bool Ofi::try_send(Contact& to, Message& message) {
  const ssize_t code =
      endpoint_->send(message.data, message.size, message.desc, to.address, message.tag, &message);
  if (code == 0) {
    ++to.out;
    return true;
  }
  if (code == -EAGAIN) return false;
  sends_.give_back(&message);
  lose(to, endpoint_->library().error("libfabric cannot send to process " + std::to_string(to.peer), code));
  return false;
}

/// libfabric gives the message back.
void Ofi::sent(Message& message) {
  Contact& to = contact(message.peer);
  --to.out;
  if (to.state == Contact::State::lost) --out_to_lost_;
  sends_.give_back(&message);
}

void Ofi::flush() {
  std::erase_if(backlog_, [&](Contact* to) {
    while (!to->unsent.empty()) {
      Message* message = to->unsent.front();
      to->unsent.pop_front();
      if (try_send(*to, *message)) continue;
      if (to->state == Contact::State::lost) break;
      to->unsent.push_front(message);
      return false;
    }
    to->listed = false;
    return true;
  });
}

void Ofi::post(Message& message) {
  const ssize_t code =
      endpoint_->receive(message.data, receives_.bytes(), message.desc, 0, kAnyTag, &message);
  if (code == 0) return;
  unposted_.push_back(&message);
  if (code != -EAGAIN)
    log::write(log::Level::warn, "%s",
               endpoint_->library().error("libfabric cannot post a receive", code).message().c_str());
}

size_t Ofi::poll(Receiver& receiver, size_t limit) {
  if (directory_ == nullptr || endpoint_ == nullptr) return 0;
  if (!backlog_.empty()) [[unlikely]]
    flush();
  if (!unposted_.empty()) [[unlikely]] {
    for (Message* message : std::exchange(unposted_, {})) post(*message);
  }
  size_t delivered = 0;
  if (!stored_.empty()) [[unlikely]] {
    for (const abi::CqEntry& entry : std::exchange(stored_, {})) delivered += received(entry, receiver);
  }
  delivered += drain_completions(&receiver, limit);
  if (!waiting_.empty()) start_reads();
  watch_over();
  if (!losses_.empty() || !ended_.empty()) [[unlikely]]
    report(receiver);
  return delivered;
}

/// `receiver` null: what comes is stored for the next poll().
size_t Ofi::drain_completions(Receiver* receiver, size_t limit) {
  abi::CqEntry entries[kReadAtOnce];
  size_t delivered = 0;
  while (delivered < limit) {
    const size_t room = std::min(kReadAtOnce, limit - delivered);
    const ssize_t found = endpoint_->completions(entries, room);
    if (found == -abi::kErrAvailable) {
      if (!take_error()) break;
      continue;
    }
    if (found <= 0) break;
    for (ssize_t i = 0; i < found; ++i) delivered += complete(entries[i], receiver);
    if (static_cast<size_t>(found) < room) break;
  }
  return delivered;
}

/// How many messages were delivered.
size_t Ofi::complete(const abi::CqEntry& entry, Receiver* receiver) {
  auto* operation = static_cast<Operation*>(entry.op_context);
  if (operation == nullptr) return 0;
  switch (operation->kind) {
    case Operation::Kind::receive:
      if (receiver != nullptr) return received(entry, *receiver);
      stored_.push_back(entry);
      break;
    case Operation::Kind::send:
      sent(*static_cast<Message*>(operation));
      break;
    case Operation::Kind::read:
      finish_read(static_cast<Read*>(operation), {});
      break;
    case Operation::Kind::beat:
      pulse_felt(*static_cast<Contact::Beat*>(operation)->contact);
      break;
  }
  return 0;
}

size_t Ofi::received(const abi::CqEntry& entry, Receiver& receiver) {
  auto& message = static_cast<Message&>(*static_cast<Operation*>(entry.op_context));
  const auto source = static_cast<Peer>(entry.tag);
  if ((entry.tag & kJobMask) != job_bits_ || source >= contacts_.size() || entry.len < kPrefix) {
    log::write(log::Level::debug, "libfabric: a message of another job was dropped");
    post(message);
    return 0;
  }
  Contact& from = contact(source);
  uint32_t number = 0;
  std::memcpy(&number, message.data, sizeof number);
  if (number != from.received) {
    from.ahead.emplace(number, entry);
    return 0;
  }
  size_t delivered = 1;
  take(from, entry, receiver);
  for (; !from.ahead.empty(); ++delivered) {
    const auto next = from.ahead.find(from.received);
    if (next == from.ahead.end()) break;
    const abi::CqEntry following = next->second;
    from.ahead.erase(next);
    take(from, following, receiver);
  }
  return delivered;
}

/// The next message of this peer.
void Ofi::take(Contact& from, const abi::CqEntry& entry, Receiver& receiver) {
  auto& message = static_cast<Message&>(*static_cast<Operation*>(entry.op_context));
  const bool goodbye = (entry.tag & kGoodbye) != 0;
  ++from.received;
  if (from.state != Contact::State::lost && goodbye) {
    from.state = Contact::State::left;
    settle_doubt(from);
  }
  if (from.state == Contact::State::left && !goodbye) from.state = Contact::State::open;
  if (!goodbye) receiver.deliver(from.peer, message.data + kPrefix, entry.len - kPrefix);
  post(message);
}

/// False: there was no error to take.
bool Ofi::take_error() {
  abi::CqError error;
  std::string why;
  if (!endpoint_->read_error(error, why)) return false;
  auto* operation = static_cast<Operation*>(error.op_context);
  if (operation == nullptr) {
    log::write(log::Level::warn, "libfabric reports an error of no operation of ours: %s", why.c_str());
    return true;
  }
  switch (operation->kind) {
    case Operation::Kind::receive: {
      if (error.err != ECANCELED)
        log::write(log::Level::debug, "libfabric: a receive failed: %s", why.c_str());
      post(static_cast<Message&>(*operation));
      break;
    }
    case Operation::Kind::send: {
      auto* message = static_cast<Message*>(operation);
      Contact& to = contact(message->peer);
      sent(*message);
      lose(to, Error(Errc::proc_aborted,
                     "process " + std::to_string(to.peer) + " cannot be reached (" + why + ")"));
      break;
    }
    case Operation::Kind::read:
      finish_read(static_cast<Read*>(operation),
                  Error(Errc::other, "a read by libfabric failed (" + why + ")"));
      break;
    case Operation::Kind::beat: {
      Contact& of = *static_cast<Contact::Beat*>(operation)->contact;
      of.beating = false;
      pulse_failed(of, std::move(why));
      break;
    }
  }
  return true;
}

/// From now on what is for this peer is dropped; poll() reports it.
void Ofi::lose(Contact& of, Error why) {
  if (of.state == Contact::State::lost) return;
  of.state = Contact::State::lost;
  out_to_lost_ += of.out;
  for (Message* message : std::exchange(of.unsent, {})) sends_.give_back(message);
  abandon_fetches(of, why);
  settle_doubt(of);
  losses_.emplace_back(of.peer, std::move(why));
}

void Ofi::report(Receiver& receiver) {
  reported_.swap(ended_);  // more may end meanwhile
  for (Ended& ended : reported_) ended.done->done(*ended.done, std::move(ended.outcome));
  reported_.clear();
  if (losses_.empty()) return;
  for (auto& [peer, why] : std::exchange(losses_, {})) receiver.lost(peer, why);
}

/// Peers must not take our going for our death, those who have only sent to us neither. What was sent before
/// is out once this is.
void Ofi::leave() {
  if (directory_ == nullptr || endpoint_ == nullptr) return;
  for (Contact* to : known_) {
    if (to->state == Contact::State::unknown && !connect(*to)) continue;
    if (to->state != Contact::State::open || to->told || to->address == abi::kNoAddress) continue;
    if (reserve(to->peer, 0) == nullptr) continue;
    Message& message = *std::exchange(reserved_, nullptr);
    to->told = true;
    queue(*to, message, 0, kGoodbye);
  }
  const time_t deadline = ::time(nullptr) + kGoodbyeSeconds;
  while (!idle() && ::time(nullptr) <= deadline) {
    flush();
    drain_completions(nullptr, SIZE_MAX);
  }
}

void Ofi::close() {
  if (endpoint_ == nullptr) return;
  leave();
  endpoint_->shut();
  waiting_.clear();
  for (Fetch* fetch : std::exchange(fetches_, {})) fetch_slab_.destroy(fetch);
  exposed_.clear();
  local_.clear();
  sends_.deregister();
  receives_.deregister();
  pulse_region_.reset();
  endpoint_.reset();
}

}  // namespace weft::transport::ofi
