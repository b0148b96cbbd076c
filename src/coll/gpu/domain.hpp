// SPDX-License-Identifier: BSD-3-Clause
// Domain: what a communicator has for collectives by kernels: every rank's scratch, mapped here, and a port
// from which kernels start. Made once, when all ranks have shown operands in GPU memory, or refused once and
// for all. Threading: under the instance lock.
#pragma once
#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/result.hpp"
#include "coll/call.hpp"
#include "coll/gpu/direct.hpp"
#include "coll/gpu/plan.hpp"
#include "coll/gpu/scratch.hpp"
#include "coll/shared/channel.hpp"
#include "device/collective.hpp"
#include "device/copy.hpp"
#include "device/workspace.hpp"
#include "transport/cuda_ipc/ipc.hpp"

namespace weft::coll::gpu {

class Domain {
 public:
  explicit Domain(core::Communicator& comm) : comm_(comm), direct_(comm) {}
  ~Domain();
  Domain(const Domain&) = delete;
  Domain& operator=(const Domain&) = delete;

  enum class State : uint8_t { unknown, open, refused };
  /// The same on all ranks, where they have come equally far.
  [[nodiscard]] State state() const { return state_; }
  /// Collective, all ranks with operands in GPU memory: opens the domain, or refuses it, by name. Goes as far
  /// as it can without waiting; true once state() is known.
  [[nodiscard]] bool connect(const device::Memory& near, shared::Channel& channel);
  /// The same to its end, with room for messages of such a length where that may be had: collective, while no
  /// rank has a call under way.
  void connect_now(const device::Memory& near, uint64_t largest, shared::Channel& channel);
  /// Kernels of this rank can work on such memory.
  [[nodiscard]] bool reaches(const device::Memory& memory) const { return ground_.port.reaches(memory); }
  /// Collective, after all have arrived: whether run() may work in the buffers of all ranks.
  [[nodiscard]] bool prepare_direct(const Call& call, uint64_t largest, shared::Channel& channel);
  /// The copier can share calls among its blocks now.
  [[nodiscard]] bool awake() const { return state_ == State::open && ground_.port.awake(); }
  /// While others have yet to arrive: plans a call whose largest message this rank expects to be so long; 0:
  /// none.
  void plan_ahead(const Call& call, uint64_t largest, bool awake);
  /// Collective, after all have arrived: runs a call to its end. `awake`: all ranks are.
  [[nodiscard]] Status run(const Call& call, uint64_t largest, bool awake);
  /// The same in two: begin(), then poll() until it says true. One call at a time; the plan stays where it
  /// is.
  [[nodiscard]] Status begin(Plan& plan);
  /// Before a rank says that it has arrived: allocations wait for running kernels.
  [[nodiscard]] Status reserve(const device::Memory& near, uint64_t bytes);
  /// For its calls.
  [[nodiscard]] Plan plan(const Call& call, uint64_t largest, bool awake) const;
  [[nodiscard]] bool busy() const { return running_ != nullptr; }
  [[nodiscard]] Result<bool> poll();

 private:
  struct Offer;
  /// What it works with.
  struct Ground {
    device::CollectivePort port;
    ScratchArea* area = nullptr;
    std::vector<transport::cuda_ipc::Mapping*> mappings;
    std::array<uint64_t, device::kernel::Collective::kRanks> areas{};
    bool linked = false;  ///< all ranks publish that NVLink lies between all GPUs
  };
  /// How far a rank is with opening, as its card says.
  enum class Stage : uint32_t { nothing, offered, mapped, failed };
  /// Of an area with so much room for pieces.
  void offer(const device::Memory& near, uint64_t pieces, shared::Channel& channel);
  [[nodiscard]] bool prepared(shared::Channel& channel);
  void release(Ground& ground);
  static constexpr uint32_t kLinked = 1;  ///< beside the stage: its driver reports NVLink between all GPUs
  [[nodiscard]] uint32_t told(Stage stage) const {
    return 2 * (4 * generation_ + static_cast<uint32_t>(stage));
  }
  [[nodiscard]] bool all_at(Stage stage, const shared::Channel& channel) const;
  [[nodiscard]] Status prepare(const device::Memory& near, uint64_t pieces, Offer& offer);
  [[nodiscard]] Status map(const shared::Channel& channel);
  [[nodiscard]] static bool all_linked(const std::vector<Offer>& offers);
  void conclude(const shared::Channel& channel);
  void show(Stage stage, shared::Channel& channel);
  void fail(const std::string& reason);
  [[nodiscard]] Status renew();
  [[nodiscard]] Status put_aside(Plan& plan);
  [[nodiscard]] Result<bool> finish();
  [[nodiscard]] Result<bool> look();
  [[nodiscard]] uint64_t own_patience() const;
  void settle();
  [[nodiscard]] bool ring();
  [[nodiscard]] Status launch();
  void wake_copier();
  void give_up();
  [[nodiscard]] Status others_go_on() const;

  [[nodiscard]] Status run(Plan& plan);

  core::Communicator& comm_;
  Direct direct_;
  std::optional<Plan> prepared_;  // of the next run()
  State state_ = State::unknown;
  Stage stage_ = Stage::nothing;
  Status mapped_;            // of this rank, until all have said
  uint32_t generation_ = 0;  // of the ground that is being prepared
  uint32_t links_ = 0;       // kLinked or 0, from the first mapping on
  Ground ground_, next_;
  uint32_t epoch_ = 0, next_epoch_ = 0;
  shared::Channel* channel_ = nullptr;  // once opening has begun
  uint32_t calls_ = 0;                  // begun, as on all ranks
  Plan* running_ = nullptr;
  Plan ahead_;  // of a call that was planned ahead
  bool ahead_awake_ = false;
  uint64_t ahead_largest_ = 0;  // for such a length; 0: none was
  uint32_t launches_ = 0;       // of it
  uint64_t wake_at_ = 0;        // when the copier is to be started for calls like it; 0: it is not
  device::Workspace aside_;     // where its output is first
  device::Ticket copy_;         // of that to its place
};

}  // namespace weft::coll::gpu
