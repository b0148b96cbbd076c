// SPDX-License-Identifier: BSD-3-Clause
#include "rma/oracle/plan.hpp"

#include <algorithm>
#include <cstdlib>
#include <cstring>

namespace oracle {
namespace {

constexpr size_t kSlotAlignment = 48;  // a multiple of each displacement unit and of each element's alignment
constexpr int kSmall = 3;              // values are below; their sums and products fit in 8 bits
constexpr int kPutValues = 100;
constexpr int kTokens[] = {8, 64};  // first values of chains, apart from their initial value

/// Draws a layout of at most `capacity` elements with their gaps; `factors` receives its factors.
Layout draw_target(Draw& draw, const Element& element, int capacity, std::vector<int>& factors) {
  for (int tries = 0; tries < 4; ++tries) {
    factors.clear();
    if (capacity > 1000) factors.push_back(100);
    for (int i = draw.below(3); i >= 0; --i) factors.push_back(draw.of({1, 2, 3, 4, 5}));
    Layout layout(draw, element, factors);
    if (layout.bytes() <= static_cast<size_t>(capacity) * element.extent) return layout;
  }
  factors = {1};
  return Layout(draw, element, factors);
}

void forget_padding(const Element& element, std::vector<bool>& undefined, size_t at) {
  if (element.keeps_padding) return;
  size_t next = 0;
  const auto forget = [&](size_t from, size_t to) {
    for (size_t i = from; i < to; ++i) undefined[at + i] = true;
  };
  for (const Piece& piece : element.pieces) {
    forget(next, piece.at);
    next = piece.at + piece.bytes;
  }
  forget(next, element.extent);
}

bool same_value(const Element& element, const char* a, const char* b) {
  return std::memcmp(a, b, element.extent) == 0;
}

}  // namespace

void Field::create(Draw& draw, size_t bytes) {
  image.resize(bytes + 2 * kGuard);
  undefined.assign(image.size(), false);
  const uint64_t seed = draw.number();
  for (size_t i = 0; i < image.size(); ++i) image[i] = static_cast<char>(seed >> (i % 8 * 8));
}

void Field::forget(size_t at, size_t bytes) {
  for (size_t i = 0; i < bytes; ++i) undefined[kGuard + at + i] = true;
}

Operation::Operation(Verb wanted, int from, const Slot& where, int slot_index, Layout target_layout,
                     Layout buffer)
    : verb(wanted),
      origin(from),
      target(where.target),
      slot(slot_index),
      displacement(where.at),
      at_target(std::move(target_layout)),
      at_buffer(std::move(buffer)) {}

bool Operation::fetches() const { return verb != Verb::put && verb != Verb::accumulate; }

std::string Operation::text() const {
  static const char* const names[] = {
      "put", "get", "accumulate", "get_accumulate", "fetch_and_op", "compare_and_swap", "modify"};
  return std::string(by_request ? "R" : "") + names[static_cast<int>(verb)] + " of " +
         std::to_string(at_target.at().size()) + " elements " + name_of(at_target.element()) + " from rank " +
         std::to_string(origin) + " to rank " + std::to_string(target) + ", slot " + std::to_string(slot) +
         " at byte " + std::to_string(displacement) + ", MPI_Op " +
         std::to_string(reinterpret_cast<uintptr_t>(op)) + (chain >= 0 ? ", chain" : "");
}

std::vector<Slot> draw_slots(Draw& draw, Windows& windows) {
  std::vector<Slot> slots;
  for (size_t rank = 0; rank < windows.bytes.size(); ++rank) {
    size_t at = 0;
    for (int wanted = 2 + draw.below(6); wanted > 0; --wanted) {
      Slot slot{static_cast<int>(rank), at, draw.of({1, 1, 4, 16, 40}), nullptr, nullptr};
      slot.element = draw.one_in(3) ? &draw_moved(draw, &slot.other_form)
                                    : slot.other_form = &draw_element(draw, slot.elements == 1);
      if (draw.one_in(8)) slot.elements = 4000;
      const size_t bytes = static_cast<size_t>(slot.elements) * slot.element->extent;
      if (at + bytes > windows.bytes[rank]) continue;
      for (int i = 0; i < slot.elements; ++i)
        put_value(*slot.element, &windows.model[rank][at + static_cast<size_t>(i) * slot.element->extent],
                  draw.below(kSmall));
      slots.push_back(slot);
      at = (at + bytes + kSlotAlignment * static_cast<size_t>(1 + draw.below(2)) - 1) / kSlotAlignment *
           kSlotAlignment;
    }
  }
  return slots;
}

Phase::Phase(Draw& draw, const Rules& rules, Windows& windows, std::vector<Slot>& slots, bool last)
    : rules_(rules), windows_(windows), slots_(slots) {
  for (int i = 0; i < static_cast<int>(slots.size()); ++i) {
    const Element& element = *slots[static_cast<size_t>(i)].element;
    const bool reduces = element.kind != Class::moved;
    const bool integer = element.kind == Class::integer;
    switch (draw.below(6)) {
      case 0:
        break;
      case 1:
        put(draw, i);
        break;
      case 2:
        get(draw, i);
        break;
      case 3:
        if (reduces) single(draw, i);
        break;
      case 4:
        if (reduces) many(draw, i);
        break;
      case 5:
        if (integer && last) chain(draw, i);
    }
  }
}

Operation& Phase::add(Draw& draw, Verb verb, int origin, int slot, bool one) {
  const Slot& where = slots_[static_cast<size_t>(slot)];
  const bool moves = verb == Verb::put || verb == Verb::get;
  const Element& buffer_form = moves && where.other_form != nullptr ? *where.other_form : *where.element;
  std::vector<int> factors{1};
  Layout target = one ? Layout(*where.element) : draw_target(draw, *where.element, where.elements, factors);
  Layout buffer = one ? Layout(buffer_form) : Layout(draw, buffer_form, factors);
  operations_.push_back(
      std::make_unique<Operation>(verb, origin, where, slot, std::move(target), std::move(buffer)));
  return *operations_.back();
}

/// Creates the buffers, draws the values, and applies the operation to the model.
void Phase::finish(Draw& draw, Operation& o, int values) {
  const size_t bytes = o.at_buffer.bytes(), extent = o.at_buffer.element().extent;
  o.by_request = draw.one_in(3) && rules_.epoch >= Epoch::exclusive && o.verb <= Verb::get_accumulate;
  if (o.updates()) {
    o.data.create(draw, bytes);
    for (const size_t at : o.at_buffer.at())
      put_value(o.at_buffer.element(), o.data.expected() + at, draw.below(values));
  }
  if (o.fetches()) o.result.create(draw, bytes);
  if (o.verb == Verb::compare_and_swap) {
    o.compared.create(draw, bytes);
    put_value(o.at_buffer.element(), o.compared.expected(), draw.below(values));
    if (draw.one_in(2))
      std::memcpy(o.compared.expected(), &windows_.model[static_cast<size_t>(o.target)][o.displacement],
                  extent);
  }
  if (o.chain < 0) apply(o);
  if (!o.determined && o.fetches()) o.result.forget(0, bytes);
}

void Phase::apply(Operation& o) {
  std::vector<char>& model = windows_.model[static_cast<size_t>(o.target)];
  std::vector<bool>& undefined = windows_.undefined[static_cast<size_t>(o.target)];
  const Element &held_form = o.at_target.element(), &form = o.at_buffer.element();
  for (size_t i = 0; i < o.at_target.at().size(); ++i) {
    const size_t at = o.displacement + o.at_target.at()[i], place = o.at_buffer.at()[i];
    char* held = &model[at];
    if (o.fetches()) {
      copy_element(held_form, held, form, o.result.expected() + place);
      forget_padding(form, o.result.undefined, Field::kGuard + place);
    }
    if (!o.updates()) continue;
    const char* data = o.data.expected() + place;
    if (o.verb == Verb::put)
      copy_element(form, data, held_form, held);
    else if (o.verb != Verb::compare_and_swap)
      combine(form, o.op, data, held);
    else if (same_value(form, held, o.compared.expected()))
      copy_element(form, data, held_form, held);
    forget_padding(held_form, undefined, at);
  }
}

void Phase::put(Draw& draw, int slot) {
  finish(draw, add(draw, Verb::put, draw.below(rules_.ranks), slot, false), kPutValues);
}

void Phase::get(Draw& draw, int slot) {
  const bool reduces = slots_[static_cast<size_t>(slot)].element->kind != Class::moved;
  for (int n = draw.below(2 * rules_.ranks); n > 0; --n) {
    const Verb verb =
        reduces ? draw.of({Verb::get, Verb::get, Verb::get_accumulate, Verb::fetch_and_op}) : Verb::get;
    finish(draw, add(draw, verb, draw.below(rules_.ranks), slot, verb == Verb::fetch_and_op), kSmall);
  }
}

void Phase::single(Draw& draw, int slot) {
  const Element& element = *slots_[static_cast<size_t>(slot)].element;
  const int origin = draw.below(rules_.ranks);
  const bool swaps = element.kind == Class::integer && (rules_.mixes || draw.one_in(3));
  MPI_Op op = draw_operation(draw, element);
  for (int n = rules_.ordered ? 1 + draw.below(5) : 1; n > 0; --n) {
    Verb verb = draw.of({Verb::accumulate, Verb::accumulate, Verb::get_accumulate, Verb::fetch_and_op});
    if (swaps && (!rules_.mixes || draw.one_in(4))) verb = Verb::compare_and_swap;
    const bool one = verb == Verb::fetch_and_op || verb == Verb::compare_and_swap;
    Operation& o = add(draw, verb, origin, slot, one);
    if (rules_.mixes) op = draw.one_in(3) ? MPI_REPLACE : draw_operation(draw, element);
    o.op = rules_.uses_no_op && o.fetches() && draw.one_in(5) ? MPI_NO_OP : op;
    finish(draw, o, kSmall);
  }
}

void Phase::many(Draw& draw, int slot) {
  const Element& element = *slots_[static_cast<size_t>(slot)].element;
  MPI_Op op = draw_operation(draw, element);
  if (element.kind == Class::complex) op = MPI_SUM;  // the order of products shows in the sign of zeros
  for (int n = draw.below(2 * rules_.ranks); n > 0; --n) {
    const Verb verb = draw.of({Verb::accumulate, Verb::accumulate, Verb::get_accumulate, Verb::fetch_and_op});
    Operation& o = add(draw, verb, draw.below(rules_.ranks), slot, verb == Verb::fetch_and_op);
    o.op = op;
    o.determined = false;
    finish(draw, o, op == MPI_PROD ? 2 : kSmall);
  }
}

void Phase::chain(Draw& draw, int slot) {
  const Slot& where = slots_[static_cast<size_t>(slot)];
  const Link link = draw.of({Link::sum, Link::sum, Link::replace, Link::swap});
  const bool modifies = link == Link::sum && rules_.epoch == Epoch::exclusive && draw.one_in(2);
  Chain chain{slot, link,
              get_value(*where.element, &windows_.model[static_cast<size_t>(where.target)][where.at]), 0};
  chain.next_token = kTokens[chain.initial >= kTokens[0] && chain.initial < kTokens[1] ? 1 : 0];
  for (int n = 1 + draw.below(6 * rules_.ranks); n > 0; --n) {
    const bool reads = rules_.uses_no_op && link != Link::swap && !modifies && draw.one_in(6);
    const Verb verb = modifies             ? Verb::modify
                      : link == Link::swap ? Verb::compare_and_swap
                                           : draw.of({Verb::fetch_and_op, Verb::get_accumulate});
    Operation& o = add(draw, verb, draw.below(rules_.ranks), slot, true);
    o.op = reads ? MPI_NO_OP : link == Link::sum ? MPI_SUM : MPI_REPLACE;
    o.chain = static_cast<int>(chains_.size());
    o.compare_value = chain.initial;
    o.token = link == Link::sum ? 1 : chain.next_token++;
    o.determined = false;
    finish(draw, o, kSmall);
    put_value(*where.element, o.data.expected(), o.token);
    if (link == Link::swap) put_value(*where.element, o.compared.expected(), chain.initial);
  }
  chains_.push_back(chain);
}

bool Phase::accesses(int origin, int target) const {
  return std::any_of(operations_.begin(), operations_.end(),
                     [&](const auto& o) { return o->origin == origin && o->target == target; });
}

bool Phase::updates(int target) const {
  return std::any_of(operations_.begin(), operations_.end(),
                     [&](const auto& o) { return o->target == target && o->updates(); });
}

std::vector<Operation*> Phase::of(Draw& draw, int origin) const {
  std::vector<Operation*> mine;
  for (const auto& operation : operations_)
    if (operation->origin == origin) mine.push_back(operation.get());
  std::vector<int> order;  // of slots
  for (const Operation* operation : mine) order.push_back(operation->slot);
  for (size_t i = order.size(); i > 1; --i)
    std::swap(order[i - 1], order[static_cast<size_t>(draw.below(static_cast<int>(i)))]);
  std::vector<Operation*> mixed;
  for (const int slot : order) {
    const auto next = std::find_if(mine.begin(), mine.end(),
                                   [&](const Operation* o) { return o != nullptr && o->slot == slot; });
    mixed.push_back(*next);
    *next = nullptr;
  }
  return mixed;
}

bool check_chain(const Phase& phase, int chain, const std::vector<long long>& outcomes,
                 const std::vector<Slot>& slots, Windows& windows, long long final_value, bool ordered,
                 std::string& problem) {
  const Chain& links = phase.chains()[static_cast<size_t>(chain)];
  struct Step {
    const Operation* operation;
    long long result;
    bool changes;
  };
  std::vector<Step> steps;
  for (size_t i = 0; i < phase.all().size(); ++i) {
    const Operation& o = *phase.all()[i];
    if (o.chain != chain) continue;
    const long long compared = outcomes[2 * i], result = outcomes[2 * i + 1];
    steps.push_back({&o, result, links.link == Link::swap ? result == compared : o.op != MPI_NO_OP});
  }
  const size_t extent = slots[static_cast<size_t>(links.slot)].element->extent;
  const auto sum = [&](long long value) {
    ++value;
    return extent == sizeof value ? value : value & ((1LL << (8 * extent)) - 1);
  };
  // Each change takes a value that no other change takes, beginning with the initial value.
  std::vector<long long> history{links.initial};
  const size_t changes = static_cast<size_t>(
      std::count_if(steps.begin(), steps.end(), [](const Step& step) { return step.changes; }));
  while (history.size() <= changes) {
    const auto next = std::find_if(steps.begin(), steps.end(), [&](const Step& step) {
      return step.changes && step.result == history.back();
    });
    if (next == steps.end()) break;
    history.push_back(links.link == Link::sum ? sum(next->result) : next->operation->token);
    next->changes = false;
    next->result = history[history.size() - 2];
  }
  const auto position = [&](long long value) { return std::find(history.begin(), history.end(), value); };
  if (history.size() != changes + 1)
    problem = std::to_string(changes + 1 - history.size()) + " changes are not in the serial order";
  else if (history.back() != final_value)
    problem = "the final value is " + std::to_string(final_value) + ", not " + std::to_string(history.back());
  std::vector<std::ptrdiff_t> reached(windows.bytes.size(), 0);
  for (const Step& step : steps) {
    auto& before = reached[static_cast<size_t>(step.operation->origin)];
    const auto now = position(step.result) - history.begin();
    if (problem.empty() && (position(step.result) == history.end() || (ordered && now < before)))
      problem = step.operation->text() + ": result " + std::to_string(step.result) +
                " never existed, or is older than an earlier result of the same rank";
    before = now;
  }
  const Slot& slot = slots[static_cast<size_t>(links.slot)];
  put_value(*slot.element, &windows.model[static_cast<size_t>(slot.target)][slot.at], history.back());
  if (!problem.empty())
    for (const Step& step : steps)
      problem += "\n  " + step.operation->text() + ": " + std::to_string(step.result);
  return problem.empty();
}

}  // namespace oracle
