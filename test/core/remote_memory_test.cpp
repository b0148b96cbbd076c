// SPDX-License-Identifier: BSD-3-Clause
// Remote memory access of an instance: created once, on its handlers; a process that fails ends operations.
#include "core/remote_memory.hpp"

#include <gtest/gtest.h>

#include <vector>

#include "base/counters.hpp"
#include "solo.hpp"

namespace weft::core {
namespace {

using transport::rma::Atomic;
using transport::rma::AtomicOp;
using transport::rma::AtomicType;
using transport::rma::Issued;

class TwoHosts final : public SoloExchange {
 public:
  TwoHosts() {
    job_.size = 2;
    job_.host_of_rank = {0, 1};
  }
};

struct Discarding final : transport::am::Sender {
  void post(ProcessId, const void*, size_t) override { ++posted; }
  std::byte* reserve(ProcessId, size_t) override { return nullptr; }
  void commit(ProcessId, size_t) override {}
  size_t max_message(ProcessId) override { return 4096; }
  int posted = 0;
};

TEST(RemoteMemory, OwnMemoryIsAccessedDirectly) {
  Instance instance(std::make_unique<TwoHosts>());
  auto& rma = instance.remote_memory().rma();
  EXPECT_EQ(&rma, &instance.remote_memory().rma());
  std::vector<uint64_t> memory(4);
  auto region = rma.register_memory(reinterpret_cast<std::byte*>(memory.data()), 32, {});
  ASSERT_TRUE(region.ok());
  auto target = rma.attach(0, *rma.key(*region, 0), {});
  ASSERT_TRUE(target.ok());
  uint64_t value = 42, before = 0;
  auto put = rma.put(**target, 8, {reinterpret_cast<std::byte*>(&value), 8, {}});
  EXPECT_TRUE(put.ok() && *put == Issued::complete);
  auto added = rma.atomic(**target, 8, Atomic{AtomicOp::sum, AtomicType::uint64, 1, 0}, &before);
  EXPECT_TRUE(added.ok() && *added == Issued::complete);
  EXPECT_EQ(before, 42u);
  EXPECT_EQ(memory, (std::vector<uint64_t>{0, 43, 0, 0}));
  rma.detach(std::move(*target));
  rma.deregister(*region);
}

TEST(RemoteMemory, AFailedProcessEndsItsOperations) {
  Instance instance(std::make_unique<TwoHosts>());
  Discarding sender;
  instance.sender = &sender;
  auto& rma = instance.remote_memory().rma();
  std::vector<uint64_t> memory(4);
  auto region = rma.register_memory(reinterpret_cast<std::byte*>(memory.data()), 32, {});
  auto target = rma.attach(1, *rma.key(*region, 1), {});  // no network: by messages
  ASSERT_TRUE(target.ok());
  auto get = rma.get(**target, 0, {reinterpret_cast<std::byte*>(memory.data()), 8, {}});
  EXPECT_TRUE(get.ok() && *get == Issued::pending);
  EXPECT_EQ(sender.posted, 1);
  instance.progress();
  EXPECT_EQ((*target)->pending(), 1u);
  instance.failures.report(1, Error(Errc::proc_aborted, "killed"));
  EXPECT_EQ((*target)->pending(), 0u);
  auto flushed = rma.flush(**target);
  ASSERT_FALSE(flushed.ok());
  EXPECT_EQ(flushed.error().code(), Errc::proc_aborted);
  rma.detach(std::move(*target));
  rma.deregister(*region);
}

}  // namespace
}  // namespace weft::core
