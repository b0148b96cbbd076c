// SPDX-License-Identifier: BSD-3-Clause
// How enqueued sends and receives proceed, written once for the kernel and for the emulated driver. One
// thread of a block asks next() what the block does; all its threads do it; that thread says so with
// performed(). `Env` is where memory is reached: at(), peek (no order), load (acquire), store (release),
// packets, atomics; signal and publish tell the peer, the latter after everything the block did before. Loads
// that do not depend on each other stand together: each takes a third of a microsecond.
#pragma once
#include "device/kernel/enqueue.hpp"

namespace weft::device::kernel::enqueue {

/// What a block does next.
struct Step {
  enum What : uint32_t { nothing, finish, write_inline, read_inline, move };
  uint32_t what = nothing;
  uint32_t op = 0;
  uint32_t flag = 0;     ///< of packets
  uint32_t chunk = 0;    ///< move: counted from the message's begin
  uint64_t packets = 0;  ///< address of the slot's payload
  uint64_t to = 0, from = 0, bytes = 0;
};

/// A chunk that a block has drawn and will copy as soon as that is possible.
struct Held {
  static constexpr uint32_t kNone = ~0u;
  uint32_t op = kNone, chunk = 0;
};

[[nodiscard]] WEFT_BOTH constexpr uint32_t next_number(uint32_t n) { return n + 1 == kNumbers ? 0 : n + 1; }

template <class Env>
class Protocol {
 public:
  WEFT_BOTH Protocol(Env& env, const Head& head, const Op* ops)
      : env_(env), head_(head), ops_(ops), area_(*env.template at<Area>(head.area)) {}

  /// Blocks have nothing to say to each other.
  [[nodiscard]] WEFT_BOTH bool quiet() const { return head_.quiet != 0; }

  /// The first thing that a block does which leads an operation: finds out where it stands.
  WEFT_BOTH uint32_t begin(uint32_t i) {
    const Op& op = ops_[i];
    State& state = area_.states[op.state];
    if ((op.flags & Op::is_fresh) != 0) {
      if ((op.flags & Op::is_required) == 0) state.phase = State::fresh;  // it may be left as it is
      return State::fresh;
    }
    const uint32_t phase = env_.load(&state.phase);
    if (phase != State::fresh) settle(i);
    if (phase == State::moving) tell(&area_.board.moving[i]);
    return phase;
  }

  /// The next step of the block that leads operation i, which stands at `phase`.
  WEFT_BOTH Step next(uint32_t i, uint32_t& phase, Held& held) {
    const Op& op = ops_[i];
    State& state = area_.states[op.state];
    if (phase == State::moving) phase = env_.load(&state.phase);  // blocks that help may have ended it
    if (phase == State::done) return only(Step::finish);
    if (phase == State::moving) return take_chunk(i, held);
    return op.kind == Op::send ? next_send(i, op, state, phase, held) : next_receive(i, op, state, phase);
  }

  /// The next step of a block that helps.
  WEFT_BOTH Step help(Held& held) {
    if (held.op != Held::kNone) return take_chunk(held.op, held);
    for (uint32_t i = 0; i < head_.count; ++i) {
      if (env_.load(&area_.board.moving[i]) == 0) continue;
      const Step step = take_chunk(i, held);
      if (step.what != Step::nothing || held.op != Held::kNone) return step;
    }
    return {};
  }

  /// After all threads of the block have done the step.
  WEFT_BOTH void performed(const Step& step) {
    const Op& op = ops_[step.op];
    State& state = area_.states[op.state];
    if (step.what == Step::write_inline) {
      state.phase = State::done;
      return;
    }
    if (step.what == Step::read_inline) {  // what was read decided what was done: no order is missing
      env_.signal(&remote_inbox(op).consumed[state.number % kSlots], state.number + 1);
      report(op, state);
      state.phase = State::done;
      return;
    }
    if (step.what != Step::move) return;
    const uint32_t number = state.first + step.chunk;
    if (op.kind == Op::send)
      env_.publish(&remote(op).arrived[state.lane][number % kChunks], number + 1);
    else
      env_.publish(&remote_inbox(op).drained[state.lane][number % kChunks], number + 1);
    if (env_.add(&state.completed, 1) + 1 != state.chunks) return;
    if (op.kind == Op::receive) {
      env_.store(&area_.lanes[state.lane].busy, 0u);
      env_.publish(&remote_inbox(op).consumed[state.number % kSlots], state.number + 1);
      report(op, state);
    }
    env_.store(&state.phase, static_cast<uint32_t>(State::done));
  }
  /// What a leading block knows of its operation after a step.
  [[nodiscard]] WEFT_BOTH static uint32_t phase_after(const Step& step) {
    return step.what == Step::move ? State::moving : State::done;
  }

