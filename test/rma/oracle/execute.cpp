// SPDX-License-Identifier: BSD-3-Clause
#include "rma/oracle/execute.hpp"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <thread>

namespace oracle {
namespace {

const char* const kEpochs[] = {"fence", "pscw", "exclusive lock", "shared lock", "lock_all"};

}  // namespace

void Arena::place(Field& field, const Layout* flipped) {
  std::vector<char> bytes = field.image;
  if (flipped != nullptr)
    for (const size_t at : flipped->at())
      for (const Piece& piece : flipped->element().pieces)
        for (size_t i = 0; i < piece.bytes; ++i) {
          char& byte = bytes[Field::kGuard + at + piece.at + i];
          byte = static_cast<char>(~byte);
        }
  const size_t at = (used_ + kAlignment - 1) / kAlignment * kAlignment + kAlignment - Field::kGuard;
  if (at + bytes.size() > kBytes) {
    std::fprintf(stderr, "oracle: the arena is too small\n");
    MPI_Abort(MPI_COMM_WORLD, 3);
  }
  used_ = at + bytes.size();
  field.arena_at = at;
  field.content = memory_->data() + at + Field::kGuard;
  memory_->write(at, bytes.data(), bytes.size());
}

void Arena::write(const Field& field, const std::vector<char>& bytes) {
  const std::lock_guard<std::mutex> lock(mutex_);
  memory_->write(field.arena_at, bytes.data(), bytes.size());
}

std::vector<char> Arena::read(const Field& field) {
  const std::lock_guard<std::mutex> lock(mutex_);
  std::vector<char> bytes(field.image.size());
  memory_->read(field.arena_at, bytes.data(), bytes.size());
  return bytes;
}

Executor::Executor(MPI_Comm comm, Window& window, Windows& model, std::vector<Slot>& slots, int threads,
                   std::string round)
    : comm_(comm),
      window_(window),
      win_(window.handle()),
      model_(model),
      slots_(slots),
      threads_(threads),
      round_(std::move(round)) {
  MPI_Comm_rank(comm, &rank_);
  MPI_Comm_size(comm, &size_);
}

void Executor::fail(const std::string& text) const {
  std::fprintf(stderr, "oracle: rank %d, %s window, %s: %s\n", rank_, window_.flavor(), where_.c_str(),
               text.c_str());
  std::fflush(stderr);
  MPI_Abort(MPI_COMM_WORLD, 1);
  std::abort();
}

void Executor::run(Draw& draw, const Rules& rules, int phases, Draw& own) {
  where_ = round_ + ", " + kEpochs[static_cast<int>(rules.epoch)];
  window_.write(model_.model[static_cast<size_t>(rank_)]);
  MPI_Barrier(comm_);
  for (int i = 0; i < phases; ++i) run_phase(draw, rules, i + 1 == phases, own, i == 0);
  MPI_Barrier(comm_);
  compare_window();
}

void Executor::open(Epoch epoch, bool first, const Phase& phase, Draw& own) {
  const bool untouched = !phase.updates(rank_) && own.one_in(2);
  if (epoch == Epoch::fence)
    MPI_Win_fence((first && own.one_in(2) ? MPI_MODE_NOPRECEDE : 0) | (untouched ? MPI_MODE_NOPUT : 0), win_);
  if (epoch == Epoch::all && first)
    MPI_Win_lock_all(own.one_in(4) && !without("nocheck") ? MPI_MODE_NOCHECK : 0, win_);
}

void Executor::close(Epoch epoch, bool last) {
  if (epoch == Epoch::fence && last) MPI_Win_fence(MPI_MODE_NOSUCCEED, win_);
  if (epoch == Epoch::all && last) MPI_Win_unlock_all(win_);
  if (epoch == Epoch::all && !last) MPI_Win_flush_all(win_);
  if (epoch >= Epoch::exclusive) MPI_Barrier(comm_);
}

void Executor::run_phase(Draw& draw, const Rules& rules, bool last, Draw& own, bool first) {
  executed_.push_back(std::make_unique<Phase>(draw, rules, model_, slots_, last));
  const Phase& phase = *executed_.back();
  const std::vector<Operation*> mine = phase.of(own, rank_);
  operations_ += static_cast<long>(mine.size());
  arena_.clear();
  for (Operation* o : mine) {
    if (o->updates()) arena_.place(o->data, nullptr);
    if (o->verb == Verb::compare_and_swap) arena_.place(o->compared, nullptr);
    if (o->fetches()) arena_.place(o->result, &o->at_buffer);
  }
  open(rules.epoch, first, phase, own);
  if (rules.epoch == Epoch::pscw)
    general_active(phase, mine, rules, draw, own);
  else if (rules.epoch == Epoch::exclusive || rules.epoch == Epoch::shared)
    lock_targets(mine, rules, own);
  else
    issue_in_threads(mine, rules, own);
  // A fence that ends this phase begins the next; results are defined after it.
  if (rules.epoch == Epoch::fence && !last) MPI_Win_fence(0, win_);
  close(rules.epoch, last);
  for (Operation* o : mine) compare_results(*o);
  if (last) check_chains(phase, rules);
}

MPI_Group Executor::group_of(const std::vector<int>& ranks) const {
  MPI_Group all, made;
  MPI_Win_get_group(win_, &all);
  MPI_Group_incl(all, static_cast<int>(ranks.size()), ranks.data(), &made);
  MPI_Group_free(&all);
  return made;
}

void Executor::general_active(const Phase& phase, const std::vector<Operation*>& mine, const Rules& rules,
                              Draw& draw, Draw& own) {
  std::vector<int> origins, targets;
  for (int origin = 0; origin < size_; ++origin)
    for (int target = 0; target < size_; ++target) {
      const bool idle = draw.one_in(6);  // a pair without operations
      if (!idle && !phase.accesses(origin, target)) continue;
      if (target == rank_) origins.push_back(origin);
      if (origin == rank_) targets.push_back(target);
    }
  const bool checked = draw.one_in(4);
  const int assertion = checked ? MPI_MODE_NOCHECK : 0;
  MPI_Group from = group_of(origins), to = group_of(targets);
  if (!origins.empty()) MPI_Win_post(from, assertion | (phase.updates(rank_) ? 0 : MPI_MODE_NOPUT), win_);
  if (checked) MPI_Barrier(comm_);
  if (!targets.empty()) {
    MPI_Win_start(to, assertion, win_);
    issue_in_threads(mine, rules, own);
    MPI_Win_complete(win_);
  }
  if (!origins.empty() && own.one_in(2)) {
    for (int done = 0; done == 0;) MPI_Win_test(win_, &done);
  } else if (!origins.empty()) {
    MPI_Win_wait(win_);
  }
  MPI_Group_free(&from);
  MPI_Group_free(&to);
}

void Executor::lock_targets(std::vector<Operation*> mine, const Rules& rules, Draw& own) {
  const int type = rules.epoch == Epoch::exclusive ? MPI_LOCK_EXCLUSIVE : MPI_LOCK_SHARED;
  while (!mine.empty()) {
    const int target = mine[static_cast<size_t>(own.below(static_cast<int>(mine.size())))]->target;
    const auto rest = std::stable_partition(mine.begin(), mine.end(),
                                            [&](const Operation* o) { return o->target != target; });
    // Some operations of the target, in order; the others in a lock of their own.
    const auto end = own.one_in(3) ? rest + 1 + own.below(static_cast<int>(mine.end() - rest)) : mine.end();
    const std::vector<Operation*> now(rest, end);
    mine.erase(rest, end);
    MPI_Win_lock(type, target,
                 type == MPI_LOCK_SHARED && own.one_in(4) && !without("nocheck") ? MPI_MODE_NOCHECK : 0,
                 win_);
    issue_in_threads(now, rules, own);
    MPI_Win_unlock(target, win_);
  }
}

void Executor::issue_in_threads(const std::vector<Operation*>& operations, const Rules& rules, Draw& own) {
  std::vector<std::vector<Operation*>> parts(static_cast<size_t>(threads_));
  for (Operation* o : operations) parts[static_cast<size_t>(o->slot % threads_)].push_back(o);
  std::vector<std::thread> others;
  for (size_t i = 1; i < parts.size(); ++i)
    if (!parts[i].empty())
      others.emplace_back(
          [this, &part = parts[i], &rules, seed = own.number()] { issue_all(part, rules, Draw(seed)); });
  issue_all(parts[0], rules, Draw(own.number()));
  for (std::thread& other : others) other.join();
}

void Executor::issue_all(const std::vector<Operation*>& operations, const Rules& rules, Draw own) {
  std::vector<Operation*> pending;  // without completion so far, in one epoch
  std::vector<MPI_Request> requests;
  std::vector<const Operation*> last_of(slots_.size(), nullptr);
  const bool passive = rules.epoch >= Epoch::exclusive;
  for (Operation* o : operations) {
    if (own.one_in(20)) issue_ineffective(own);
    const Operation*& last = last_of[static_cast<size_t>(o->slot)];
    if (o->chain >= 0 && passive && last != nullptr) link(*o, last);
    last = o;
    MPI_Request request = MPI_REQUEST_NULL;
    issue(*o, &request);
    if (!passive) continue;
    if (o->chain >= 0) {
      flush(o->target, own.one_in(2), false);
      if (request != MPI_REQUEST_NULL) MPI_Wait(&request, MPI_STATUS_IGNORE);
    } else if (request != MPI_REQUEST_NULL && own.one_in(2)) {
      requests.push_back(request);
    } else {
      synchronise_one(*o, request, pending, own);
    }
  }
  MPI_Waitall(static_cast<int>(requests.size()), requests.data(), MPI_STATUSES_IGNORE);
}

/// Completes the operation by its request, or all pending operations by a flush now and then.
void Executor::synchronise_one(Operation& o, MPI_Request request, std::vector<Operation*>& pending,
                               Draw& own) {
  if (request != MPI_REQUEST_NULL) {
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    compare_results(o);
    scribble(o);
    return;
  }
  pending.push_back(&o);
  if (!own.one_in(5)) return;
  const bool all = own.one_in(2);
  flush(o.target, own.one_in(2), all);
  for (Operation*& done : pending) {
    if (!all && done->target != o.target) continue;
    compare_results(*done);
    scribble(*done);
    done = nullptr;
  }
  pending.erase(std::remove(pending.begin(), pending.end(), nullptr), pending.end());
}

void Executor::flush(int target, bool local, bool all) {
  if (all)
    local ? MPI_Win_flush_local_all(win_) : MPI_Win_flush_all(win_);
  else
    local ? MPI_Win_flush_local(target, win_) : MPI_Win_flush(target, win_);
}

/// Lets a swap compare with the value that the previous operation of this rank has seen or stored.
void Executor::link(Operation& o, const Operation* before) {
  if (o.verb != Verb::compare_and_swap) return;
  const Element& element = o.at_buffer.element();
  const long long seen = get_value(element, arena_.read(before->result).data() + Field::kGuard);
  o.compare_value = seen == before->compare_value ? before->token : seen;
  put_value(element, o.compared.expected(), o.compare_value);
  arena_.write(o.compared, o.compared.image);
}

#define TARGET(o) o.target, window_.displacement(o.target, o.displacement)
#define BUFFER(o, field) o.field.content, o.at_buffer.count(), o.at_buffer.type()
#define LAYOUT(o) TARGET(o), o.at_target.count(), o.at_target.type()

void Executor::issue(Operation& o, MPI_Request* request) {
  const MPI_Datatype element = o.at_buffer.element().type;
  switch (o.verb) {
    case Verb::put:
      if (o.by_request)
        MPI_Rput(BUFFER(o, data), LAYOUT(o), win_, request);
      else
        MPI_Put(BUFFER(o, data), LAYOUT(o), win_);
      break;
    case Verb::get:
      if (o.by_request)
        MPI_Rget(BUFFER(o, result), LAYOUT(o), win_, request);
      else
        MPI_Get(BUFFER(o, result), LAYOUT(o), win_);
      break;
    case Verb::accumulate:
      if (o.by_request)
        MPI_Raccumulate(BUFFER(o, data), LAYOUT(o), o.op, win_, request);
      else
        MPI_Accumulate(BUFFER(o, data), LAYOUT(o), o.op, win_);
      break;
    case Verb::get_accumulate:
      if (o.by_request)
        MPI_Rget_accumulate(BUFFER(o, data), BUFFER(o, result), LAYOUT(o), o.op, win_, request);
      else
        MPI_Get_accumulate(BUFFER(o, data), BUFFER(o, result), LAYOUT(o), o.op, win_);
      break;
    case Verb::fetch_and_op:
      MPI_Fetch_and_op(o.data.content, o.result.content, element, TARGET(o), o.op, win_);
      break;
    case Verb::compare_and_swap:
      MPI_Compare_and_swap(o.data.content, o.compared.content, o.result.content, element, TARGET(o), win_);
      break;
    case Verb::modify:
      MPI_Get(BUFFER(o, result), LAYOUT(o), win_);
      MPI_Win_flush(o.target, win_);
      put_value(o.at_buffer.element(), o.data.expected(),
                get_value(o.at_buffer.element(), arena_.read(o.result).data() + Field::kGuard) + 1);
      arena_.write(o.data, o.data.image);
      MPI_Put(BUFFER(o, data), LAYOUT(o), win_);
  }
}

/// Operations with MPI_PROC_NULL or without elements, which must change nothing.
void Executor::issue_ineffective(Draw& own) {
  char byte = 1;
  if (own.one_in(2))
    MPI_Put(&byte, 1, MPI_CHAR, MPI_PROC_NULL, 0, 1, MPI_CHAR, win_);
  else
    MPI_Accumulate(&byte, 1, MPI_BYTE, MPI_PROC_NULL, 0, 1, MPI_BYTE, MPI_BOR, win_);
}

/// Overwrites the origin buffer of a locally complete operation: MPI must not read it any more.
void Executor::scribble(Operation& o) {
  if (!o.updates()) return;
  for (char& byte : o.data.image) byte = static_cast<char>(~byte);
  arena_.write(o.data, o.data.image);
}

void Executor::compare(Operation& o, Field& field, const char* name) {
  const std::vector<char> found = arena_.read(field);
  for (size_t i = 0; i < found.size(); ++i) {
    if (field.undefined[i] || found[i] == field.image[i]) continue;
    fail(o.text() + ": byte " + std::to_string(static_cast<long>(i) - static_cast<long>(Field::kGuard)) +
         " of the " + name + " is " + std::to_string(static_cast<unsigned char>(found[i])) + ", not " +
         std::to_string(static_cast<unsigned char>(field.image[i])));
  }
}

void Executor::compare_results(Operation& o) {
  if (o.updates()) compare(o, o.data, "origin buffer");
  if (o.verb == Verb::compare_and_swap) compare(o, o.compared, "compare buffer");
  if (o.fetches()) compare(o, o.result, "result");
}

void Executor::compare_window() {
  const size_t self = static_cast<size_t>(rank_);
  const std::vector<char> found = window_.read();
  for (size_t i = 0; i < found.size(); ++i) {
    if (model_.undefined[self][i] || found[i] == model_.model[self][i]) continue;
    const auto slot = std::find_if(slots_.rbegin(), slots_.rend(),
                                   [&](const Slot& each) { return each.target == rank_ && each.at <= i; });
    std::string slot_text = "no slot";
    if (slot != slots_.rend())
      slot_text = "slot " + std::to_string(slots_.rend() - slot - 1) + ", elements " +
                  name_of(*slot->element) + " from byte " + std::to_string(slot->at);
    std::string updates;
    for (const auto& phase : executed_)
      for (const auto& o : phase->all())
        if (o->target == rank_ && o->updates() && o->slot == slots_.rend() - slot - 1)
          updates += "\n  " + o->text();
    fail("byte " + std::to_string(i) + " of the window (" + slot_text + ") is " +
         std::to_string(static_cast<unsigned char>(found[i])) + ", not " +
         std::to_string(static_cast<unsigned char>(model_.model[self][i])) + "; its updates:" + updates);
  }
}

void Executor::check_chains(const Phase& phase, const Rules& rules) {
  if (phase.chains().empty()) return;
  const size_t operations = phase.all().size();
  std::vector<long long> outcomes(2 * operations + phase.chains().size(), 0), all(outcomes.size());
  for (size_t i = 0; i < operations; ++i) {
    const Operation& o = *phase.all()[i];
    if (o.chain < 0 || o.origin != rank_) continue;
    outcomes[2 * i] = o.compare_value;
    outcomes[2 * i + 1] = get_value(o.at_buffer.element(), arena_.read(o.result).data() + Field::kGuard);
  }
  MPI_Barrier(comm_);  // every rank's epoch has ended
  const std::vector<char> memory = window_.read();
  for (size_t i = 0; i < phase.chains().size(); ++i) {
    const Slot& slot = slots_[static_cast<size_t>(phase.chains()[i].slot)];
    if (slot.target == rank_) outcomes[2 * operations + i] = get_value(*slot.element, &memory[slot.at]);
  }
  MPI_Allreduce(outcomes.data(), all.data(), static_cast<int>(all.size()), MPI_LONG_LONG, MPI_SUM, comm_);
  for (size_t i = 0; i < phase.chains().size(); ++i) {
    std::string problem;
    const bool ordered = rules.ordered || rules.epoch >= Epoch::exclusive;
    if (!check_chain(phase, static_cast<int>(i), all, slots_, model_, all[2 * operations + i], ordered,
                     problem))
      fail("chain in slot " + std::to_string(phase.chains()[i].slot) + ": " + problem);
  }
}

}  // namespace oracle
