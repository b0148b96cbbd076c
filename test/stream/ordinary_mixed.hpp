// SPDX-License-Identifier: BSD-3-Clause
// Random messages on communicators whose calls kernels execute, whose calls the host executes in stream
// order, and without a stream, completed by all functions in random order. The data and the statuses are
// checked.
#pragma once
#include <algorithm>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "reference/completion.hpp"
#include "stream/order_comm.hpp"

namespace weft::test::enqueued {

class MixedRequests {
 public:
  /// `kernels`: as the hint weft_stream_kernels.
  MixedRequests(unsigned seed, const char* kernels)
      : common_(seed), own_(seed * 64 + static_cast<unsigned>(rank)), kernels_(kernels) {
    comms_[0] = kernels_.comm, comms_[1] = words_.comm, comms_[2] = plain_.comm;
  }

  void run(int rounds) {
    for (int round = 0; round < rounds && failures == 0; ++round) {
      make_messages(round);
      start();
      if (round % 3 == 0) cancel_one();
      while (!open_.empty() && failures == 0) complete_some();
      check();
      MPI_Barrier(plain_.comm);  // sends that are freed have left
      for (const auto& message : messages_)
        if (message->persistent && message->request != MPI_REQUEST_NULL) MPI_Request_free(&message->request);
      messages_.clear();
    }
  }

