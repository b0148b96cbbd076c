// SPDX-License-Identifier: BSD-3-Clause
// Remote memory access of this process over its transports and caches. Created by the first user, on all
// processes that will access each other's memory before any of them does. Threading: instance lock.
#pragma once
#include "core/instance.hpp"
#include "transport/rma/rma.hpp"

namespace weft::core {

class RemoteMemory final : private Poller, private transport::rma::Environment {
 public:
  explicit RemoteMemory(Instance& instance);
  ~RemoteMemory() override;
  [[nodiscard]] transport::rma::Rma& rma() { return rma_; }

 private:
  bool poll() override { return rma_.poll(); }
  [[nodiscard]] bool idle() const override { return rma_.idle(); }
  [[nodiscard]] ProcessId self() const override { return instance_.self; }
  [[nodiscard]] transport::am::HandlerTable& handlers() override { return instance_.handlers; }
  [[nodiscard]] transport::am::Sender& sender() override { return *instance_.sender; }
  [[nodiscard]] bool same_host(ProcessId process) override { return instance_.same_host(process); }
  [[nodiscard]] Result<int> pid_of(ProcessId process) override;
  [[nodiscard]] transport::Network* network(ProcessId process) override;
  [[nodiscard]] transport::cuda_ipc::Exporter& exporter() override;
  [[nodiscard]] transport::cuda_ipc::Importer& importer() override;

  Instance& instance_;
  transport::rma::Rma rma_;
};

}  // namespace weft::core
