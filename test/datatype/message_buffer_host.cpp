// SPDX-License-Identifier: BSD-3-Clause
#include "datatype/message_buffer.hpp"

namespace weft::test {

struct MessageBuffer::Impl {
  std::vector<char>& bytes;
};
MessageBuffer::MessageBuffer(std::vector<char>& bytes) : impl_(new Impl{bytes}) {}
MessageBuffer::~MessageBuffer() = default;
char* MessageBuffer::data() const { return impl_->bytes.data(); }
void MessageBuffer::download() const {}
void open_message_buffers() {}

}  // namespace weft::test