  /// The header of a message that is sent inline: beside the payload, by one thread.
  WEFT_BOTH void write_header(const Step& step) {
    const Op& op = ops_[step.op];
    put_header(op, step.flag);
  }

  /// An operation is complete, in this launch or since an earlier one: said to those who wait for it.
  WEFT_BOTH void count(uint32_t i) {
    write_status(ops_[i]);
    if (!quiet() && (ops_[i].flags & Op::is_required) != 0) env_.add(&area_.board.finished, 1);
  }
  /// Whether operations that nobody waits for here are to be left for the next launch.
  WEFT_BOTH bool over(uint32_t i) {
    if ((ops_[i].flags & Op::is_required) != 0) return false;
    return all_finished();
  }
  WEFT_BOTH bool all_finished() { return quiet() || env_.load(&area_.board.finished) == head_.required; }
  /// The last block that leaves wipes the board.
  WEFT_BOTH void leave() {
    if (quiet() || env_.add(&area_.board.out, 1) + 1 != head_.count + head_.helpers) return;
    for (uint32_t i = 0; i < head_.count; ++i) area_.board.settled[i] = area_.board.moving[i] = 0;
    area_.board.finished = 0;
    area_.board.out = 0;
  }

 private:
  struct Words {
    uint32_t word[8];
  };
  WEFT_BOTH Step only(uint32_t what) {
    Step step;
    step.what = what;
    return step;
  }
  WEFT_BOTH Peer& peer(const Op& op) { return *env_.template at<Peer>(head_.area + Area::peer(op.peer)); }
  /// What the peer writes here, and what is written to the peer.
  WEFT_BOTH Inbox& inbox(const Op& op) {
    return *env_.template at<Inbox>(head_.area + Area::inbox(head_.ranks, op.peer));
  }
  WEFT_BOTH Area& remote(const Op& op) { return *env_.template at<Area>(op.remote); }
  WEFT_BOTH uint64_t remote_inbox_address(const Op& op) {
    return op.remote + Area::inbox(head_.ranks, head_.rank);
  }
  WEFT_BOTH Inbox& remote_inbox(const Op& op) { return *env_.template at<Inbox>(remote_inbox_address(op)); }

  /// Takes a word that other blocks want too.
  WEFT_BOTH bool claim(uint32_t* word, uint32_t before, uint32_t value) {
    if (!quiet()) return env_.exchange(word, before, value);
    *word = value;
    return true;
  }
  WEFT_BOTH void tell(uint32_t* word) {
    if (!quiet()) env_.store(word, 1u);
  }
  WEFT_BOTH void settle(uint32_t i) {
    if ((ops_[i].flags & Op::is_watched) != 0) env_.store(&area_.board.settled[i], 1u);
  }
  WEFT_BOTH void start_moving(uint32_t i, State& state, uint32_t& phase) {
    state.chunks = static_cast<uint32_t>((state.bytes + kChunk - 1) / kChunk);
    state.next = state.completed = 0;
    state.phase = phase = State::moving;
    tell(&area_.board.moving[i]);
  }

  WEFT_BOTH void put_header(const Op& op, uint32_t flag) {
    Packet* header = remote_inbox(op).headers[(flag - 1) % kSlots];
    env_.put(&header[0], flag, static_cast<uint32_t>(op.tag));
    env_.put(&header[1], flag, op.bytes);
  }

  /// The numbers began anew: flags of 2^32 messages ago may lie in packets that no message has used since.
  WEFT_BOTH void wipe(const Op& op, uint32_t slot) {
    env_.put(&inbox(op).granted[slot], 0, 0);
    for (Packet& packet : remote_inbox(op).payload[slot]) env_.put(&packet, 0, 0);
    env_.fence();
  }

