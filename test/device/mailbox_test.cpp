// SPDX-License-Identifier: BSD-3-Clause
// A mailbox accepts descriptors of processes of this user only; connections of other users have no effect,
// even if they are correct.
#include "transport/cuda_ipc/mailbox.hpp"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>

#include "base/local_socket.hpp"

namespace weft::transport::cuda_ipc {
namespace {

constexpr uint64_t kEpoch = 7;
constexpr uid_t kOtherUser = 65534;

/// Sends the message of a region of one descriptor.
Status send(uint64_t mailbox, uint64_t buffer_id) {
  const device::ShareableHandle handle{::open("/dev/null", O_RDWR | O_CLOEXEC), 4096};
  Status sent = send_descriptors(mailbox, kEpoch, buffer_id, {&handle, 1});
  ::close(handle.fd);
  return sent;
}

bool has(Mailbox& mailbox, uint64_t buffer_id) {
  auto copies = mailbox.duplicate(kEpoch, buffer_id);
  if (!copies) return false;
  device::close_all(*copies);
  return true;
}

/// Runs `body` in a child process as another user; returns its exit code.
template <class Body>
int as_other_user(Body body) {
  const pid_t child = ::fork();
  if (child == 0) ::_exit(::setresuid(kOtherUser, kOtherUser, kOtherUser) == 0 ? body() : 99);
  int status = 0;
  ::waitpid(child, &status, 0);
  return WEXITSTATUS(status);
}

TEST(Mailbox, SameUser) {
  Mailbox mailbox;
  const uint64_t address = mailbox.address();
  ASSERT_NE(address, 0u);
  for (uint64_t id = 1; id <= 5; ++id) ASSERT_TRUE(send(address, id).ok());
  for (uint64_t id = 1; id <= 5; ++id) EXPECT_TRUE(has(mailbox, id)) << id;
  mailbox.drop_all(kEpoch);
  EXPECT_FALSE(has(mailbox, 1));
}

TEST(Mailbox, OtherUser) {
  if (::geteuid() != 0) GTEST_SKIP() << "skipped: needs root, to run a process as another user";
  Mailbox mailbox;
  const uint64_t address = mailbox.address();
  // The sender, too, refuses: the mailbox belongs to another user than its process.
  EXPECT_EQ(as_other_user([&] { return send(address, 1).ok() ? 1 : 0; }), 0);
  // A sender that does not check.
  EXPECT_EQ(as_other_user([&] {
              char text[32];
              std::snprintf(text, sizeof text, "weft-mail-%016llx", static_cast<unsigned long long>(address));
              const local_socket::AbstractName name(text);
              for (int i = 0; i < 300; ++i) {
                const int socket = ::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
                if (::connect(socket, name.address(), name.size()) != 0) return 1;
                const uint64_t message[] = {kEpoch, 1, 1, 4096};
                const int descriptor = 0;
                if (!local_socket::send(socket, std::as_bytes(std::span(message)), {&descriptor, 1}))
                  return 2;
              }
              return 0;
            }),
            0);
  ASSERT_TRUE(send(address, 2).ok());
  EXPECT_FALSE(has(mailbox, 1));
  EXPECT_TRUE(has(mailbox, 2));
}

}  // namespace
}  // namespace weft::transport::cuda_ipc
