// SPDX-License-Identifier: BSD-3-Clause
// Validation of incoming messages: each type is accepted at its full size and refused when truncated.
#include "p2p/message/validate.hpp"

#include <gtest/gtest.h>

#include <cstring>
#include <vector>

#include "p2p/message/header.hpp"

namespace weft::p2p {
namespace {

struct Message {
  Type type;
  uint8_t flags;
  uint32_t length;
  size_t size;  ///< smallest accepted size
  bool remote;
};

constexpr size_t kRts = sizeof(ReadyToSend);
using transport::cuda_ipc::Probe;
using transport::cuda_ipc::Region;
using transport::cuda_ipc::RegionName;

/// A zeroed message of `size` bytes with this header; 8-byte aligned.
std::vector<uint64_t> build(const Message& message) {
  std::vector<uint64_t> words((message.size + sizeof(GdrCheckMessage)) / 8 + 1);
  Header header{message.type};
  header.flags = message.flags;
  header.length = message.length;
  std::memcpy(words.data(), &header, sizeof header);
  return words;
}

bool accepted(const Message& message, size_t size) {
  const auto words = build(message);
  return size >= header_size(message.type) &&
         well_formed(reinterpret_cast<const std::byte*>(words.data()), size, message.remote);
}

TEST(Validate, AcceptsTheFullSizeAndRefusesLess) {
  const Message messages[] = {
      {Type::eager, 0, 0, sizeof(EagerHeader), false},
      {Type::eager_sync, 0, 8, sizeof(EagerSync) + 8, true},
      {Type::ready_to_send, ReadyToSend::kContiguous, 0, kRts, false},
      {Type::ready_to_send, ReadyToSend::kDevice | ReadyToSend::kRegion, 0, kRts + sizeof(Region), false},
      {Type::ready_to_send, ReadyToSend::kDevice | ReadyToSend::kRegion | ReadyToSend::kProbe, 0,
       kRts + sizeof(Region) + sizeof(Probe), false},
      {Type::ready_to_send, ReadyToSend::kDevice | ReadyToSend::kRegionName | ReadyToSend::kStrided, 0,
       kRts + sizeof(RegionName) + sizeof(Strides), false},
      {Type::ready_to_send, ReadyToSend::kDevice | ReadyToSend::kRegionName | ReadyToSend::kEagerPack, 0,
       kRts + sizeof(RegionName) + sizeof(EagerPack), false},
      {Type::ready_to_send, ReadyToSend::kRkey, 0, kRts + sizeof(uint64_t), true},
      {Type::region, ReadyToSend::kRegion, 0, kRts + sizeof(Region), false},
      {Type::clear_to_send, 0, 0, sizeof(ClearToSend), true},
      {Type::data, 0, 33, sizeof(Data) + 33, false},
      {Type::finish, 0, 0, sizeof(Reply), false},
      {Type::copy_offer, 0, 0, sizeof(CopyOffer), false},
      {Type::eager_typed, 0, 21, sizeof(Header) + 21, false},
      {Type::finish_many, 0, 5, sizeof(Header) + 5 * sizeof(uint64_t), false},
      {Type::cancel, 0, 0, sizeof(Reply), true},
      {Type::credit, 0, 0, sizeof(Credit), true},
      {Type::chunk_ready, 0, 0, sizeof(BounceChunk), false},
      {Type::chunk_ready, 0, 0, sizeof(BounceChunk) + sizeof(uint64_t), true},
      {Type::chunk_done, 0, 0, sizeof(BounceChunk), true},
      {Type::gdr_check_request, 0, 0, sizeof(GdrCheckMessage), true},
  };
  for (const Message& message : messages) {
    const int type = static_cast<int>(message.type);
    EXPECT_TRUE(accepted(message, message.size)) << type;
    for (size_t size = 0; size < message.size; ++size)
      EXPECT_FALSE(accepted(message, size)) << type << " " << size;
  }
}

TEST(Validate, EagerHeadersKeepTheirPayloadAndEnvelope) {
  for (uint64_t bytes = 0; bytes < 100; ++bytes) {
    const EagerHeader eager(uint64_t{5} << 40, EagerHeader::kMaxSource, 7);
    const size_t size = EagerHeader::offset(bytes) + bytes;
    const Header header = eager.expanded(size);
    EXPECT_EQ(header.type, Type::eager);
    EXPECT_EQ(header.length, bytes);
    EXPECT_EQ(header.source, EagerHeader::kMaxSource);
    EXPECT_EQ(header.tag, 7);
    EXPECT_EQ(header.context, uint64_t{5} << 40);
    EXPECT_EQ(eager.payload(size) - reinterpret_cast<const std::byte*>(&eager),
              static_cast<ptrdiff_t>(EagerHeader::offset(bytes)));
  }
}

TEST(Validate, RefusesContradictoryMessages) {
  const auto refused = [](Type type, int flags, uint32_t length, bool remote) {
    return !accepted({type, static_cast<uint8_t>(flags), length, kMaxControl, remote}, kMaxControl);
  };
  using R = ReadyToSend;
  EXPECT_TRUE(refused(Type::ready_to_send, R::kDevice | R::kRegion | R::kRegionName, 0, false));
  EXPECT_TRUE(refused(Type::ready_to_send, R::kDevice | R::kRegionName | R::kProbe, 0, false));
  EXPECT_TRUE(refused(Type::ready_to_send, R::kDevice | R::kBounce, 0, false));       // no region
  EXPECT_TRUE(refused(Type::ready_to_send, R::kRegionName | R::kStrided, 0, false));  // host memory
  EXPECT_TRUE(refused(Type::ready_to_send, R::kRkey, 0, false));                      // inside a host
  EXPECT_TRUE(refused(Type::ready_to_send, R::kDevice | R::kRegion, 0, true));        // between hosts
  EXPECT_TRUE(refused(Type::region, R::kRegionName, 0, false));
  EXPECT_TRUE(refused(Type::region, R::kRegion, 0, true));
  EXPECT_TRUE(refused(Type::finish_many, 0, Finished::kMax + 1, false));
  EXPECT_TRUE(refused(Type::gdr_check_request, 0, 0, false));
  EXPECT_TRUE(refused(static_cast<Type>(200), 0, 0, false));
  EXPECT_TRUE(refused(Type::copy_offer, 0, 0, true));
  Message offer{Type::copy_offer, 0, 0, sizeof(CopyOffer), false};
  auto offered = build(offer);
  reinterpret_cast<CopyOffer*>(offered.data())->slot = transport::shm::kSharedCopies;
  EXPECT_FALSE(well_formed(reinterpret_cast<const std::byte*>(offered.data()), sizeof(CopyOffer), false));
  Message rts{Type::ready_to_send, R::kRkey, 0, kMaxControl, true};
  auto words = build(rts);
  const uint64_t too_large = transport::kMaxRkey + 1;
  std::memcpy(reinterpret_cast<std::byte*>(words.data()) + kRts, &too_large, sizeof too_large);
  EXPECT_FALSE(well_formed(reinterpret_cast<const std::byte*>(words.data()), kMaxControl, true));
}

}  // namespace
}  // namespace weft::p2p