  WEFT_BOTH Step next_send(uint32_t i, const Op& op, State& state, uint32_t& phase, Held& held) {
    if (phase == State::announced) {
      uint64_t grant;
      if (!env_.get(&inbox(op).granted[state.number % kSlots], state.number + 1, grant)) return {};
      state.lane = static_cast<uint32_t>(grant);
      state.first = static_cast<uint32_t>(grant >> 32);
      start_moving(i, state, phase);
      return take_chunk(i, held);
    }
    if (op.before != Op::kNone && env_.load(&area_.board.settled[op.before]) == 0) return {};
    Peer& to = peer(op);
    const uint32_t number = to.next_send, slot = number % kSlots, flag = number + 1;
    const uint32_t consumed = env_.load(&inbox(op).consumed[slot]), sent = to.sent[slot];
    if (consumed != sent) return {};
    if (number < kSlots && sent != 0) wipe(op, slot);
    to.sent[slot] = flag;
    to.next_send = next_number(number);
    state.number = number;
    state.bytes = op.bytes;
    if (op.bytes > kInline) {
      put_header(op, flag);
      state.phase = phase = State::announced;
      settle(i);
      return {};
    }
    settle(i);
    Step step = only(Step::write_inline);
    step.op = i;
    step.flag = flag;
    step.packets = remote_inbox_address(op) + offsetof(Inbox, payload) + slot * sizeof(Inbox::payload[0]);
    step.from = op.address;
    step.bytes = op.bytes;
    return step;
  }

  WEFT_BOTH Step next_receive(uint32_t i, const Op& op, State& state, uint32_t& phase) {
    if (phase == State::matched) return grant(i, op, state, phase);
    if (!match(i, op, state)) return {};
    settle(i);
    if (state.bytes > kInline) {
      state.phase = phase = State::matched;
      return grant(i, op, state, phase);
    }
    Step step = only(Step::read_inline);
    step.op = i;
    step.flag = state.number + 1;
    step.packets = head_.area + Area::inbox(head_.ranks, op.peer) + offsetof(Inbox, payload) +
                   state.number % kSlots * sizeof(Inbox::payload[0]);
    step.to = op.address;
    step.bytes = state.bytes < op.bytes ? state.bytes : op.bytes;
    return step;
  }

  /// Looks for the oldest message that this receive takes. Messages are put in order, so the first gap is the
  /// end.
  WEFT_BOTH bool match(uint32_t i, const Op& op, State& state) {
    Peer& from = peer(op);
    Inbox& box = inbox(op);
    const uint32_t begin = env_.peek(&from.next_receive);
    uint32_t oldest = begin;  // as far as is seen here
    bool all_taken = true;
    for (uint32_t n = begin, k = 0; k < kSlots; ++k, n = next_number(n)) {
      const uint32_t slot = n % kSlots, flag = n + 1;
      const uint32_t before = env_.peek(&from.taken[slot]);
      uint64_t tag, bytes;
      const bool first = env_.get(&box.headers[slot][0], flag, tag);
      const bool second = env_.get(&box.headers[slot][1], flag, bytes);
      if (before == flag) {
        if (all_taken) oldest = next_number(n);
        continue;
      }
      all_taken = false;
      if (!first || !second) break;
      const auto its_tag = static_cast<int32_t>(static_cast<uint32_t>(tag));
      if (!fits(op, its_tag)) continue;
      // Which of the messages the earlier one takes is not known yet: what lies behind may not be taken
      // either.
      if (belongs_to_earlier(i, op, its_tag)) break;
      if (!claim(&from.taken[slot], before, flag)) return false;  // another block was quicker
      if (n == oldest) claim(&from.next_receive, begin, next_number(n));
      state.number = n;
      state.tag = its_tag;
      state.bytes = bytes;
      return true;
    }
    if (oldest != begin) claim(&from.next_receive, begin, oldest);
    return false;
  }
  WEFT_BOTH static bool fits(const Op& op, int32_t tag) { return op.tag == kAnyTag || op.tag == tag; }
  WEFT_BOTH bool belongs_to_earlier(uint32_t i, const Op& op, int32_t tag) {
    for (uint32_t j = 0; j < i; ++j) {
      const Op& earlier = ops_[j];
      if (earlier.kind == Op::receive && earlier.peer == op.peer && fits(earlier, tag) &&
          env_.load(&area_.board.settled[j]) == 0)
        return true;
    }
    return false;
  }