 private:
  static constexpr int kMessages = 14, kForms = 12;
  static constexpr int kSizes[] = {0, 1, 50, 1500, 30'000};

  struct Message {
    int kind, from, to, tag, ints, salt;
    bool synchronous, persistent, receives;
    std::unique_ptr<Buffer> memory;
    std::string name;
    MPI_Request request = MPI_REQUEST_NULL;
    [[nodiscard]] size_t bytes() const { return sizeof(int) * static_cast<size_t>(ints); }
  };

  unsigned below(unsigned limit) { return static_cast<unsigned>(own_()) % limit; }
  unsigned common_below(unsigned limit) { return static_cast<unsigned>(common_()) % limit; }

  void add(const Message& like, bool receives) {
    auto mine = std::make_unique<Message>(Message{like.kind,
                                                  like.from,
                                                  like.to,
                                                  like.tag,
                                                  like.ints,
                                                  like.salt,
                                                  like.synchronous,
                                                  like.persistent,
                                                  receives,
                                                  nullptr,
                                                  {}});
    mine->memory = std::make_unique<Buffer>(like.kind == 2 ? Kind::host : Kind::device,
                                            std::max<size_t>(like.bytes(), 4), device);
    if (like.ints != 0)
      mine->memory->write(receives ? std::vector<char>(like.bytes(), 0)
                                   : pattern(like.bytes(), like.from, like.salt));
    mine->name = std::string(receives ? "receive" : "send") + " of " + std::to_string(like.ints) +
                 " ints from " + std::to_string(like.from) + " to " + std::to_string(like.to) + ", kind " +
                 std::to_string(like.kind) + (like.persistent ? ", persistent" : "") +
                 (like.synchronous ? ", synchronous" : "") + ", tag " + std::to_string(like.tag) +
                 ", round " + std::to_string(like.salt / kMessages);
    messages_.push_back(std::move(mine));
  }

  /// All ranks make the same choices.
  void make_messages(int round) {
    for (int tag = 0; tag < kMessages; ++tag) {
      Message next{};
      next.kind = static_cast<int>(common_below(3));
      next.from = static_cast<int>(common_below(static_cast<unsigned>(ranks)));
      next.to = static_cast<int>(common_below(static_cast<unsigned>(ranks)));
      next.tag = tag;
      next.ints = kSizes[common_below(std::size(kSizes))];
      next.salt = round * kMessages + tag;
      next.synchronous = common_below(4) == 0;
      next.persistent = common_below(4) == 0;
      if (next.to == rank) add(next, true);
      if (next.from == rank) add(next, false);
    }
    std::shuffle(messages_.begin(), messages_.end(), own_);
  }

  void start() {
    for (const auto& each : messages_) {
      Message& m = *each;
      const MPI_Comm comm = comms_[m.kind];
      void* const data = m.memory->data();
      int code = MPI_SUCCESS;
      if (m.persistent) {
        if (m.receives)
          code = MPI_Recv_init(data, m.ints, MPI_INT, m.from, m.tag, comm, &m.request);
        else if (m.synchronous)
          code = MPI_Ssend_init(data, m.ints, MPI_INT, m.to, m.tag, comm, &m.request);
        else
          code = MPI_Send_init(data, m.ints, MPI_INT, m.to, m.tag, comm, &m.request);
        if (code == MPI_SUCCESS) code = MPI_Start(&m.request);
      } else if (m.receives) {
        code = MPI_Irecv(data, m.ints, MPI_INT, m.from, m.tag, comm, &m.request);
      } else if (m.synchronous) {
        code = MPI_Issend(data, m.ints, MPI_INT, m.to, m.tag, comm, &m.request);
      } else {
        code = MPI_Isend(data, m.ints, MPI_INT, m.to, m.tag, comm, &m.request);
      }
      expect_class(code, MPI_SUCCESS, "start of a " + m.name);
      open_.push_back(&m);
    }
  }

  /// A receive that nobody sends a message for.
  void cancel_one() {
    const auto kind = static_cast<int>(below(3));
    MPI_Request request;
    MPI_Status status;
    int flag = 0;
    MPI_Irecv((kind == 2 ? host_ : unused_).data(), 10, MPI_INT, right(), kMessages, comms_[kind], &request);
    MPI_Cancel(&request);
    expect_class(MPI_Wait(&request, &status), MPI_SUCCESS, "the wait for a cancelled receive");
    MPI_Test_cancelled(&status, &flag);
    expect(flag == 1, "a cancelled receive, kind " + std::to_string(kind));
  }

  void check_status(const Message& m, const MPI_Status& status) {
    if (!m.receives) return;
    int count = -1;
    MPI_Get_count(&status, MPI_INT, &count);
    expect(status.MPI_SOURCE == m.from && status.MPI_TAG == m.tag && count == m.ints,
           "status {" + std::to_string(status.MPI_SOURCE) + ", " + std::to_string(status.MPI_TAG) + ", " +
               std::to_string(count) + "} of a " + m.name);
  }

  /// Completes requests of a random list by a random function.
  void complete_some() {
    std::shuffle(open_.begin(), open_.end(), own_);
    const size_t n = 1 + below(static_cast<unsigned>(open_.size()));
    std::vector<MPI_Request> list;
    for (size_t i = 0; i < n; ++i) list.push_back(open_[i]->request);
    int flag = 0, code = MPI_SUCCESS;
    MPI_Status status;
    const unsigned form = below(kForms);
    std::vector<std::pair<size_t, const MPI_Status*>> ended;  // null: without a status
    std::vector<randomized::Completed> completed;
    switch (form) {
      case 8:
        code = MPI_Wait(&list[0], MPI_STATUS_IGNORE);
        ended.emplace_back(0, nullptr);
        break;
      case 9:
        code = MPI_Waitall(static_cast<int>(n), list.data(), MPI_STATUSES_IGNORE);
        for (size_t i = 0; i < n; ++i) ended.emplace_back(i, nullptr);
        break;
      case 10:
        code = MPI_Request_get_status(list[0], &flag, &status);
        if (flag != 0) check_status(*open_[0], status);
        break;
      case 11:
        if (open_[0]->receives || open_[0]->persistent) return;
        code = MPI_Request_free(&list[0]);
        ended.emplace_back(0, nullptr);
        break;
      default:
        code = randomized::complete(list, static_cast<randomized::Completion>(form), completed);
        for (const auto& [i, status_of] : completed) ended.emplace_back(i, &status_of);
    }
    expect_class(code, MPI_SUCCESS, "form " + std::to_string(form) + " with " + open_[0]->name);
    for (const auto& [i, status_of] : ended) {
      Message& m = *open_[i];
      if (status_of != nullptr) check_status(m, *status_of);
      expect((list[i] == MPI_REQUEST_NULL) != m.persistent, "the handle of a " + m.name);
    }
    for (size_t i = 0; i < n; ++i) open_[i]->request = list[i];
    for (const auto& [i, status_of] : ended) {
      const Message* const done = open_[i];
      ended_.push_back(done);
    }
    std::erase_if(
        open_, [&](const Message* m) { return std::find(ended_.begin(), ended_.end(), m) != ended_.end(); });
    ended_.clear();
  }

  void check() {
    kernels_.synchronize();
    words_.synchronize();
    for (const auto& m : messages_) {
      if (!m->receives || m->ints == 0) continue;
      expect(m->memory->read() == pattern(m->bytes(), m->from, m->salt), "the data of a " + m->name);
    }
  }

  std::mt19937 common_, own_;
  const OrderComm kernels_, words_;
  const Plain plain_;
  Buffer unused_{Kind::device, 40, device}, host_{Kind::host, 40, device};  // of cancelled receives
  MPI_Comm comms_[3];
  std::vector<std::unique_ptr<Message>> messages_;
  std::vector<Message*> open_;
  std::vector<const Message*> ended_;
};

}  // namespace weft::test::enqueued
