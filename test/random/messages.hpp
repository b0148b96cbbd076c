// SPDX-License-Identifier: BSD-3-Clause
// Messages: a batch of messages between the ranks of an intracommunicator, received by exact sources and
// tags, by wildcards, or behind probes.
#pragma once
#include <memory>
#include <vector>

#include "coll/random/team.hpp"
#include "coll/test_memory.hpp"
#include "random/item.hpp"
#include "reference/coll.hpp"

namespace mixed {

using randomized::Team;

class Messages final : public Item {
 public:
  /// Draws what all members agree on. `step`: differs from that of other batches.
  Messages(std::shared_ptr<const Team> team, Draw& draw, int step);
  ~Messages() override;
  void start() override;
  void restart() override;
  [[nodiscard]] bool persistent() const override { return mode_ == Mode::persistent; }
  [[nodiscard]] std::vector<MPI_Request*> requests() override;
  void completed(size_t request, const MPI_Status& status) override;
  void check() override;
  [[nodiscard]] std::string text() const override;

 private:
  enum class Mode { exact, persistent, any_source, any, probed, probed_any };
  enum class SendForm { standard, synchronous, blocking, blocking_synchronous };
  struct Message {
    int from, to, number;
    int64_t pairs;  ///< of words
    SendForm form;
    bool taken = false;
  };
  /// A send, or a receive of up to as many pairs as its field has.
  struct Part {
    Part(Message* sent_or_wanted, reference::Layout layout, int64_t most);
    Message* message;  ///< null: a receive with wildcards, before check()
    reference::Field field;
    int count;
    void* address = nullptr;
    expect::FieldCopies copies;
    MPI_Request request = MPI_REQUEST_NULL;
    MPI_Status status{};
    [[nodiscard]] MPI_Datatype type() const;
  };
  using Parts = std::vector<std::unique_ptr<Part>>;

  [[nodiscard]] bool wild() const { return mode_ >= Mode::any_source; }
  [[nodiscard]] bool probes() const { return mode_ >= Mode::probed; }
  [[nodiscard]] bool any_tag() const { return mode_ == Mode::any || mode_ == Mode::probed_any; }
  [[nodiscard]] int tag(const Message& message) const;
  [[nodiscard]] reference::Layout layout(int number, int side) const;
  [[nodiscard]] uint32_t word(const Message& message, int64_t k) const;
  void make_parts();
  void load();
  void start_receives();
  void start_sends();
  void probe_all();
  void receive_probed();
  Message& match(const Part& part);
  void compare(Part& part);

  const std::shared_ptr<const Team> team_;
  MPI_Comm comm_;
  bool own_comm_ = false;
  const int step_;
  Mode mode_;
  uint64_t drawn_;
  uint32_t runs_ = 0;
  std::vector<Message> messages_;
  Parts sends_, receives_;
  std::vector<MPI_Request*> handles_;  ///< of the last start
};

}  // namespace mixed