  /// Gives the sender of an announced message a lane, once one is free.
  WEFT_BOTH Step grant(uint32_t i, const Op& op, State& state, uint32_t& phase) {
    for (uint32_t l = 0; l < kLanes; ++l) {
      Lane& lane = area_.lanes[l];
      if (env_.load(&lane.busy) != 0 || !env_.exchange(&lane.busy, 0u, 1u)) continue;
      state.lane = l;
      state.first = kFirstChunk + lane.next;
      lane.next += static_cast<uint32_t>((state.bytes + kChunk - 1) / kChunk);
      start_moving(i, state, phase);
      env_.put(&remote_inbox(op).granted[state.number % kSlots], state.number + 1,
               uint64_t{state.first} << 32 | l);
      return {};
    }
    return {};
  }

  /// Whether a chunk of a message can be copied: it has come, or its place at the receiver is free.
  WEFT_BOTH bool ready(const Op& op, const State& state, uint32_t chunk) {
    const uint32_t number = state.first + chunk, at = number % kChunks;
    if (op.kind == Op::receive) return env_.load(&area_.arrived[state.lane][at]) == number + 1;
    return chunk < kChunks || env_.load(&inbox(op).drained[state.lane][at]) == number + 1 - kChunks;
  }

  /// The next chunk of operation i, if it can be copied now. Chunks of a required operation are drawn, many
  /// at a time by as many blocks: the one that has drawn a chunk copies it, so it may have to wait for it
  /// (`held`). Nobody stays for an operation that is not required, so its chunks are taken when they are
  /// ready, one after the other.
  WEFT_BOTH Step take_chunk(uint32_t i, Held& held) {
    const Op& op = ops_[i];
    State& state = area_.states[op.state];
    if (held.op != Held::kNone) {
      if (!ready(op, state, held.chunk)) return {};
      held.op = Held::kNone;
      return move(i, op, state, held.chunk);
    }
    const uint32_t chunk = env_.load(&state.next);
    if (chunk >= state.chunks || !ready(op, state, chunk)) return {};
    if ((op.flags & Op::is_required) == 0)
      return env_.exchange(&state.next, chunk, chunk + 1) ? move(i, op, state, chunk) : Step{};
    const uint32_t drawn = env_.add(&state.next, 1);
    if (drawn >= state.chunks) return {};
    if (drawn == chunk || ready(op, state, drawn)) return move(i, op, state, drawn);
    held.op = i;
    held.chunk = drawn;
    return {};
  }

  WEFT_BOTH Step move(uint32_t i, const Op& op, const State& state, uint32_t chunk) {
    const uint32_t number = state.first + chunk;
    Step step = only(Step::move);
    step.op = i;
    step.chunk = chunk;
    const uint64_t offset = uint64_t{chunk} * kChunk, rest = state.bytes - offset;
    step.bytes = rest < kChunk ? rest : kChunk;
    if (op.kind == Op::send) {
      step.to = op.remote + Area::chunk(head_.ranks, state.lane, number);
      step.from = op.address + offset;
    } else {
      const uint64_t room = offset < op.bytes ? op.bytes - offset : 0;
      if (step.bytes > room) step.bytes = room;
      step.to = op.address + offset;
      step.from = head_.area + Area::chunk(head_.ranks, state.lane, number);
    }
    return step;
  }

  /// As api/status.hpp lays out MPI_Status: source, tag, error (left alone), bytes, cancelled.
  WEFT_BOTH void write_status(const Op& op) {
    if (op.status == 0) return;
    const State& state = area_.states[op.state];
    const uint64_t bytes = state.bytes < op.bytes ? state.bytes : op.bytes;
    auto* status = &env_.template at<Words>(op.status)->word[0];
    status[0] = op.peer;
    status[1] = static_cast<uint32_t>(state.tag);
    status[3] = static_cast<uint32_t>(bytes);
    status[4] = static_cast<uint32_t>(bytes >> 32);
    status[5] = status[6] = status[7] = 0;
  }

  /// A message that was longer than its receive.
  WEFT_BOTH void report(const Op& op, const State& state) {
    if (state.bytes <= op.bytes) return;
    auto* fault = env_.template at<Fault>(head_.fault);
    fault->peer = op.peer;
    fault->tag = state.tag;
    fault->bytes = state.bytes;
    fault->room = op.bytes;
    env_.publish(&fault->seen, 1u);
  }

  Env& env_;
  const Head& head_;
  const Op* const ops_;
  Area& area_;
};

}  // namespace weft::device::kernel::enqueue
