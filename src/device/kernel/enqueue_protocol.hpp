// SPDX-License-Identifier: BSD-3-Clause
// Protocol of enqueued sends and receives, shared by the kernel and the emulated driver. One thread of a
// block queries next(), all threads execute the step, then that thread calls performed(). `Env` accesses
// memory: at(), peek (relaxed), load (acquire), store (release), packets, atomics; signal and publish notify
// the peer, publish with release order. Independent loads stand together: each takes a third of a
// microsecond.
#pragma once
#include "device/kernel/enqueue.hpp"

namespace weft::device::kernel::enqueue {

template <class Env>
class Protocol {
 public:
  WEFT_BOTH Protocol(Env& env, const Head& head, const Op* ops)
      : env_(env), head_(head), ops_(ops), region_(*env.template at<MailboxRegion>(head.region)) {}

  /// Returns whether the blocks need no communication.
  [[nodiscard]] WEFT_BOTH bool independent() const { return head_.independent != 0; }

  /// First call of a leading block: returns the phase of its operation.
  WEFT_BOTH uint32_t begin(uint32_t i) {
    const Op& op = ops_[i];
    State& state = region_.states[op.state];
    if ((op.flags & Op::is_fresh) != 0) {
      if ((op.flags & Op::is_required) == 0) state.phase = State::fresh;  // it may stay in this phase
      return State::fresh;
    }
    const uint32_t phase = env_.load(&state.phase);
    if (phase != State::fresh) settle(i);
    if (phase == State::moving) set_flag(&region_.board.moving[i]);
    return phase;
  }

  /// The next step of the block that leads operation i in phase `phase`.
  WEFT_BOTH Step next(uint32_t i, uint32_t& phase, DrawnChunk& drawn) {
    const Op& op = ops_[i];
    State& state = region_.states[op.state];
    if (phase == State::moving) phase = env_.load(&state.phase);  // helpers may have ended it
    if (phase == State::done) return only(Step::finish);
    if (phase == State::moving) return take_chunk(i, drawn);
    if (op.kind == Op::copy) return start_copy(i, op, state, phase, drawn);
    return op.kind == Op::send ? next_send(i, op, state, phase, drawn) : next_receive(i, op, state, phase);
  }

  /// The next step of a helper block.
  WEFT_BOTH Step help(DrawnChunk& drawn) {
    if (drawn.op != DrawnChunk::kNone) return take_chunk(drawn.op, drawn);
    for (uint32_t i = 0; i < head_.count; ++i) {
      if (env_.load(&region_.board.moving[i]) == 0) continue;
      const Step step = take_chunk(i, drawn);
      if (step.what != Step::nothing || drawn.op != DrawnChunk::kNone) return step;
    }
    return {};
  }

  /// Called after all threads of the block have executed the step.
  WEFT_BOTH void performed(const Step& step) {
    const Op& op = ops_[step.op];
    State& state = region_.states[op.state];
    if (step.what == Step::write_inline) {
      state.phase = phase_after(step);
      return;
    }
    if (step.what == Step::read_inline) {  // the stores depend on the loads, so no release is needed
      env_.signal(&remote_channel(op).consumed[state.number % kSlots], state.number + 1);
      report_truncation(op, state);
      state.phase = State::done;
      return;
    }
    if (step.what != Step::move) return;
    const uint32_t number = state.first + step.chunk;
    if (op.kind != Op::copy) env_.publish(moved_word(op, state, number), number + 1);
    if (env_.add(&state.completed, 1) + 1 != state.chunks) return;
    if (op.kind == Op::receive) {
      if (state.fifo != State::kPair) env_.store(&region_.fifos[state.fifo].busy, 0u);
      env_.publish(&remote_channel(op).consumed[state.number % kSlots], state.number + 1);
      report_truncation(op, state);
    }
    env_.store(&state.phase, static_cast<uint32_t>(State::done));
  }
  /// The phase that a leading block assumes after a step.
  [[nodiscard]] WEFT_BOTH uint32_t phase_after(const Step& step) const {
    if (step.what == Step::move) return State::moving;
    const bool awaited = step.what == Step::write_inline && (ops_[step.op].flags & Op::is_synchronous) != 0;
    return awaited ? State::written : State::done;
  }

