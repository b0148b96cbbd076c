// SPDX-License-Identifier: BSD-3-Clause
// How enqueued sends and receives proceed, written once for the kernel and for the emulated driver. One
// thread of a block asks next() what the block does; all its threads do it; that thread says so with
// performed(). `Env` is where memory is reached: at(), load (acquire), store (release), packets, atomics.
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

[[nodiscard]] WEFT_BOTH constexpr uint32_t next_number(uint32_t n) { return n + 1 == kNumbers ? 0 : n + 1; }

template <class Env>
class Protocol {
 public:
  WEFT_BOTH Protocol(Env& env, const Batch& batch)
      : env_(env),
        batch_(batch),
        area_(*env.template at<Area>(batch.area)),
        solo_(batch.count + batch.helpers == 1) {}

  /// The first thing that a block does which leads an operation.
  WEFT_BOTH void begin(uint32_t i) {
    const Op& op = batch_.ops[i];
    State& state = area_.states[op.state];
    if ((op.flags & Op::is_fresh) != 0) {
      state.phase = State::fresh;
      return;
    }
    const uint32_t phase = env_.load(&state.phase);
    if (phase != State::fresh) settle(i);
    if (phase == State::moving) tell(&area_.board.moving[i]);
  }

  /// The next step of the block that leads operation i.
  WEFT_BOTH Step next(uint32_t i) {
    const Op& op = batch_.ops[i];
    State& state = area_.states[op.state];
    const uint32_t phase = solo_ ? state.phase : env_.load(&state.phase);
    if (phase == State::done) return only(Step::finish);
    if (phase == State::moving) return take_chunk(i);
    return op.kind == Op::send ? next_send(i, op, state, phase) : next_receive(i, op, state, phase);
  }

  /// The next step of a block that helps.
  WEFT_BOTH Step help() {
    for (uint32_t i = 0; i < batch_.count; ++i) {
      if (env_.load(&area_.board.moving[i]) == 0) continue;
      const Step step = take_chunk(i);
      if (step.what != Step::nothing) return step;
    }
    return {};
  }

  /// After all threads of the block have done the step.
  WEFT_BOTH void performed(const Step& step) {
    const Op& op = batch_.ops[step.op];
    State& state = area_.states[op.state];
    if (step.what == Step::write_inline) return enter(state, State::done);
    if (step.what == Step::read_inline) return received(op, state);
    if (step.what != Step::move) return;
    const uint32_t number = state.first + step.chunk;
    if (op.kind == Op::send)
      env_.publish(&remote(op).arrived[state.lane][number % kChunks], number + 1);
    else
      env_.publish(&remote_inbox(op).drained[state.lane][number % kChunks], number + 1);
    if (env_.add(&state.completed, 1) + 1 != state.chunks) return;
    if (op.kind == Op::send) return enter(state, State::done);
    env_.store(&area_.lanes[state.lane].busy, 0u);
    received(op, state);
  }

  /// The header of a message that is sent inline: beside the payload, by one thread.
  WEFT_BOTH void write_header(const Step& step) {
    const Op& op = batch_.ops[step.op];
    put_header(op, step.flag);
  }

