// SPDX-License-Identifier: BSD-3-Clause
// Messages of fault tolerance between processes, as active messages. Their content is checked before use.
#pragma once
#include <cstdint>

#include "ft/agreement.hpp"
#include "transport/am/handlers.hpp"

namespace weft::ft {

enum class MessageId : transport::am::HandlerId {
  agreement = transport::am::kFailureHandlers,
  revoke,
  failure
};

struct AgreementMessage {
  MessageId id;
  Kind kind;
  uint16_t unused = 0;
  uint32_t number;   ///< of the agreement on its communicator, from 0 on
  uint64_t context;  ///< of the communicator
  Value value;       ///< the used part: Value::bytes()
  static constexpr size_t kMinBytes = 16 + offsetof(Value, failed);
};
static_assert(offsetof(AgreementMessage, value) == 16);
static_assert(sizeof(AgreementMessage) <= transport::am::Sender::kMaxPosted);

struct RevokeMessage {
  MessageId id;
  uint8_t unused[7] = {};
  uint64_t context;
};

/// Reports that a process of this job has failed.
struct FailureMessage {
  MessageId id;
  uint8_t unused[3] = {};
  uint32_t process;  ///< rank in the job
};

}  // namespace weft::ft
