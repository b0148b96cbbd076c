// SPDX-License-Identifier: BSD-3-Clause
// Jobs: drawing, running, comparing. job_calls.cpp has the collectives.
#include "coll/random/job.hpp"

#include <algorithm>
#include <bit>
#include <cstddef>

#include "coll/expect.hpp"

namespace randomized {

using expect::success;
using reference::Field;
using reference::Layout;

void Side::lay_out(Layout with, std::vector<Block> of, bool scattered) {
  layout = with;
  blocks = std::move(of);
  significant = true;
  const size_t n = blocks.size();
  std::vector<int64_t> at(n);
  int64_t end = 0;
  for (size_t i = 0; i < n; ++i) {
    const size_t block = scattered ? n - 1 - i : i;
    at[block] = end;
    end += blocks[block].words / layout.words + (scattered ? 1 : 0);
  }
  for (size_t i = 0; i < n; ++i) {
    counts.add(blocks[i].words / layout.words);
    displacements.add(at[i]);
    // Every second pair of words uses the word type with twice the count.
    const bool as_words = layout.extent == 2 && i % 2 == 1;
    types.push_back(as_words ? MPI_UINT32_T : type());
    mixed_counts.add(as_words ? blocks[i].words : counts[i]);
    addresses.add(at[i] * layout.extent * static_cast<int64_t>(sizeof(uint32_t)));
  }
  field = Field(layout, end);
}

void Side::fill(Field& into, size_t i) const {
  const Block& block = blocks[i];
  if (block.owner == kNobody) return;
  reference::fill(into, displacements[i], counts[i],
                  [&](int64_t k) { return word(block.owner, block.number, k); });
}

uint32_t Side::word(int owner, int number, int64_t k) const {
  const uint32_t value = reference::input(owner, number, k) + salt;
  if (!as_float) return value;
  constexpr uint32_t kMost = 1 << 18;  // sums of 64 terms are exact
  return std::bit_cast<uint32_t>(static_cast<float>(value % kMost));
}

void Side::fill(Field& into) const {
  for (size_t i = 0; i < blocks.size(); ++i) fill(into, i);
}

MPI_Datatype Side::type() const {
  if (!significant) return MPI_DATATYPE_NULL;
  return as_float ? MPI_FLOAT : expect::type_of(layout);
}

Job::Job(const Team& team, Draw& draw, std::initializer_list<int64_t> sizes)
    : team_(team),
      me_(team.me()),
      form_(draw.of({Form::blocking, Form::nonblocking, Form::persistent})),
      large_(draw.one_in(3)),
      in_place_(draw.one_in(3) && !team.inter()),
      plain_(draw.one_in(2)),
      n_(draw.of<int64_t>(sizes)),
      drawn_(draw.number()),
      operation_(draw.below(5)) {
  choose_root(draw);
  choose(draw);
}

void Job::choose_root(Draw& draw) {
  const bool lower_side = !team_.inter() || (team_.members < team_.remote) == draw.one_in(2);
  const auto& side = lower_side ? team_.members : team_.remote;
  const int root = draw.below(64) % static_cast<int>(side.size());
  root_process_ = side[static_cast<size_t>(root)];
  at_root_ = root_process_ == me_;
  at_leaf_ = !team_.inter() || !lower_side;
  root_ = at_leaf_ ? root : at_root_ ? MPI_ROOT : MPI_PROC_NULL;
}

int64_t Job::words(int from, int to, bool v) const {
  if (!v) return 2 * n_;
  if (symmetric_ && from > to)
    std::swap(from, to);  // in place: outgoing and incoming blocks share their position
  if (mix(drawn_, from, to, 4) == 0) return 0;
  return 2 * int64_t{mix(drawn_, from, to + 100000, static_cast<int>(n_ + 1))};
}

Layout Job::layout(int side) const {
  const int which = plain_ ? 0 : mix(drawn_, me_, 200000 + side, 3);
  return which == 0 ? reference::kWord : which == 1 ? reference::kPair : reference::kGaps;
}

int Job::edge(size_t i) const {
  if (team_.cartesian) return static_cast<int>(i ^ 1);
  const auto& sources = team_.sources[static_cast<size_t>(team_.rank)];
  auto before = std::count(sources.begin(), sources.begin() + static_cast<ptrdiff_t>(i), sources[i]);
  const auto& out = team_.destinations[static_cast<size_t>(sources[i])];
  size_t at = 0;
  while (out[at] != team_.rank || before-- > 0) ++at;
  return static_cast<int>(at);
}

void Job::receive_blocks() {
  result_ = [this](Field& field) { recv_.fill(field); };
}

uint32_t Job::reduced(const std::vector<int>& over, int64_t k) const {
  if (operation_ == 3) {
    reference::Affine result{1, 0};
    for (const int process : over)
      result = result *
               reference::Affine{send_.word(process, 0, k / 2 * 2), send_.word(process, 0, k / 2 * 2 + 1)};
    return k % 2 == 0 ? result.a : result.b;
  }
  uint32_t result = send_.word(over[0], 0, k);
  for (size_t i = 1; i < over.size(); ++i) {
    const uint32_t term = send_.word(over[i], 0, k);
    result = operation_ == 0   ? result + term
             : operation_ == 1 ? std::max(result, term)
             : operation_ == 2
                 ? result ^ term
                 : std::bit_cast<uint32_t>(std::bit_cast<float>(result) + std::bit_cast<float>(term));
  }
  return result;
}

MPI_Op Job::op() const {
  const MPI_Op kPredefined[] = {MPI_SUM, MPI_MAX, MPI_BXOR, MPI_OP_NULL, MPI_SUM};
  return operation_ == 3 ? expect::op_of(reference::kPair) : kPredefined[operation_];
}

std::string Job::text() const {
  static const char* const kForms[] = {"blocking", "nonblocking", "persistent"};
  char text[sizeof expect::situation];
  std::snprintf(text, sizeof text, "%s %s%s n=%ld root=%d%s op=%d on %zu+%zu: %s",
                kForms[static_cast<int>(form_)], name_.c_str(), large_ ? "_c" : "", static_cast<long>(n_),
                root_, in_place_ ? " in place" : "", operation_, team_.members.size(), team_.remote.size(),
                team_.history.c_str());
  return text;
}

void Job::describe() const {
  std::snprintf(expect::situation, sizeof expect::situation, "%s", text().c_str());
}

void Job::load() {
  // Large steps: the input of one run is not that of another block in the next.
  send_.salt = recv_.salt = static_cast<uint32_t>(drawn_) + ++runs_ * 0x9e3779b9U;
  send_.fill(send_.field);
  recv_.field.clear();
  if (preload_) preload_(recv_.field);
  expected_ = recv_.field;
  if (result_) result_(expected_);
}

void Job::compare() {
  describe();
  expect::equal(recv_.field, expected_);
}

void Job::begin() {
  describe();
  success(start_());
  if (form_ == Form::persistent) success(MPI_Start(&request_));
}

void Job::complete() {
  if (form_ == Form::blocking) return;
  describe();
  int done = 0;
  while (mix(drawn_, me_, 300000, 2) == 0 && done == 0)
    success(MPI_Test(&request_, &done, MPI_STATUS_IGNORE));
  if (done == 0) success(MPI_Wait(&request_, MPI_STATUS_IGNORE));
}

void Job::restart() {
  describe();
  success(MPI_Start(&request_));
}

void Job::free() { success(MPI_Request_free(&request_)); }

}  // namespace randomized
