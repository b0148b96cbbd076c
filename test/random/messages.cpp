// SPDX-License-Identifier: BSD-3-Clause
#include "random/messages.hpp"

#include <algorithm>

#include "coll/expect.hpp"
#include "random/sizes.hpp"

namespace mixed {

using expect::success;
using reference::Layout;

namespace {

constexpr int kMostMessages = 8;

const char* const kModes[] = {"exact",  "persistent",       "any source", "any source and tag",
                              "probed", "probed by any tag"};

}  // namespace

Messages::Part::Part(Message* sent_or_wanted, Layout layout, int64_t most)
    : message(sent_or_wanted),
      field(layout, 2 * most / layout.words),
      count(static_cast<int>(2 * most / layout.words)),
      address(expect::buffer_for(field)) {
  copies.upload();
}

MPI_Datatype Messages::Part::type() const { return expect::type_of(field.layout()); }

Messages::Messages(std::shared_ptr<const Team> team, Draw& draw, int step)
    : team_(std::move(team)),
      comm_(team_->comm),
      step_(step),
      mode_(draw.of({Mode::exact, Mode::exact, Mode::persistent, Mode::any_source, Mode::any, Mode::probed,
                     Mode::probed_any})),
      drawn_(draw.number()) {
  for (int i = 0, n = 1 + draw.below(kMostMessages); i < n; ++i) {
    const int from = draw.below(team_->size()), to = draw.below(team_->size());
    auto form = draw.of({SendForm::standard, SendForm::standard, SendForm::synchronous, SendForm::blocking,
                         SendForm::blocking_synchronous});
    // A rank that waits in a send does not probe.
    if (probes() && form >= SendForm::blocking) form = SendForm::standard;
    messages_.push_back({from, to, i, draw.of(sizes_of(draw)), form});
  }
}

Messages::~Messages() {
  for (Parts* parts : {&sends_, &receives_})
    for (const auto& part : *parts)
      if (part->request != MPI_REQUEST_NULL) success(MPI_Request_free(&part->request));
  if (own_comm_) success(MPI_Comm_free(&comm_));
}

std::string Messages::text() const {
  std::string text = std::to_string(messages_.size()) + " messages (" + kModes[static_cast<int>(mode_)] +
                     ") of step " + std::to_string(step_) + " among " + std::to_string(team_->size()) +
                     " ranks: " + team_->history;
  return text;
}

int Messages::tag(const Message& message) const {
  const bool common = mode_ == Mode::any_source || mode_ == Mode::probed;
  return step_ * kMostMessages + (common ? 0 : message.number);
}

Layout Messages::layout(int number, int side) const {
  const int which = randomized::mix(drawn_, number, side, 4);
  return which < 2 ? reference::kWord : which == 2 ? reference::kPair : reference::kGaps;
}

uint32_t Messages::word(const Message& message, int64_t k) const {
  return reference::input(message.from * kMostMessages + message.number, 0, k) +
         static_cast<uint32_t>(drawn_) + runs_ * 0x9e3779b9U;
}

void Messages::make_parts() {
  int64_t most = 0;
  for (const Message& message : messages_)
    if (message.to == team_->rank) most = std::max(most, message.pairs);
  for (Message& message : messages_) {
    if (message.to == team_->rank && !probes())
      receives_.push_back(std::make_unique<Part>(wild() ? nullptr : &message, layout(message.number, 1),
                                                 wild() ? most : message.pairs));
    if (message.from == team_->rank)
      sends_.push_back(std::make_unique<Part>(&message, layout(message.number, 0), message.pairs));
  }
}

void Messages::load() {
  ++runs_;
  for (const auto& part : sends_) {
    reference::fill(part->field, 0, part->count, [&](int64_t k) { return word(*part->message, k); });
    part->copies.upload();
  }
  for (const auto& part : receives_) {
    part->field.clear();
    part->copies.upload();
  }
}

void Messages::start_receives() {
  for (const auto& part : receives_) {
    const int source = wild() ? MPI_ANY_SOURCE : part->message->from;
    const int by = any_tag() ? MPI_ANY_TAG : tag(wild() ? messages_[0] : *part->message);
    auto* const call = persistent() ? &MPI_Recv_init : &MPI_Irecv;
    success(call(part->address, part->count, part->type(), source, by, comm_, &part->request));
    if (persistent()) success(MPI_Start(&part->request));
  }
}

void Messages::start_sends() {
  for (const auto& part : sends_) {
    const Message& message = *part->message;
    const bool synchronous =
        message.form == SendForm::synchronous || message.form == SendForm::blocking_synchronous;
    if (message.form >= SendForm::blocking && !persistent()) {
      auto* const call = synchronous ? &MPI_Ssend : &MPI_Send;
      success(call(part->address, part->count, part->type(), message.to, tag(message), comm_));
      continue;
    }
    auto* const call = persistent()  ? synchronous ? &MPI_Ssend_init : &MPI_Send_init
                       : synchronous ? &MPI_Issend
                                     : &MPI_Isend;
    success(call(part->address, part->count, part->type(), message.to, tag(message), comm_, &part->request));
    if (persistent()) success(MPI_Start(&part->request));
  }
}

void Messages::start() {
  std::snprintf(expect::situation, sizeof expect::situation, "start of %s", text().c_str());
  // On a communicator of their own, messages meet no receives of others.
  own_comm_ = any_tag() || randomized::mix(drawn_, 0, 3, 4) == 0;
  if (own_comm_) success(MPI_Comm_dup(team_->comm, &comm_));
  make_parts();
  load();
  start_receives();
  start_sends();
  if (probes()) probe_all();
  if (own_comm_ && randomized::mix(drawn_, 0, 4, 2) == 0) {
    success(MPI_Comm_free(&comm_));
    own_comm_ = false;
  }
}

void Messages::probe_all() {
  for (const Message& message : messages_)
    if (message.to == team_->rank) receive_probed();
}

/// Receives the message that a probe has found, in a buffer of its size.
void Messages::receive_probed() {
  const auto number = static_cast<int>(receives_.size());
  const int by = mode_ == Mode::probed_any ? MPI_ANY_TAG : tag(messages_[0]);
  const int way = randomized::mix(drawn_, number, 5, 4);
  MPI_Message message = MPI_MESSAGE_NULL;
  MPI_Status status;
  int words = 0, there = 0;
  if (way == 0) success(MPI_Probe(MPI_ANY_SOURCE, by, comm_, &status));
  while (way == 1 && there == 0) success(MPI_Iprobe(MPI_ANY_SOURCE, by, comm_, &there, &status));
  if (way == 2) success(MPI_Mprobe(MPI_ANY_SOURCE, by, comm_, &message, &status));
  while (way == 3 && there == 0) success(MPI_Improbe(MPI_ANY_SOURCE, by, comm_, &there, &message, &status));
  success(MPI_Get_count(&status, MPI_UINT32_T, &words));
  receives_.push_back(std::make_unique<Part>(nullptr, layout(number, 1), words / 2));
  Part& part = *receives_.back();
  const int source = status.MPI_SOURCE, tag = status.MPI_TAG;
  if (way == 0) success(MPI_Recv(part.address, part.count, part.type(), source, tag, comm_, &part.status));
  if (way == 1) success(MPI_Irecv(part.address, part.count, part.type(), source, tag, comm_, &part.request));
  if (way == 2) success(MPI_Mrecv(part.address, part.count, part.type(), &message, &part.status));
  if (way == 3) success(MPI_Imrecv(part.address, part.count, part.type(), &message, &part.request));
}

void Messages::restart() {
  std::snprintf(expect::situation, sizeof expect::situation, "restart of %s", text().c_str());
  load();
  for (Parts* parts : {&receives_, &sends_})
    for (const auto& part : *parts) success(MPI_Start(&part->request));
}

std::vector<MPI_Request*> Messages::requests() {
  handles_.clear();
  for (Parts* parts : {&receives_, &sends_})
    for (const auto& part : *parts)
      if (part->request != MPI_REQUEST_NULL) handles_.push_back(&part->request);
  return handles_;
}

void Messages::completed(size_t request, const MPI_Status& status) {
  const MPI_Request* const handle = handles_[request];
  for (const auto& part : receives_)
    if (&part->request == handle) part->status = status;
  if (!persistent() && *handle != MPI_REQUEST_NULL) expect::fail("a request outlives its completion");
}

/// The message that a receive must have taken: of the source that the status names, the first one sent that
/// no earlier receive has taken (MPI 5.0 section 3.5).
Messages::Message& Messages::match(const Part& part) {
  const auto found = std::ranges::find_if(messages_, [&](const Message& message) {
    return !message.taken && message.to == team_->rank && message.from == part.status.MPI_SOURCE;
  });
  if (found == messages_.end()) expect::fail("a message that nobody sent, of", part.status.MPI_SOURCE);
  found->taken = true;
  return *found;
}

void Messages::compare(Part& part) {
  const Message& message = part.message != nullptr ? *part.message : match(part);
  int words = 0;
  success(MPI_Get_count(&part.status, MPI_UINT32_T, &words));
  std::snprintf(expect::situation, sizeof expect::situation, "message %d from %d to %d, %ld pairs, in %s",
                message.number, message.from, message.to, static_cast<long>(message.pairs), text().c_str());
  if (words != 2 * message.pairs) expect::fail("words received", words);
  if (part.status.MPI_SOURCE != message.from) expect::fail("source", part.status.MPI_SOURCE, message.from);
  if (part.status.MPI_TAG != tag(message)) expect::fail("tag", part.status.MPI_TAG, tag(message));
  reference::Field expected = part.field;
  expected.clear();
  reference::fill(expected, 0, 2 * message.pairs / part.field.layout().words,
                  [&](int64_t k) { return word(message, k); });
  part.copies.download();
  expect::equal(part.field, expected);
}

void Messages::check() {
  for (Message& message : messages_) message.taken = false;
  for (const auto& part : receives_) compare(*part);
}

}  // namespace mixed
