// SPDX-License-Identifier: BSD-3-Clause
// Engine: the parts of point-to-point communication of this process, and their progress. Each part has a
// header of its own; protocols (protocol.hpp) use the parts. The interface of the folder is p2p.hpp.
// Threading: under the instance lock.
#pragma once
#include <memory>

#include "core/instance.hpp"
#include "core/memory_registry.hpp"
#include "p2p/engine/advertised_receives.hpp"
#include "p2p/engine/checked_transfers.hpp"
#include "p2p/engine/connections.hpp"
#include "p2p/engine/delivery.hpp"
#include "p2p/engine/device_copies.hpp"
#include "p2p/engine/failures.hpp"
#include "p2p/engine/gpu_connections.hpp"
#include "p2p/engine/gpudirect.hpp"
#include "p2p/engine/job_connections.hpp"
#include "p2p/engine/loopback.hpp"
#include "p2p/engine/outgoing.hpp"
#include "p2p/engine/peers.hpp"
#include "p2p/engine/protocol.hpp"
#include "p2p/engine/regions.hpp"
#include "p2p/engine/rendezvous.hpp"
#include "p2p/engine/requests.hpp"
#include "p2p/engine/send_buffers.hpp"
#include "p2p/memory/bounce_pool.hpp"
#include "p2p/memory/staging_limits.hpp"
#include "p2p/message/classification_cache.hpp"

namespace weft::p2p {

class Engine final : public core::Poller, private ReceivePaths {
 public:
  using MakePuts = std::unique_ptr<AdvertisedReceives> (*)(Engine&);
  /// `make_puts` is called once.
  Engine(core::Instance& owner, const ProtocolTable& protocols, MakePuts make_puts);
  ~Engine() override;
  Engine(const Engine&) = delete;
  Engine& operator=(const Engine&) = delete;

  bool poll() override;
  [[nodiscard]] bool idle() const override;
  /// Progresses until all outgoing traffic of this process has left, until monotonic_ns() is `end_ns` at
  /// most. A backlog to a process that has failed or left MPI is dropped.
  void drain(uint64_t end_ns = UINT64_MAX);
  /// Releases GPU memory and mappings.
  void close_device();
  [[nodiscard]] transport::cuda_ipc::Exporter& exporter() { return instance.memory->exporter(); }
  [[nodiscard]] transport::cuda_ipc::Importer& importer() { return instance.memory->importer(); }

  core::Instance& instance;
  Connections connections;
  Peers peers;
  Requests requests;
  Rendezvous rendezvous;
  Outgoing outgoing;
  Delivery delivery;
  Loopback loopback;
  DeviceCopies copies;
  Failures failures;
  JobConnections jobs;
  ClassificationCache classifications;
  SendBuffers buffers;

  // Shared by protocols.
  Regions regions;
  BouncePool bounce_pool;
  GpuConnections gpus;
  StagingLimits staging;
  GpuDirect gpudirect;
  std::unique_ptr<AdvertisedReceives> puts;
  std::unique_ptr<CheckedTransfers> checked;  ///< null: without WEFT_CHECK=gpu

 private:
  void register_handlers();  // handlers.cpp

  void start_rendezvous(Transfer& t, uint32_t source, const ReadyToSend& rts) override {
    rendezvous.start(t, source, rts);
  }
  void upload_eager(Transfer& t, const std::byte* payload, size_t size) override {
    rendezvous.protocols().that_uploads()->upload_eager(*this, t, payload, size);
  }
  void posted_on_device(Transfer& t) override;
  void receive_on_device(Transfer& t, UnexpectedMessage& message) override;
  [[nodiscard]] bool retract(Transfer& t) override;
  [[nodiscard]] bool retract_matched(Transfer& t) override;
  [[nodiscard]] bool usable(Transfer& t) override { return failures.usable(t); }
  [[nodiscard]] bool source_alive(Transfer& t) override { return failures.source_alive(t); }
  void store_region(uint32_t source, const ReadyToSend& rts) override { regions.add(source, rts); }
  void refuse(uint32_t source, const ReadyToSend& rts) override { rendezvous.refuse(source, rts); }
};

/// Returns the engine of an instance, after p2p::create().
[[nodiscard]] inline Engine& engine_of(const core::Instance& instance) {
  return static_cast<Engine&>(*instance.messaging);
}

}  // namespace weft::p2p
