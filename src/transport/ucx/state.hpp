// SPDX-License-Identifier: BSD-3-Clause
// The UCX network's state; its members are grouped by file: ucx.cpp (life, progress), links.cpp,
// messages.cpp, bulk.cpp. Callbacks of UCX come from progress() only and never call it.
#pragma once
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "base/clock.hpp"
#include "transport/network.hpp"
#include "transport/ucx/library.hpp"
#include "transport/ucx/links.hpp"

namespace weft::transport::ucx {

inline constexpr size_t kMessage = (size_t{64} << 10) + 64;  ///< largest message: an eager one of 64 KiB
inline constexpr uint64_t kSecond = 1'000'000'000;

/// UCX's name of a kind of memory.
[[nodiscard]] inline int type_of(const device::Memory& memory) {
  switch (memory.kind) {
    case device::MemoryKind::cuda_device:
      return api::kCuda;
    case device::MemoryKind::cuda_managed:
      return api::kCudaManaged;
    default:
      return api::kHost;
  }
}

class Ucx final : public Network {
 public:
  Ucx(const Library& library, const launch::Job& job)
      : api_(library), self_(static_cast<Peer>(job.rank)), links_(static_cast<size_t>(job.size)) {}
  ~Ucx() override { close(); }
  [[nodiscard]] Status create(const launch::Job& job);

  [[nodiscard]] const char* name() const override { return "ucx"; }
  [[nodiscard]] std::string description() const override;
  [[nodiscard]] std::string address() const override { return address_; }
  void start(Directory& directory) override { directory_ = &directory; }

  [[nodiscard]] size_t max_message(Peer) override { return kMessage; }
  [[nodiscard]] std::byte* reserve(Peer peer, size_t size) override;
  void commit(Peer peer, size_t size) override;
  size_t poll(Receiver& receiver, size_t limit) override;

  [[nodiscard]] bool takes(const device::Memory& memory) const override {
    return memory.kind == device::MemoryKind::cuda_device && (memory_types_ >> api::kCuda & 1) != 0;
  }
  [[nodiscard]] Result<Exposed> expose(Peer peer, const Buffer& buffer, std::byte* key) override;
  void announce(Peer peer, size_t size, uint64_t id) override;
  void decline(Peer peer, std::span<const std::byte> key) override;
  void conceal(uint64_t id) override { exposures_.erase(id); }
  void fetch(Peer peer, const Buffer& local, std::span<const std::byte> key, uint64_t offset,
             Completion& done) override;
  void watch(Peer peer) override;
  [[nodiscard]] bool idle() const override { return out_ == 0; }
  void leave() override;
  void close() override;

 private:
  struct Exposure {
    Peer peer;
    Buffer buffer;
  };
  struct Ended {
    Completion* done;
    Status outcome;
  };

  [[nodiscard]] Error failure(const char* what, api::Code code) const {
    return Error(Errc::other, std::string(what) + " failed (" + api_.ucs_status_string(code) + ")");
  }
  [[nodiscard]] Status create_context(const launch::Job& job);
  [[nodiscard]] Status create_worker();
  [[nodiscard]] Status listen();
  void warn_about_gpus() const;

  Link& link_of(Peer peer);
  bool connect(Link& link);
  [[nodiscard]] Status open_endpoint(Link& link);
  void fail(Link& link, std::string reason);
  void settle(Link& link, Receiver& receiver);
  void close_endpoint(Link& link);

  Slot* take_slot(Link& link, size_t room);
  void give_slot(Slot* slot);
  void send(Slot* slot, unsigned id, size_t head_size, const void* data, size_t size, uint32_t flags,
            int type);
  void number(Slot& slot);
  void goodbye(Link& link);

  api::Code on_message(const void* header, const void* data, size_t size);
  void take_message(const MessageHead& head, const void* data, size_t size);
  api::Code on_announcement(const void* header, size_t header_size, void* data, size_t size, bool rendezvous);
  api::Code on_pull(const PullHead& pull);
  api::Code on_data(const DataHead& head, void* data, size_t size, bool rendezvous);
  void deliver(Link& link, uint32_t kind, const std::byte* data, size_t size);
  void deliver_early(Link& link);
  void receive(Fetch& fetch, void* descriptor);
  std::optional<Announced> take_announced(Link& link, uint64_t exposed);
  void release(void* descriptor);
  [[nodiscard]] bool use_gpu(const device::Memory& memory);
  void send_bulk(Slot* slot, unsigned id, size_t head_size, const Buffer& data);
  void release_announced(Link& link);
  void end(Fetch& fetch, Status outcome);
  void fire_ended();
  unsigned progress();
  template <class Done>
  void progress_until(Done&& done, uint64_t time);

  static void on_sent(void* request, api::Code status, void* user);
  static void on_received(void* request, api::Code status, size_t length, void* user);
  static void on_error(void* argument, api::Endpoint endpoint, api::Code status);

  const Library& api_;
  const Peer self_;
  Directory* directory_ = nullptr;
  api::Context context_ = nullptr;
  api::Worker worker_ = nullptr;
  std::string address_;
  uint64_t memory_types_ = 0;
  bool peer_errors_ = true;
  std::vector<std::unique_ptr<Link>> links_;
  std::vector<Link*> failing_, held_;  // held: with early messages that are due
  std::vector<Slot*> spare_[2];        // small, large
  Slot* reserved_ = nullptr;
  size_t out_ = 0;  // bytes of messages on their way out
  uint64_t last_exposed_ = 0, last_fetch_ = 0;
  std::unordered_map<uint64_t, Exposure> exposures_;
  std::unordered_map<uint64_t, std::unique_ptr<Fetch>> fetches_;
  std::vector<Ended> ended_;        // to be fired by poll()
  Receiver* receiver_ = nullptr;    // while poll() runs
  size_t delivered_ = 0;            // in this poll()
  void* arriving_ = nullptr;        // descriptor whose callback runs: UCX releases it itself
  size_t max_head_ = 0;             // bytes of an active message's header
  device::Memory gpu_;              // used last
  uint32_t gpu_operations_ = 0;     // under way
  std::vector<std::byte> aligned_;  // for messages that UCX has at odd places
};

}  // namespace weft::transport::ucx
