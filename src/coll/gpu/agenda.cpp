// SPDX-License-Identifier: BSD-3-Clause
#include "coll/gpu/agenda.hpp"

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstring>
#include <utility>

namespace weft::coll::gpu {
namespace {

using transport::shm::Lane;
using transport::shm::Post;

// Half of a lane's posts go round for nonblocking calls, each of the others is a persistent call's.
constexpr uint32_t kRound = transport::shm::kPosts / 2;
constexpr uint32_t kPersistent = transport::shm::kPosts - kRound;
constexpr uint32_t kTurns = transport::shm::kPosts / 4;
constexpr uint32_t kPersistentKey = 1u << 31;
static_assert(sizeof(Statement) <= transport::shm::kPostBytes);
static_assert(kPersistent < 32);

bool reached(uint32_t word, uint32_t number) { return static_cast<int32_t>(word - number) >= 0; }

/// Where a persistent call's post says Turn::sole: by turns, since a rank may be one start ahead of another.
constexpr size_t sole_at(uint32_t starts) { return starts % 2 * sizeof(uint32_t); }
static_assert(transport::shm::kPostBytes >= 2 * sizeof(uint32_t));

}  // namespace

Agenda::Agenda(core::Communicator& comm, shared::Channel& channel, Domain& domain)
    : comm_(comm), channel_(channel), domain_(domain), places_((1u << kPersistent) - 1) {}

Agenda::~Agenda() {
  if (watched_) comm_.instance.remove(*this);
}

void Agenda::watch() {
  if (watched_) return;
  watched_ = true;
  comm_.instance.add(*this);
}

uint32_t Agenda::least(std::atomic<uint32_t> Lane::*word) const {
  uint32_t least = (channel_.lane(0).*word).load(std::memory_order_acquire);
  for (int rank = 1; rank < comm_.size(); ++rank) {
    const uint32_t there = (channel_.lane(rank).*word).load(std::memory_order_acquire);
    if (!reached(there, least)) least = there;
  }
  return least;
}

void Agenda::add(const Call& call, Deferred& client) {
  Entry entry{&call, &client, {}, {}, Statement::size(call)};
  entry.statement = statement_of(call, domain_, entry.memory);
  const Side side = entry.statement.side;
  const bool messages = side == Side::host || side == Side::other;
  if (messages)
    entry.client = nullptr;
  else
    ++busy_;
  entries_.push_back(std::move(entry));
  watch();
  if (messages) client.go_by_messages();
  poll();
}

/// Says what there is to say of calls, as far as the others have read what was there before.
bool Agenda::post() {
  bool moved = false;
  for (;;) {
    const size_t next = posted_ - decided_;
    if (next >= entries_.size()) return moved;
    const uint32_t number = posted_ + 1;
    if (!reached(least(&Lane::seen), number - kRound)) return moved;
    // What a call opens is known to all before they speak of the next.
    if (next != 0 && domain_.state() == Domain::State::unknown) return moved;
    Entry& entry = entries_[next];
    if (entry.statement.state != domain_.state()) state_again(entry);
    Post& post = own().posts[number % kRound];
    std::memcpy(post.data, &entry.statement, entry.size);
    post.number.store(number, std::memory_order_release);
    channel_.tell();
    posted_ = number;
    moved = true;
  }
}

/// It was called before the domain was opened or refused.
void Agenda::state_again(Entry& entry) {
  if (entry.client == nullptr) return;  // and its call may be gone
  entry.statement = statement_of(*entry.call, domain_, entry.memory);
  const Side side = entry.statement.side;
  if (side != Side::host && side != Side::other) return;
  --busy_;
  std::exchange(entry.client, nullptr)->go_by_messages();
}

/// What all have said; nullopt: not yet. A rank that goes by messages makes all do so.
std::optional<Agreement> Agenda::hear(const Entry& entry, uint32_t number) const {
  Judge judge(*entry.call, true);
  bool all = true;
  for (int rank = 0; rank < comm_.size(); ++rank) {
    const Post& post = channel_.lane(rank).posts[number % kRound];
    if (post.number.load(std::memory_order_acquire) != number) {
      all = false;
      continue;
    }
    Side side;
    std::memcpy(&side, post.data + offsetof(Statement, side), sizeof side);
    if (side == Side::host || side == Side::other) return Agreement{};
    judge.hear(rank, post.data);
  }
  if (!all) return std::nullopt;
  Agreement agreed = judge.verdict();
  agreed.memory = entry.memory;
  return agreed;
}

/// In MPI's order, so that all ranks know the same when they decide. False: not yet.
bool Agenda::decide_next(Entry& entry) {
  if (entry.client == nullptr) return true;
  const uint32_t number = decided_ + 1;
  const auto agreed = hear(entry, number);
  if (!agreed) return false;
  if (agreed->way == Way::mismatch) {
    --busy_;
    entry.client->end(agreed->mismatch(*entry.call));
    return true;
  }
  const bool kernels = agreed->way == Way::kernels;
  if (kernels && !domain_.connect(entry.memory, channel_)) return false;
  if (!kernels || domain_.state() != Domain::State::open) {
    --busy_;
    entry.client->go_by_messages();
    return true;
  }
  if (agreed->largest == 0) {
    --busy_;
    entry.client->end({});
    return true;
  }
  Turn& turn = turns_.emplace_back();
  turn.key = number & ~kPersistentKey;
  turn.client = entry.client;
  turn.own = domain_.plan(*entry.call, agreed->largest, false);
  turn.plan = &*turn.own;
  if (comm_.rank() == 0) unordered_.push_back(turn.key);
  return true;
}

bool Agenda::decide() {
  bool moved = false;
  while (posted_ != decided_ && decide_next(entries_.front())) {
    entries_.pop_front();
    own().seen.store(++decided_, std::memory_order_release);
    channel_.tell();
    moved = true;
  }
  return moved;
}

void Agenda::start(Resolved& resolved, Deferred& client) {
  if (resolved.trivial) return client.end({});
  const uint32_t sole = idle() ? over_ + 1 : 0;
  ++busy_;
  Turn& turn = turns_.emplace_back();
  turn.key = kPersistentKey | resolved.place;
  turn.client = &client;
  turn.plan = &resolved.plan;
  turn.starts = ++resolved.starts;
  turn.sole = sole;
  Post& post = own().posts[kRound + resolved.place];
  std::memcpy(post.data + sole_at(turn.starts), &sole, sizeof sole);
  post.number.store(turn.starts, std::memory_order_release);
  channel_.tell();
  watch();
  poll();
}

bool Agenda::give_turn(uint32_t key) {
  const uint32_t next = given_ + 1;
  if (!reached(least(&Lane::finished), next - kTurns)) return false;
  own().turns[next % kTurns].store(uint64_t{next} << 32 | key, std::memory_order_release);
  channel_.tell();
  given_ = next;
  return true;
}

/// A persistent call that every rank has started with nothing else under way, after the same turn: it is
/// next, and nobody has to say so. What a rank starts besides, it starts later.
bool Agenda::sole_of_all(const Turn& turn) const {
  const uint32_t place = kRound + (turn.key & ~kPersistentKey);
  for (int rank = 0; rank < comm_.size(); ++rank) {
    const Post& post = channel_.lane(rank).posts[place];
    if (!reached(post.number.load(std::memory_order_acquire), turn.starts)) return false;
    uint32_t said;
    std::memcpy(&said, post.data + sole_at(turn.starts), sizeof said);
    if (said != turn.sole) return false;
  }
  return true;
}

/// The first rank, before it gives any turn: whether the next one goes to such a call.
bool Agenda::pass_sole() {
  if (turns_.empty()) return false;
  Turn& first = turns_.front();
  if (first.starts == 0 || first.sole == 0 || first.sole != given_ + 1 || !sole_of_all(first)) return false;
  given_ = first.sole;
  first.starts = 0;
  return true;
}

/// The first rank: calls in which all have arrived.
bool Agenda::give_turns() {
  if (comm_.rank() != 0) return false;
  bool moved = pass_sole();
  size_t given = 0;
  while (given < unordered_.size() && give_turn(unordered_[given])) ++given;
  unordered_.erase(unordered_.begin(), unordered_.begin() + static_cast<ptrdiff_t>(given));
  moved |= given != 0;
  for (Turn& turn : turns_) {
    if (turn.starts == 0) continue;
    const auto arrived = [&](int rank) {
      const Post& post = channel_.lane(rank).posts[kRound + (turn.key & ~kPersistentKey)];
      return reached(post.number.load(std::memory_order_acquire), turn.starts);
    };
    bool all = true;
    for (int rank = 1; all && rank < comm_.size(); ++rank) all = arrived(rank);
    if (!all) continue;
    moved |= pass_sole();  // all that was started before is known now
    if (turn.starts == 0 || !give_turn(turn.key)) continue;
    turn.starts = turn.sole = 0;
    moved = true;
  }
  return moved;
}

/// The area is free when all have finished the turn before. Null: not yet.
Agenda::Turn* Agenda::next_turn() {
  const uint32_t next = over_ + 1;
  Turn& first = turns_.front();
  // The first rank has taken note of it: what it gives next comes after.
  if (first.sole != 0 && first.sole == next && (comm_.rank() == 0 ? first.starts == 0 : sole_of_all(first)))
    return &first;
  const uint64_t turn = channel_.lane(0).turns[next % kTurns].load(std::memory_order_acquire);
  if (turn >> 32 != next || !reached(least(&Lane::finished), over_)) return nullptr;
  const auto found = std::find_if(turns_.begin(), turns_.end(),
                                  [&](const Turn& t) { return t.key == static_cast<uint32_t>(turn); });
  return found == turns_.end() ? nullptr : &*found;  // a nonblocking call that is not decided here yet
}

bool Agenda::take_turn() {
  if (turns_.empty()) return false;
  if (running_ == nullptr) {
    if (domain_.busy()) return false;  // a blocking call of another thread
    running_ = next_turn();
    if (running_ == nullptr) return false;
    if (Status begun = domain_.begin(*running_->plan); !begun.ok()) {
      end_turn(std::move(begun));
      return true;
    }
  }
  auto over = domain_.poll();
  if (over.ok() && !*over) return false;
  if (over.ok())
    end_turn({});
  else
    end_turn(std::move(over).error());
  return true;
}

void Agenda::end_turn(Status outcome) {
  Deferred* client = running_->client;
  turns_.erase(std::find_if(turns_.begin(), turns_.end(), [&](const Turn& t) { return &t == running_; }));
  running_ = nullptr;
  --busy_;
  own().finished.store(++over_, std::memory_order_release);
  channel_.tell();
  client->end(std::move(outcome));
}

/// Without lanes: nothing can be said, all ranks go by messages.
void Agenda::give_up() {
  std::deque<Entry> entries = std::move(entries_);
  entries_.clear();
  busy_ = 0;
  for (Entry& entry : entries)
    if (entry.client != nullptr) entry.client->go_by_messages();
}

bool Agenda::poll() {
  const auto keep = core::Ref<core::Communicator>::share(&comm_);  // a call that ends may hold the last one
  if (polling_ || !channel_.settled()) return false;  // a call that goes by messages may progress others
  polling_ = true;
  bool moved = false;
  if (!channel_.open()) {
    give_up();
  } else {
    while (post() | decide()) moved = true;
    moved |= give_turns();
    moved |= take_turn();
  }
  polling_ = false;
  if (idle() && watched_) {
    watched_ = false;
    comm_.instance.remove(*this);
  }
  return moved;
}

void Agenda::decide_all() {
  core::wait_until(comm_.instance, [&] { return entries_.empty(); });
}

Result<std::optional<Resolved>> Agenda::resolve(const Call& call) {
  decide_all();  // then all ranks publish the same state of the domain
  const Agreement agreed = agree(call, channel_, domain_, {busy_, places_, true});
  if (agreed.way == Way::mismatch) return agreed.mismatch(call);
  if (agreed.way != Way::kernels || agreed.places == 0) return std::optional<Resolved>();
  if (agreed.idle) domain_.connect_now(agreed.memory, agreed.largest, channel_);  // else it is open
  if (domain_.state() != Domain::State::open) return std::optional<Resolved>();
  std::optional<Resolved> resolved(std::in_place);
  resolved->place = static_cast<uint32_t>(std::countr_zero(agreed.places));
  places_ &= ~(1u << resolved->place);
  resolved->trivial = agreed.largest == 0;
  resolved->plan = domain_.plan(call, agreed.largest, false);
  resolved->starts = own().posts[kRound + resolved->place].number.load(std::memory_order_relaxed);
  return resolved;
}

}  // namespace weft::coll::gpu