  /// Writes the header of an eager message; called by one thread.
  WEFT_BOTH void write_header(const Step& step) {
    const Op& op = ops_[step.op];
    put_header(op, step.flag, op.bytes);
  }

  /// Counts a completed operation, of this launch or an earlier one.
  WEFT_BOTH void count(uint32_t i) {
    write_status(ops_[i]);
    if (!independent() && (ops_[i].flags & Op::is_required) != 0) env_.add(&region_.board.finished, 1);
  }
  /// Returns whether the block may exit: its operation is not required, and all required ones are finished.
  WEFT_BOTH bool may_leave(uint32_t i) {
    if ((ops_[i].flags & Op::is_required) != 0) return false;
    return all_finished();
  }
  WEFT_BOTH bool all_finished() {
    return independent() || env_.load(&region_.board.finished) == head_.required;
  }
  /// Returns whether the host has cancelled the operations; blocks then leave without completing theirs.
  /// Reads host memory.
  [[nodiscard]] WEFT_BOTH bool cancelled() {
    return env_.load(&env_.template at<Fault>(head_.fault)->cancelled) != 0;
  }
  /// Shows readers from outside that the block which leads operation i waits. Called once in many polls,
  /// since it writes to host memory.
  WEFT_BOTH void beat(uint32_t i) {
    if ((ops_[i].flags & Op::is_required) == 0) return;
    uint32_t& word = env_.template at<Reports>(head_.fault)->beats[ops_[i].state];
    env_.store(&word, env_.load(&word) + 1);
  }
  /// The last block clears the board.
  WEFT_BOTH void leave() {
    if (independent() || env_.add(&region_.board.out, 1) + 1 != head_.count + head_.helpers) return;
    for (uint32_t i = 0; i < head_.count; ++i) region_.board.settled[i] = region_.board.moving[i] = 0;
    region_.board.finished = 0;
    region_.board.out = 0;
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
  WEFT_BOTH Peer& peer(const Op& op) {
    return *env_.template at<Peer>(head_.region + MailboxRegion::peer(op.peer));
  }
  /// Written by the peer here; written here at the peer.
  WEFT_BOTH PeerChannel& channel(const Op& op) {
    return *env_.template at<PeerChannel>(head_.region + MailboxRegion::channel(head_.ranks, op.peer));
  }
  WEFT_BOTH MailboxRegion& remote(const Op& op) { return *env_.template at<MailboxRegion>(op.remote); }
  WEFT_BOTH uint64_t remote_channel_address(const Op& op) {
    return op.remote + MailboxRegion::channel(head_.ranks, head_.rank);
  }
  WEFT_BOTH PeerChannel& remote_channel(const Op& op) {
    return *env_.template at<PeerChannel>(remote_channel_address(op));
  }

  /// The word at the peer that tells of a chunk: it has arrived, or its buffer is free again.
  WEFT_BOTH uint32_t* moved_word(const Op& op, const State& state, uint32_t number) {
    const bool sends = op.kind == Op::send;
    if (state.fifo == State::kPair) {
      PeerChannel& there = remote_channel(op);
      return &(sends ? there.in_pair : there.out_of_pair)[number % kPairBuffers];
    }
    if (sends) return &remote(op).arrived[state.fifo][number % kChunks];
    return &remote_channel(op).drained[state.fifo][number % kChunks];
  }

  /// Atomically claims a word that other blocks compete for.
  WEFT_BOTH bool claim(uint32_t* word, uint32_t before, uint32_t value) {
    if (!independent()) return env_.exchange(word, before, value);
    *word = value;
    return true;
  }
  WEFT_BOTH void set_flag(uint32_t* word) {
    if (!independent()) env_.store(word, 1u);
  }
  WEFT_BOTH void settle(uint32_t i) {
    if ((ops_[i].flags & Op::has_successor) != 0) env_.store(&region_.board.settled[i], 1u);
  }
  WEFT_BOTH void start_moving(uint32_t i, State& state, uint32_t& phase) {
    state.chunks = static_cast<uint32_t>((state.bytes + kChunk - 1) / kChunk);
    state.next = state.completed = 0;
    state.phase = phase = State::moving;
    set_flag(&region_.board.moving[i]);
  }

  WEFT_BOTH void put_header(const Op& op, uint32_t flag, uint64_t announced) {
    LLPacket* header = remote_channel(op).headers[(flag - 1) % kSlots];
    env_.put(&header[0], flag, static_cast<uint32_t>(op.tag));
    env_.put(&header[1], flag, announced);
  }
  /// Claims a pair buffer for a send. A synchronous send ends with its CTS, so it takes none.
  WEFT_BOTH bool claim_pair_buffer(const Op& op, Peer& to, State& state) {
    if (op.bytes > uint64_t{head_.pair_kib} * 1024 || (op.flags & Op::is_synchronous) != 0) return false;
    const uint32_t number = to.next_in_pair, buffer = number % kPairBuffers;
    if (env_.load(&channel(op).out_of_pair[buffer]) != to.pair_sent[buffer]) return false;
    to.next_in_pair = number + 1;
    to.pair_sent[buffer] = number + 1;
    state.fifo = State::kPair;
    state.first = number;
    return true;
  }

  /// The message numbers have wrapped: packets unused since then may hold flags of 2^32 messages ago.
  WEFT_BOTH void wipe(const Op& op, uint32_t slot) {
    env_.put(&channel(op).cts[slot], 0, 0);
    for (LLPacket& packet : remote_channel(op).payload[slot]) env_.put(&packet, 0, 0);
    env_.fence();
  }

  WEFT_BOTH Step start_copy(uint32_t i, const Op& op, State& state, uint32_t& phase, DrawnChunk& drawn) {
    state.bytes = op.bytes;
    state.tag = op.tag;
    state.fifo = state.first = 0;
    start_moving(i, state, phase);
    return take_chunk(i, drawn);
  }

  WEFT_BOTH Step next_send(uint32_t i, const Op& op, State& state, uint32_t& phase, DrawnChunk& drawn) {
    if (phase == State::rts_sent) {
      uint64_t send_cts;
      if (!env_.get(&channel(op).cts[state.number % kSlots], state.number + 1, send_cts)) return {};
      state.fifo = static_cast<uint32_t>(send_cts);
      state.first = static_cast<uint32_t>(send_cts >> 32);
      start_moving(i, state, phase);
      return take_chunk(i, drawn);
    }
    Peer& to = peer(op);
    if (phase == State::written) {  // a later message in the slot shows that this one has been received
      const uint32_t slot = state.number % kSlots, flag = state.number + 1;
      if (env_.load(&channel(op).consumed[slot]) != flag && env_.load(&to.sent[slot]) == flag) return {};
      state.phase = phase = State::done;
      return only(Step::finish);
    }
    if (op.before != Op::kNone && env_.load(&region_.board.settled[op.before]) == 0) return {};
    const uint32_t number = to.next_send, slot = number % kSlots, flag = number + 1;
    const uint32_t consumed = env_.load(&channel(op).consumed[slot]), sent = to.sent[slot];
    if (consumed != sent) return {};
    if (number < kSlots && sent != 0) wipe(op, slot);
    to.sent[slot] = flag;
    to.next_send = next_number(number);
    state.number = number;
    state.bytes = op.bytes;
    if (op.bytes > kInlineBytes) {
      const bool in_pair = claim_pair_buffer(op, to, state);
      put_header(op, flag, in_pair ? Announced::in_pair(state.first, op.bytes) : op.bytes);
      settle(i);
      if (in_pair) {
        start_moving(i, state, phase);
        return take_chunk(i, drawn);
      }
      state.phase = phase = State::rts_sent;
      return {};
    }
    settle(i);
    Step step = only(Step::write_inline);
    step.op = i;
    step.flag = flag;
    step.packets =
        remote_channel_address(op) + offsetof(PeerChannel, payload) + slot * sizeof(PeerChannel::payload[0]);
    step.from = op.address;
    step.from_layout = op.layout;
    step.bytes = op.bytes;
    return step;
  }

  WEFT_BOTH Step next_receive(uint32_t i, const Op& op, State& state, uint32_t& phase) {
    if (phase == State::matched) return send_cts(i, op, state, phase);
    if (!match(i, op, state)) return {};
    settle(i);
    if (state.bytes > kInlineBytes) {
      if (state.fifo == State::kPair) {
        start_moving(i, state, phase);
        return {};
      }
      state.phase = phase = State::matched;
      return send_cts(i, op, state, phase);
    }
    Step step = only(Step::read_inline);
    step.op = i;
    step.flag = state.number + 1;
    step.packets = head_.region + MailboxRegion::channel(head_.ranks, op.peer) +
                   offsetof(PeerChannel, payload) + state.number % kSlots * sizeof(PeerChannel::payload[0]);
    step.to = op.address;
    step.to_layout = op.layout;
    step.bytes = state.bytes < op.bytes ? state.bytes : op.bytes;
    return step;
  }

  /// Finds the oldest message that the receive matches. Messages arrive in order, so the first gap ends the
  /// search.
  WEFT_BOTH bool match(uint32_t i, const Op& op, State& state) {
    Peer& from = peer(op);
    PeerChannel& box = channel(op);
    const uint32_t begin = env_.peek(&from.next_receive);
    uint32_t oldest = begin;  // as seen by this block
    bool all_taken = true;
    for (uint32_t n = begin, k = 0; k < kSlots; ++k, n = next_number(n)) {
      const uint32_t slot = n % kSlots, flag = n + 1;
      const uint32_t before = env_.peek(&from.taken[slot]);
      uint64_t tag, announced;
      const bool first = env_.get(&box.headers[slot][0], flag, tag);
      const bool second = env_.get(&box.headers[slot][1], flag, announced);
      if (before == flag) {
        if (all_taken) oldest = next_number(n);
        continue;
      }
      all_taken = false;
      if (!first || !second) break;
      const auto its_tag = static_cast<int32_t>(static_cast<uint32_t>(tag));
      if (!fits(op, its_tag)) continue;
      // The earlier receive may match any later message too, so the search must stop.
      if (belongs_to_earlier(i, op, its_tag)) break;
      if (!claim(&from.taken[slot], before, flag)) return false;  // another block was faster
      if (n == oldest) claim(&from.next_receive, begin, next_number(n));
      state.number = n;
      state.tag = its_tag;
      state.bytes = announced;
      state.fifo = 0;
      if ((announced & Announced::kInPair) != 0) {
        state.bytes = announced & ((uint64_t{1} << Announced::kShift) - 1);
        state.fifo = State::kPair;
        state.first = static_cast<uint32_t>(announced >> Announced::kShift);
      }
      return true;
    }
    if (oldest != begin) claim(&from.next_receive, begin, oldest);
    return false;
  }
  WEFT_BOTH static bool fits(const Op& op, int32_t tag) {
    return op.tag == kAnyTag ? tag >= 0 : op.tag == tag;
  }
  WEFT_BOTH bool belongs_to_earlier(uint32_t i, const Op& op, int32_t tag) {
    for (uint32_t j = 0; j < i; ++j) {
      const Op& earlier = ops_[j];
      if (earlier.kind == Op::receive && earlier.peer == op.peer && fits(earlier, tag) &&
          env_.load(&region_.board.settled[j]) == 0)
        return true;
    }
    return false;
  }

  /// Sends a CTS with a free FIFO to the sender of a rendezvous message.
  WEFT_BOTH Step send_cts(uint32_t i, const Op& op, State& state, uint32_t& phase) {
    for (uint32_t l = 0; l < kFifos; ++l) {
      Fifo& fifo = region_.fifos[l];
      if (env_.load(&fifo.busy) != 0 || !env_.exchange(&fifo.busy, 0u, 1u)) continue;
      state.fifo = l;
      state.first = kFirstChunk + fifo.next;
      fifo.next += static_cast<uint32_t>((state.bytes + kChunk - 1) / kChunk);
      start_moving(i, state, phase);
      env_.put(&remote_channel(op).cts[state.number % kSlots], state.number + 1,
               uint64_t{state.first} << 32 | l);
      return {};
    }
    return {};
  }

  /// Returns whether a chunk can be copied: it has arrived, or its slot at the receiver is free.
  WEFT_BOTH bool ready(const Op& op, const State& state, uint32_t chunk) {
    if (op.kind == Op::copy) return true;
    const uint32_t number = state.first + chunk, at = number % kChunks;
    if (state.fifo == State::kPair)
      return op.kind == Op::send || env_.load(&channel(op).in_pair[number % kPairBuffers]) == number + 1;
    if (op.kind == Op::receive) return env_.load(&region_.arrived[state.fifo][at]) == number + 1;
    return chunk < kChunks || env_.load(&channel(op).drained[state.fifo][at]) == number + 1 - kChunks;
  }

  /// Takes the next chunk of operation i if it can be copied now. Blocks take chunks of a required operation
  /// in advance, one atomic each, and then wait for the chunk (`drawn`). No block waits for an optional
  /// operation, so its chunks are taken only when ready, one by one.
  WEFT_BOTH Step take_chunk(uint32_t i, DrawnChunk& drawn) {
    const Op& op = ops_[i];
    State& state = region_.states[op.state];
    if (drawn.op != DrawnChunk::kNone) {
      if (!ready(op, state, drawn.chunk)) return {};
      drawn.op = DrawnChunk::kNone;
      return move(i, op, state, drawn.chunk);
    }
    const uint32_t chunk = env_.load(&state.next);
    if (chunk >= state.chunks || !ready(op, state, chunk)) return {};
    if ((op.flags & Op::is_required) == 0)
      return env_.exchange(&state.next, chunk, chunk + 1) ? move(i, op, state, chunk) : Step{};
    const uint32_t ticket = env_.add(&state.next, 1);
    if (ticket >= state.chunks) return {};
    if (ticket == chunk || ready(op, state, ticket)) return move(i, op, state, ticket);
    drawn.op = i;
    drawn.chunk = ticket;
    return {};
  }

  /// Offset of a message's chunk in the region of its receiver.
  WEFT_BOTH uint64_t chunk_of(const State& state, uint32_t sender, uint32_t number) {
    return state.fifo == State::kPair ? MailboxRegion::pair_buffer(head_.ranks, sender, number)
                                      : MailboxRegion::chunk(head_.ranks, state.fifo, number);
  }
  WEFT_BOTH Step move(uint32_t i, const Op& op, const State& state, uint32_t chunk) {
    const uint32_t number = state.first + chunk;
    Step step = only(Step::move);
    step.op = i;
    step.chunk = chunk;
    const uint64_t offset = uint64_t{chunk} * kChunk, rest = state.bytes - offset;
    step.bytes = rest < kChunk ? rest : kChunk;
    step.at = offset;
    if (op.kind == Op::send) {
      step.to = op.remote + chunk_of(state, head_.rank, number);
    } else {
      const uint64_t capacity = offset < op.bytes ? op.bytes - offset : 0;
      if (step.bytes > capacity) step.bytes = capacity;
      step.to = op.address + (op.layout == 0 ? offset : 0);
      step.to_layout = op.layout;
    }
    if (op.kind == Op::receive) {
      step.from = head_.region + chunk_of(state, op.peer, number);
    } else {
      const bool sends = op.kind == Op::send;
      step.from_layout = sends ? op.layout : op.source_layout;
      step.from = (sends ? op.address : op.remote) + (step.from_layout == 0 ? offset : 0);
    }
    return step;
  }

  /// MPI_Status as laid out in api/status.hpp: source, tag, error (unchanged), bytes, cancelled.
  WEFT_BOTH void write_status(const Op& op) {
    if (op.status == 0) return;
    const State& state = region_.states[op.state];
    const uint64_t bytes = state.bytes < op.bytes ? state.bytes : op.bytes;
    auto* status = &env_.template at<Words>(op.status)->word[0];
    status[0] = op.peer;
    status[1] = static_cast<uint32_t>(state.tag);
    status[3] = static_cast<uint32_t>(bytes);
    status[4] = static_cast<uint32_t>(bytes >> 32);
    status[5] = status[6] = status[7] = 0;
  }

  /// Reports a message longer than its receive.
  WEFT_BOTH void report_truncation(const Op& op, const State& state) {
    if (state.bytes <= op.bytes) return;
    auto* fault = env_.template at<Fault>(head_.fault);
    fault->peer = op.peer;
    fault->tag = state.tag;
    fault->bytes = state.bytes;
    fault->capacity = op.bytes;
    env_.publish(&fault->seen, 1u);
  }

  Env& env_;
  const Head& head_;
  const Op* const ops_;
  MailboxRegion& region_;
};

}  // namespace weft::device::kernel::enqueue
