// SPDX-License-Identifier: BSD-3-Clause
#include "p2p/random/traffic.hpp"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <utility>

namespace randomized {
namespace {

constexpr int kTags = 3, kLargest = 150000;
constexpr size_t kOutstanding = 24;  // outstanding sends or receives per thread

int size_of(Draw& draw) {
  constexpr int kEnvelope = sizeof(Envelope);
  if (draw.one_in(8)) return kEnvelope + 4000 + draw.below(kLargest - kEnvelope - 4000);
  return kEnvelope + draw.below(draw.one_in(3) ? 3000 : 60);
}

int tag_in(const Receipt& receipt) { return receipt.tag == kAny ? MPI_ANY_TAG : receipt.tag; }

}  // namespace

Traffic::Traffic(Process& process, int thread, uint64_t seed)
    : process_(process), thread_(thread), draw_(seed) {}

void Traffic::fail(const std::string& what) const {
  std::fprintf(stderr, "rank %d, thread %d: %s\n", process_.rank, thread_, what.c_str());
  MPI_Abort(MPI_COMM_WORLD, 1);
  std::abort();
}

void Traffic::act() {
  switch (draw_.below(16)) {
    case 0:
      return cancel_send();
    case 1:
      return cancel_receive();
    case 2:
    case 3:
      return probe();
    case 4:
    case 5: {
      const Receipt wanted = filters();
      return matched_receive(wanted.comm, wanted.source, wanted.tag);
    }
    case 6:
    case 7:
    case 8:
      return test_some();
    case 9:
    case 10:
    case 11:
      return post();
    default:
      return send();
  }
}

void Traffic::send() {
  if (sends_.size() >= kOutstanding) return;
  auto made = std::make_unique<Send>();
  made->dest = draw_.below(process_.size);
  const int comm_index = draw_.below(static_cast<int>(process_.comms.size())), tag = draw_.below(kTags);
  const int bytes = size_of(draw_);
  made->data.resize(static_cast<size_t>(bytes));
  write_message(made->data.data(), {process_.rank, thread_, number_++, comm_index, tag, bytes});
  const CommInfo& to = process_.comms[static_cast<size_t>(comm_index)];
  const int dest = to.rank_of[static_cast<size_t>(made->dest)];
  process_.sent[static_cast<size_t>(made->dest)].fetch_add(1);
  auto* const call = draw_.of({&MPI_Isend, &MPI_Isend, &MPI_Issend, &MPI_Ibsend});
  call(made->data.data(), bytes, MPI_BYTE, dest, tag, to.comm, &made->request);
  sends_.push_back(std::move(made));
}

/// Random match filters, including wildcards.
Receipt Traffic::filters() {
  Receipt receipt{};
  receipt.thread = thread_;
  receipt.comm = draw_.below(static_cast<int>(process_.comms.size()));
  receipt.source = draw_.one_in(3) ? kAny : draw_.below(process_.size);
  receipt.tag = draw_.one_in(3) ? kAny : draw_.below(kTags);
  return receipt;
}

int Traffic::source_in(const Receipt& receipt) const {
  if (receipt.source == kAny) return MPI_ANY_SOURCE;
  return process_.comms[static_cast<size_t>(receipt.comm)].rank_of[static_cast<size_t>(receipt.source)];
}

void Traffic::post() {
  if (receives_.size() >= kOutstanding) return;
  auto made = std::make_unique<Receive>();
  Receipt& receipt = made->receipt = filters();
  made->data.resize(kLargest);
  made->persistent = draw_.one_in(5);
  const MPI_Comm comm = process_.comms[static_cast<size_t>(receipt.comm)].comm;
  receipt.posted = now();
  auto* const call = made->persistent ? &MPI_Recv_init : &MPI_Irecv;
  call(made->data.data(), kLargest, MPI_BYTE, source_in(receipt), tag_in(receipt), comm, &made->request);
  if (made->persistent) MPI_Start(&made->request);
  receives_.push_back(std::move(made));
}

/// A probe, and the receive of the found message; another thread could receive it first.
void Traffic::probe() {
  Receipt receipt = filters();
  const CommInfo& info = process_.comms[static_cast<size_t>(receipt.comm)];
  int flag = 0, bytes = 0, got = 0;
  MPI_Status found, status;
  MPI_Iprobe(source_in(receipt), tag_in(receipt), info.comm, &flag, &found);
  if (flag == 0 || process_.threads > 1) return;
  MPI_Get_count(&found, MPI_BYTE, &bytes);
  std::vector<char> data(static_cast<size_t>(bytes));
  receipt.source = info.world_of[static_cast<size_t>(found.MPI_SOURCE)];
  receipt.tag = found.MPI_TAG;
  receipt.posted = now();
  MPI_Recv(data.data(), bytes, MPI_BYTE, found.MPI_SOURCE, found.MPI_TAG, info.comm, &status);
  MPI_Get_count(&status, MPI_BYTE, &got);
  if (got != bytes) fail("probed " + std::to_string(bytes) + " bytes, received " + std::to_string(got));
  took(receipt, data, status);
}

void Traffic::matched_receive(int comm, int source, int tag) {
  Receipt receipt{};
  receipt.thread = thread_;
  receipt.comm = comm;
  receipt.source = source;
  receipt.tag = tag;
  receipt.posted = now();
  int flag = 0, bytes = 0;
  MPI_Message message;
  MPI_Status found, status;
  MPI_Improbe(source_in(receipt), tag_in(receipt), process_.comms[static_cast<size_t>(comm)].comm, &flag,
              &message, &found);
  if (flag == 0) return;
  MPI_Get_count(&found, MPI_BYTE, &bytes);
  std::vector<char> data(static_cast<size_t>(bytes));
  if (draw_.one_in(2)) {
    MPI_Mrecv(data.data(), bytes, MPI_BYTE, &message, &status);
  } else {
    MPI_Request request;
    MPI_Imrecv(data.data(), bytes, MPI_BYTE, &message, &request);
    MPI_Wait(&request, &status);
  }
  if (found.MPI_SOURCE != status.MPI_SOURCE || found.MPI_TAG != status.MPI_TAG)
    fail("the probe's status is not that of its receive");
  took(receipt, data, status);
}

void Traffic::took(Receipt receipt, const std::vector<char>& data, const MPI_Status& status) {
  receipt.ended = now();
  int bytes = -1;
  MPI_Get_count(&status, MPI_BYTE, &bytes);
  std::memcpy(&receipt.got, data.data(), sizeof receipt.got);
  const CommInfo& info = process_.comms[static_cast<size_t>(receipt.comm)];
  if (receipt.got.bytes != bytes || receipt.got.tag != status.MPI_TAG ||
      info.rank_of[static_cast<size_t>(receipt.got.source)] != status.MPI_SOURCE)
    fail("the status (" + std::to_string(status.MPI_SOURCE) + ", " + std::to_string(status.MPI_TAG) + ", " +
         std::to_string(bytes) + ") is not that of the message");
  if (const std::string wrong = check_message(data.data()); !wrong.empty()) fail(wrong);
  receipts.push_back(receipt);
  process_.received.fetch_add(1);
}

void Traffic::end_send(size_t i, const MPI_Status& status) {
  int cancelled = 0;
  MPI_Test_cancelled(&status, &cancelled);
  if (cancelled != 0) process_.sent[static_cast<size_t>(sends_[i]->dest)].fetch_sub(1);
  sends_.erase(sends_.begin() + static_cast<ptrdiff_t>(i));
}

void Traffic::end_receive(size_t i, const MPI_Status& status) {
  const auto ended = std::move(receives_[i]);
  receives_.erase(receives_.begin() + static_cast<ptrdiff_t>(i));
  if (ended->persistent) MPI_Request_free(&ended->request);
  if (ended->request != MPI_REQUEST_NULL) fail("the request outlives its completion");
  int cancelled = 0;
  MPI_Test_cancelled(&status, &cancelled);
  if (cancelled == 0) return took(ended->receipt, ended->data, status);
  ended->receipt.cancelled = true;
  receipts.push_back(ended->receipt);
}

void Traffic::cancel_send() {
  if (sends_.empty()) return;
  const auto i = static_cast<size_t>(draw_.below(static_cast<int>(sends_.size())));
  MPI_Status status;
  MPI_Cancel(&sends_[i]->request);
  MPI_Wait(&sends_[i]->request, &status);
  end_send(i, status);
}

void Traffic::cancel_receive() {
  if (receives_.empty()) return;
  const auto i = static_cast<size_t>(draw_.below(static_cast<int>(receives_.size())));
  MPI_Status status;
  receives_[i]->receipt.ended = now();
  MPI_Cancel(&receives_[i]->request);
  MPI_Wait(&receives_[i]->request, &status);
  end_receive(i, status);
}

void Traffic::test_some() {
  for (size_t i = 0; i < sends_.size();) {
    int flag = 0;
    MPI_Status status;
    MPI_Test(&sends_[i]->request, &flag, &status);
    if (flag != 0)
      end_send(i, status);
    else
      ++i;
  }
  for (size_t i = 0; i < receives_.size();) {
    int flag = 0;
    MPI_Status status;
    MPI_Test(&receives_[i]->request, &flag, &status);
    if (flag != 0)
      end_receive(i, status);
    else
      ++i;
  }
}

void Traffic::settle() {
  test_some();
  for (int comm_index = 0; comm_index < static_cast<int>(process_.comms.size()); ++comm_index)
    matched_receive(comm_index, kAny, kAny);
}

void Traffic::close() {
  while (!receives_.empty()) {
    MPI_Status status;
    receives_.back()->receipt.ended = now();
    MPI_Cancel(&receives_.back()->request);
    MPI_Wait(&receives_.back()->request, &status);
    end_receive(receives_.size() - 1, status);
    if (!receipts.back().cancelled) fail("a message came after the last one");
  }
}

}  // namespace randomized