  /// An operation is complete, in this launch or since an earlier one: said to those who wait for it.
  WEFT_BOTH void count(uint32_t i) {
    write_status(batch_.ops[i]);
    if (!solo_ && (batch_.ops[i].flags & Op::is_required) != 0) env_.add(&area_.board.finished, 1);
  }
  /// Whether operations that nobody waits for here are to be left for the next launch.
  WEFT_BOTH bool over(uint32_t i) {
    if ((batch_.ops[i].flags & Op::is_required) != 0) return false;
    return all_finished();
  }
  WEFT_BOTH bool all_finished() { return solo_ || env_.load(&area_.board.finished) == batch_.required; }
  /// The last block that leaves wipes the board.
  WEFT_BOTH void leave() {
    if (solo_ || env_.add(&area_.board.out, 1) + 1 != batch_.count + batch_.helpers) return;
    for (uint32_t i = 0; i < batch_.count; ++i) area_.board.settled[i] = area_.board.moving[i] = 0;
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
  WEFT_BOTH Peer& peer(const Op& op) { return *env_.template at<Peer>(batch_.area + Area::peer(op.peer)); }
  /// What the peer writes here, and what is written to the peer.
  WEFT_BOTH Inbox& inbox(const Op& op) {
    return *env_.template at<Inbox>(batch_.area + Area::inbox(area_.ranks, op.peer));
  }
  WEFT_BOTH Area& remote(const Op& op) { return *env_.template at<Area>(peer(op).area); }
  WEFT_BOTH uint64_t remote_inbox_address(const Op& op) {
    return peer(op).area + Area::inbox(area_.ranks, area_.rank);
  }
  WEFT_BOTH Inbox& remote_inbox(const Op& op) { return *env_.template at<Inbox>(remote_inbox_address(op)); }

  /// A block that is alone orders nothing: a release would wait for its stores to the peer.
  WEFT_BOTH void enter(State& state, State::Phase phase) {
    if (solo_)
      state.phase = phase;
    else
      env_.store(&state.phase, static_cast<uint32_t>(phase));
  }
  WEFT_BOTH void tell(uint32_t* word) {
    if (!solo_) env_.store(word, 1u);
  }
  WEFT_BOTH void settle(uint32_t i) { tell(&area_.board.settled[i]); }
  WEFT_BOTH void start_moving(uint32_t i, State& state) {
    state.chunks = static_cast<uint32_t>((state.bytes + kChunk - 1) / kChunk);
    state.next = state.completed = 0;
    enter(state, State::moving);
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

  WEFT_BOTH Step next_send(uint32_t i, const Op& op, State& state, uint32_t phase) {
    if (phase == State::announced) {
      uint64_t grant;
      if (!env_.get(&inbox(op).granted[state.number % kSlots], state.number + 1, grant)) return {};
      state.lane = static_cast<uint32_t>(grant);
      state.first = static_cast<uint32_t>(grant >> 32);
      start_moving(i, state);
      return take_chunk(i);
    }
    if (op.before != Op::kNone && env_.load(&area_.board.settled[op.before]) == 0) return {};
    Peer& to = peer(op);
    const uint32_t number = to.next_send, slot = number % kSlots, flag = number + 1;
    if (env_.load(&inbox(op).consumed[slot]) != to.sent[slot]) return {};
    if (number < kSlots && to.sent[slot] != 0) wipe(op, slot);
    to.sent[slot] = flag;
    to.next_send = next_number(number);
    state.number = number;
    state.bytes = op.bytes;
    if (op.bytes > kInline) {
      put_header(op, flag);
      enter(state, State::announced);
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

  WEFT_BOTH Step next_receive(uint32_t i, const Op& op, State& state, uint32_t phase) {
    if (phase == State::matched) return grant(i, op, state);
    if (!match(i, op, state)) return {};
    settle(i);
    if (state.bytes > kInline) {
      enter(state, State::matched);
      return grant(i, op, state);
    }
    Step step = only(Step::read_inline);
    step.op = i;
    step.flag = state.number + 1;
    step.packets = batch_.area + Area::inbox(area_.ranks, op.peer) + offsetof(Inbox, payload) +
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
    const uint32_t begin = env_.load(&from.next_receive);
    uint32_t oldest = begin;  // as far as is seen here
    bool all_taken = true;
    for (uint32_t n = begin, k = 0; k < kSlots; ++k, n = next_number(n)) {
      const uint32_t slot = n % kSlots, flag = n + 1, before = env_.load(&from.taken[slot]);
      if (before == flag) {
        if (all_taken) oldest = next_number(n);
        continue;
      }
      all_taken = false;
      uint64_t tag, bytes;
      if (!env_.get(&box.headers[slot][0], flag, tag) || !env_.get(&box.headers[slot][1], flag, bytes)) break;
      const auto its_tag = static_cast<int32_t>(static_cast<uint32_t>(tag));
      if (!fits(op, its_tag) || belongs_to_earlier(i, op, its_tag)) continue;
      if (!env_.exchange(&from.taken[slot], before, flag)) return false;  // another block was quicker
      if (n == oldest) env_.exchange(&from.next_receive, begin, next_number(n));
      state.number = n;
      state.tag = its_tag;
      state.bytes = bytes;
      return true;
    }
    if (oldest != begin) env_.exchange(&from.next_receive, begin, oldest);
    return false;
  }
  WEFT_BOTH static bool fits(const Op& op, int32_t tag) { return op.tag == kAnyTag || op.tag == tag; }
  WEFT_BOTH bool belongs_to_earlier(uint32_t i, const Op& op, int32_t tag) {
    for (uint32_t j = 0; j < i; ++j) {
      const Op& earlier = batch_.ops[j];
      if (earlier.kind == Op::receive && earlier.peer == op.peer && fits(earlier, tag) &&
          env_.load(&area_.board.settled[j]) == 0)
        return true;
    }
    return false;
  }

  /// Gives the sender of an announced message a lane, once one is free.
  WEFT_BOTH Step grant(uint32_t i, const Op& op, State& state) {
    for (uint32_t l = 0; l < kLanes; ++l) {
      Lane& lane = area_.lanes[l];
      if (env_.load(&lane.busy) != 0 || !env_.exchange(&lane.busy, 0u, 1u)) continue;
      state.lane = l;
      state.first = kFirstChunk + lane.next;
      lane.next += static_cast<uint32_t>((state.bytes + kChunk - 1) / kChunk);
      start_moving(i, state);
      env_.put(&remote_inbox(op).granted[state.number % kSlots], state.number + 1,
               uint64_t{state.first} << 32 | l);
      return {};
    }
    return {};
  }

  /// The next chunk of operation i, if it can be copied now without waiting.
  WEFT_BOTH Step take_chunk(uint32_t i) {
    const Op& op = batch_.ops[i];
    State& state = area_.states[op.state];
    const uint32_t chunk = env_.load(&state.next);
    if (chunk >= state.chunks) return {};
    const uint32_t number = state.first + chunk, at = number % kChunks;
    if (op.kind == Op::send) {
      if (chunk >= kChunks && env_.load(&inbox(op).drained[state.lane][at]) != number + 1 - kChunks)
        return {};
    } else if (env_.load(&area_.arrived[state.lane][at]) != number + 1) {
      return {};
    }
    if (!env_.exchange(&state.next, chunk, chunk + 1)) return {};
    Step step = only(Step::move);
    step.op = i;
    step.chunk = chunk;
    const uint64_t offset = uint64_t{chunk} * kChunk, rest = state.bytes - offset;
    step.bytes = rest < kChunk ? rest : kChunk;
    if (op.kind == Op::send) {
      step.to = peer(op).area + Area::chunk(area_.ranks, state.lane, number);
      step.from = op.address + offset;
    } else {
      const uint64_t room = offset < op.bytes ? op.bytes - offset : 0;
      if (step.bytes > room) step.bytes = room;
      step.to = op.address + offset;
      step.from = batch_.area + Area::chunk(area_.ranks, state.lane, number);
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

  /// A message is out of its slot, which the sender may use again.
  WEFT_BOTH void received(const Op& op, State& state) {
    env_.publish(&remote_inbox(op).consumed[state.number % kSlots], state.number + 1);
    if (state.bytes > op.bytes) {
      auto* fault = env_.template at<Fault>(batch_.fault);
      fault->peer = op.peer;
      fault->tag = state.tag;
      fault->bytes = state.bytes;
      fault->room = op.bytes;
      env_.publish(&fault->seen, 1u);
    }
    enter(state, State::done);
  }

  Env& env_;
  const Batch& batch_;
  Area& area_;
  const bool solo_;
};

}  // namespace weft::device::kernel::enqueue
