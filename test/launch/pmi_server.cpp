// SPDX-License-Identifier: BSD-3-Clause
// The PMI-1 server: replies identical to Hydra's, and error messages for misuse.
#include "mpiexec/pmi_server.hpp"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/local_socket.hpp"
#include "launch/names.hpp"

namespace weft::mpiexec {
namespace {

class Launcher : public ::testing::Test, public PmiServer::Listener {
 protected:
  Launcher() {
    std::vector<int> server_ends;
    for (int rank = 0; rank < 2; ++rank) {
      int ends[2];
      EXPECT_EQ(::socketpair(AF_UNIX, SOCK_STREAM, 0, ends), 0);
      server_ends.push_back(ends[0]);
      rank_ends_.push_back(ends[1]);
    }
    server_ends_ = server_ends;
    server_ = std::make_unique<PmiServer>(server_ends, std::vector<int>{1, 1}, "job", *this, 2);
  }
  ~Launcher() override {
    for (int fd : server_ends_) ::close(fd);
    for (int fd : rank_ends_) ::close(fd);
  }
  void on_abort(int rank, int code, const std::string& message) override {
    events_ += "abort " + std::to_string(rank) + " " + std::to_string(code) + " " + message + ";";
  }
  void on_failure(int rank, const std::string& problem) override {
    events_ += "failure " + std::to_string(rank) + " " + problem + ";";
  }

  void on_spawn(int rank, launch::SpawnRequest request, launch::Values values) override {
    events_ += "spawn " + std::to_string(rank) + " of";
    for (const launch::SpawnProgram& program : request.programs) {
      events_ += " " + std::to_string(program.processes) + " " + program.command;
      for (const std::string& argument : program.arguments) events_ += " '" + argument + "'";
      for (const auto& [key, value] : program.info) events_ += " " + key + "=" + value;
    }
    for (const auto& [key, value] : values) events_ += " " + key + ":" + value;
    events_ += ";";
  }
  NameServer& names() override { return names_; }

  /// Returns the replies sent to the rank so far.
  std::string answers(int rank) {
    char text[8192];
    const ssize_t n = ::recv(rank_ends_[static_cast<size_t>(rank)], text, sizeof text, MSG_DONTWAIT);
    return n > 0 ? std::string(text, static_cast<size_t>(n)) : "";
  }
  std::string request(int rank, const std::string& line) {
    EXPECT_EQ(::send(rank_ends_[static_cast<size_t>(rank)], line.data(), line.size(), 0),
              static_cast<ssize_t>(line.size()));
    EXPECT_TRUE(server_->read(rank));
    return answers(rank);
  }
  void init(int rank) {
    EXPECT_EQ(request(rank, "cmd=init pmi_version=1 pmi_subversion=1\n"),
              "cmd=response_to_init pmi_version=1 pmi_subversion=1 rc=0\n");
  }

  std::vector<int> server_ends_, rank_ends_;
  NameServer names_;
  std::unique_ptr<PmiServer> server_;
  std::string events_;
};

TEST_F(Launcher, RepliesToInit) {
  init(0);
  EXPECT_EQ(request(0, "cmd=get_maxes\n"), "cmd=maxes kvsname_max=256 keylen_max=64 vallen_max=1024\n");
  EXPECT_EQ(request(0, "cmd=get_appnum\n"), "cmd=appnum appnum=0 maxprocs=1\n");
  EXPECT_EQ(request(0, "cmd=get_my_kvsname\n"), "cmd=my_kvsname kvsname=job\n");
  EXPECT_EQ(request(0, "cmd=get_universe_size\n"), "cmd=universe_size size=2\n");
  EXPECT_EQ(request(0, "cmd=get kvsname=job key=PMI_process_mapping\n"),
            "cmd=get_result rc=0 msg=success value=(vector,(0,1,2))\n");
  EXPECT_EQ(server_->stage(0), PmiServer::Stage::initialized);
  EXPECT_EQ(request(0, "cmd=finalize\n"), "cmd=finalize_ack rc=0\n");
  EXPECT_EQ(server_->stage(0), PmiServer::Stage::finalized);
  EXPECT_EQ(server_->stage(1), PmiServer::Stage::not_initialized);
  EXPECT_EQ(events_, "");
}

TEST_F(Launcher, StoresValues) {
  init(0);
  init(1);
  EXPECT_EQ(request(0, "cmd=put kvsname=job key=k value=v=1\n"), "cmd=put_result rc=0 msg=success\n");
  EXPECT_EQ(request(1, "cmd=get kvsname=job key=k\n"), "cmd=get_result rc=0 msg=success value=v=1\n");
  EXPECT_EQ(request(1, "cmd=put kvsname=job key=k value=2\n"), "cmd=put_result rc=-1 msg=duplicate_key_k\n");
  EXPECT_EQ(request(1, "cmd=get kvsname=job key=no\n"),
            "cmd=get_result rc=-1 msg=key_not_found value=unknown\n");
  EXPECT_NE(request(1, "cmd=put kvsname=job key=" + std::string(64, 'k') + " value=2\n").find("rc=-1"),
            std::string::npos);
  EXPECT_NE(request(1, "cmd=put kvsname=job key=l value=" + std::string(1024, 'v') + "\n").find("rc=-1"),
            std::string::npos);
  EXPECT_NE(request(1, "cmd=put kvsname=job key=l value=" + std::string(1023, 'v') + "\n").find("rc=0"),
            std::string::npos);
}

TEST_F(Launcher, BarrierWaitsForAll) {
  init(0);
  init(1);
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(request(0, "cmd=barrier_in\n"), "");
    EXPECT_EQ(request(1, "cmd=barrier_in\n"), "cmd=barrier_out rc=0\n");
    EXPECT_EQ(answers(0), "cmd=barrier_out rc=0\n");
  }
  EXPECT_EQ(events_, "");
}

TEST_F(Launcher, BarrierWithARankThatHasEndedFails) {
  init(0);
  EXPECT_EQ(request(0, "cmd=barrier_in\n"), "");
  server_->rank_exited(1);
  EXPECT_NE(events_.find("failure 0 waits for rank 1"), std::string::npos) << events_;
}

TEST_F(Launcher, DeadProcessesHaveEndedWithoutFinalize) {
  const char* const question = "cmd=get kvsname=job key=PMI_dead_processes\n";
  init(0);
  init(1);
  EXPECT_EQ(request(0, question), "cmd=get_result rc=0 msg=success value=\n");
  server_->rank_exited(1);
  EXPECT_EQ(request(0, question), "cmd=get_result rc=0 msg=success value=1\n");
  EXPECT_NE(request(1, "cmd=finalize\n"), "");
  EXPECT_EQ(request(0, question), "cmd=get_result rc=0 msg=success value=\n");
}

TEST_F(Launcher, NextProgramOfARankStartsAgain) {
  init(0);
  EXPECT_NE(request(0, "cmd=put kvsname=job key=k value=1\n").find("rc=0"), std::string::npos);
  EXPECT_NE(request(0, "cmd=finalize\n"), "");
  init(0);
  EXPECT_EQ(request(0, "cmd=get_my_kvsname\n"), "cmd=my_kvsname kvsname=job-1\n");
  EXPECT_NE(request(0, "cmd=put kvsname=job-1 key=k value=2\n").find("rc=0"), std::string::npos);
  init(1);
  EXPECT_EQ(request(1, "cmd=get kvsname=job key=k\n"), "cmd=get_result rc=0 msg=success value=1\n");
  EXPECT_EQ(events_, "");
}

TEST_F(Launcher, BarrierWithARankThatRunsItsNextProgramFails) {
  init(0);
  init(1);
  EXPECT_EQ(request(0, "cmd=barrier_in\n"), "");
  init(1);  // its first program has ended without the barrier
  EXPECT_NE(events_.find("failure 0 waits in its MPI program number 1 for rank 1"), std::string::npos)
      << events_;
}

TEST_F(Launcher, NextProgramAfterOneThatEndedInTheBarrier) {
  init(0);
  EXPECT_EQ(request(0, "cmd=barrier_in\n"), "");
  init(0);
  for (int i = 0; i < 2; ++i) init(1);
  EXPECT_EQ(request(0, "cmd=barrier_in\n"), "");
  EXPECT_EQ(request(1, "cmd=barrier_in\n"), "cmd=barrier_out rc=0\n");
  EXPECT_EQ(events_, "");
}

// A process that has lost the descriptor of its rank.
class Joining : public Launcher {
 protected:
  /// A connection of process `pid`. Returns whether it is the rank; `reply`: what it has got.
  bool join(int rank, pid_t pid, std::string& reply) {
    int ends[2];
    EXPECT_EQ(::socketpair(AF_UNIX, SOCK_STREAM, 0, ends), 0);
    const bool joined = server_->join(rank, ends[0], pid);
    if (!joined) ::close(ends[0]);
    char text[512];
    const ssize_t n = ::recv(ends[1], text, sizeof text, MSG_DONTWAIT);
    reply.assign(text, static_cast<size_t>(std::max<ssize_t>(n, 0)));
    if (joined)
      ends_[rank] = ends[1];
    else
      ::close(ends[1]);
    return joined;
  }
  std::string ask(int rank, const std::string& line) {
    EXPECT_EQ(::send(ends_[rank], line.data(), line.size(), 0), static_cast<ssize_t>(line.size()));
    EXPECT_TRUE(server_->read(rank, PmiServer::joined));
    char text[512];
    const ssize_t n = ::recv(ends_[rank], text, sizeof text, MSG_DONTWAIT);
    return n > 0 ? std::string(text, static_cast<size_t>(n)) : "";
  }
  void leave(int rank) {
    ::close(ends_[rank]);
    EXPECT_FALSE(server_->read(rank, PmiServer::joined));
  }
  int ends_[2] = {-1, -1};
};

TEST_F(Joining, IsTheRank) {
  std::string reply;
  ASSERT_TRUE(join(1, ::getpid(), reply));
  EXPECT_EQ(reply, "cmd=joined rc=0 rank=1 size=2\n");
  EXPECT_EQ(ask(1, "cmd=init\n"), "cmd=response_to_init pmi_version=1 pmi_subversion=1 rc=0\n");
  init(0);
  EXPECT_EQ(request(0, "cmd=barrier_in\n"), "");
  EXPECT_EQ(ask(1, "cmd=barrier_in\n"), "cmd=barrier_out rc=0\n");
  EXPECT_EQ(answers(0), "cmd=barrier_out rc=0\n");
  EXPECT_EQ(ask(1, "cmd=finalize\n"), "cmd=finalize_ack rc=0\n");
  EXPECT_EQ(server_->stage(1), PmiServer::Stage::finalized);
  leave(1);
  init(1);  // the next program has the descriptor
  EXPECT_EQ(request(1, "cmd=get_my_kvsname\n"), "cmd=my_kvsname kvsname=job-1\n");
  EXPECT_EQ(events_, "");
}

TEST_F(Joining, OnlyOneLivingProcessIsTheRank) {
  std::string reply;
  const pid_t other = ::fork();
  if (other == 0) {
    ::pause();
    ::_exit(0);
  }
  ASSERT_TRUE(join(0, other, reply));
  EXPECT_FALSE(join(0, ::getpid(), reply));
  EXPECT_EQ(reply, "cmd=joined rc=-1 msg=rank_in_use pid=" + std::to_string(other) + "\n");
  ASSERT_TRUE(join(1, ::getpid(), reply));
  ::kill(other, SIGKILL);
  siginfo_t ended{};
  ::waitid(P_PID, static_cast<id_t>(other), &ended, WEXITED | WNOWAIT);  // a zombie
  EXPECT_TRUE(join(0, ::getpid(), reply));
  EXPECT_EQ(reply, "cmd=joined rc=0 rank=0 size=2\n");
  ::waitpid(other, nullptr, 0);
  server_->rank_exited(1);
  EXPECT_FALSE(join(1, ::getpid(), reply));
  EXPECT_EQ(reply, "cmd=joined rc=-1 msg=its%20rank%20has%20ended\n");
  EXPECT_EQ(events_, "");
}

TEST_F(Joining, TwoProgramsOnOneDescriptorEndTheJob) {
  const int one = 1;
  ASSERT_EQ(::setsockopt(server_ends_[0], SOL_SOCKET, SO_PASSCRED, &one, sizeof one), 0);
  init(0);
  const pid_t second = ::fork();
  if (second == 0) {
    const char line[] = "cmd=init\n";
    (void)!::write(rank_ends_[0], line, sizeof line - 1);
    ::pause();
    ::_exit(0);
  }
  while (events_.empty()) ASSERT_TRUE(server_->read(0));
  const std::string pids = "(pids " + std::to_string(::getpid()) + " and " + std::to_string(second) + ")";
  EXPECT_NE(events_.find("failure 0 has started two MPI programs at once " + pids), std::string::npos)
      << events_;
  ::kill(second, SIGKILL);
  ::waitpid(second, nullptr, 0);
}

TEST_F(Launcher, NumberOfSpawnedProcessesIsNotJudgedHere) {
  init(0);
  EXPECT_EQ(request(0, "mcmd=spawn\nnprocs=2147483647\nexecname=a\ntotspawns=1\nendcmd\n"), "");
  EXPECT_EQ(events_, "spawn 0 of 2147483647 a;");
  // The reply is one line.
  launch::Spawned spawned;
  spawned.started.assign(65536, true);
  spawned.pids.assign(65536, 4194304);
  const std::string line = launch::pmi::spawn_reply(spawned).line();
  EXPECT_LT(line.size(), launch::pmi::kLineMax);
  const auto reply = launch::pmi::Message::parse(line.substr(0, line.size() - 1));
  ASSERT_TRUE(reply);
  EXPECT_EQ(launch::pmi::parse_spawn_reply(*reply, 65536).started, spawned.started);
  EXPECT_TRUE(launch::pmi::parse_spawn_reply(launch::pmi::spawn_reply({}), 65536).started.empty());
}

TEST_F(Launcher, ASpawnRequestOfTwoProgramsArrives) {
  launch::SpawnRequest sent;
  sent.programs.push_back(
      {"./a program", {"x y", "", "line\nend", "%41"}, 2, {{"wdir", "/tmp"}, {"key", "a=b;c"}}});
  sent.programs.push_back({"b", {}, 1, {}});
  sent.parent_value = "7@weft:" + std::string(2000, 'p');
  sent.directory = "/home";
  auto lines = launch::pmi::spawn_lines(sent, true);
  ASSERT_TRUE(lines);
  init(0);
  EXPECT_EQ(request(0, *lines), "");
  EXPECT_TRUE(
      events_.starts_with("spawn 0 of 2 ./a program 'x y' '' 'line\nend' '%41' wdir=/tmp key=a=b;c 1 b "
                          "wdir=/home weft-parent:+7@weft:p"))
      << events_;
  EXPECT_NE(events_.find(" weft-parent+2:.p"), std::string::npos) << events_;
  server_->reply_spawn(0, {{true, true, false}, "no b", {}});
  std::string line = answers(0);
  ASSERT_TRUE(line.ends_with('\n'));
  line.pop_back();
  const auto reply = launch::pmi::Message::parse(line);
  ASSERT_TRUE(reply);
  const launch::Spawned spawned = launch::pmi::parse_spawn_reply(*reply, 3);
  EXPECT_EQ(spawned.started, (std::vector<bool>{true, true, false}));
  EXPECT_EQ(spawned.problem, "no b");
  EXPECT_NE(request(0, "mcmd=spawn\nnprocs=none\n"), "anything");
  EXPECT_NE(events_.find("failure 0 sent 'nprocs=none'"), std::string::npos) << events_;
}

TEST_F(Launcher, OtherLaunchersGetValuesAsTheyAre) {
  launch::SpawnRequest sent;
  sent.programs.push_back({"a b", {"x y"}, 1, {}});
  sent.directory = "/home";
  auto lines = launch::pmi::spawn_lines(sent, false);
  ASSERT_TRUE(lines);
  EXPECT_NE(lines->find("execname=a b\n"), std::string::npos);
  EXPECT_NE(lines->find("arg1=x y\n"), std::string::npos);
  for (const char* const refused : {"x\ny", ""}) {
    sent.programs[0].arguments[0] = refused;
    EXPECT_EQ(launch::pmi::spawn_lines(sent, false).error().code(), Errc::spawn);
  }
}

TEST_F(Launcher, NameService) {
  init(0);
  EXPECT_NE(request(0, "cmd=lookup_name service=s\n").find("rc=-1"), std::string::npos);
  EXPECT_NE(request(0, "cmd=publish_name service=s port=p\n").find("rc=0"), std::string::npos);
  EXPECT_NE(request(0, "cmd=lookup_name service=s\n").find("port=p"), std::string::npos);
  EXPECT_NE(request(0, "cmd=unpublish_name service=s\n").find("rc=0"), std::string::npos);
  EXPECT_NE(request(0, "cmd=unpublish_name service=s\n").find("rc=-1"), std::string::npos);
}

/// A socket for a name that does not listen, as another user can have.
int occupy(const std::string& name, int number) {
  const int fd = ::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  const local_socket::AbstractName address(launch::name_socket(name, number));
  EXPECT_EQ(::bind(fd, address.address(), address.size()), 0);
  return fd;
}

TEST_F(Launcher, NamesWhoseFirstSocketsAreOccupied) {
  const std::string name = "occupied " + std::to_string(::getpid());
  std::vector<int> occupants;
  for (int number = 0; number < launch::kNameSockets; ++number) {
    NameServer second;
    EXPECT_EQ(launch::lookup_on_host(name).error().code(), Errc::name);
    ASSERT_TRUE(names_.publish(name, "port").ok());
    EXPECT_EQ(second.publish(name, "other").error().message(), "the name is published already");
    auto connection = launch::connect_name(name, number);
    ASSERT_TRUE(connection);
    EXPECT_EQ(connection->state, launch::NameSocket::of_this_user) << number;
    EXPECT_EQ(launch::connect_name(name, number + 1)->state, launch::NameSocket::unused);
    names_.serve();
    char text[16] = {};
    ::fcntl(connection->connection, F_SETFL, 0);
    EXPECT_EQ(::recv(connection->connection, text, sizeof text, 0), 4);
    EXPECT_STREQ(text, "port");
    ::close(connection->connection);
    EXPECT_TRUE(names_.unpublish(name));
    occupants.push_back(occupy(name, number));
  }
  const Status published = names_.publish(name, "port");
  ASSERT_FALSE(published.ok());
  EXPECT_NE(published.error().message().find("another user occupies all sockets"), std::string::npos);
  for (const int fd : occupants) ::close(fd);
}

TEST_F(Launcher, AnotherUserAtTheSocketOfAName) {
  if (::geteuid() != 0) GTEST_SKIP() << "needs root, to be another user";
  constexpr uid_t kOther = 54321;
  const std::string name = "impostor " + std::to_string(::getpid());
  int ready[2];
  ASSERT_EQ(::pipe(ready), 0);
  const pid_t impostor = ::fork();
  if (impostor == 0) {
    const int fd = occupy(name, 0);
    const bool other = ::setuid(kOther) == 0 && ::listen(fd, 8) == 0;
    (void)!::write(ready[1], "x", other ? 1 : 0);
    ::pause();
    ::_exit(0);
  }
  char byte;
  ASSERT_EQ(::read(ready[0], &byte, 1), 1);
  auto found = launch::connect_name(name, 0);
  ASSERT_TRUE(found);
  EXPECT_EQ(found->state, launch::NameSocket::of_other_user);
  EXPECT_EQ(found->user, kOther);
  EXPECT_TRUE(names_.publish(name, "port").ok());
  EXPECT_EQ(launch::connect_name(name, 1)->state, launch::NameSocket::of_this_user);
  ::kill(impostor, SIGKILL);
  ::waitpid(impostor, nullptr, 0);
  EXPECT_NE(NameServer().publish(name, "other").error().message().find("already"), std::string::npos);
  for (const int fd : ready) ::close(fd);
}

TEST_F(Launcher, AbortAndMisuseAreReported) {
  init(0);
  EXPECT_EQ(request(0, "cmd=abort exitcode=7 message=a%20b\n"), "");
  EXPECT_EQ(events_, "abort 0 7 a b;");
  events_.clear();
  request(1, "cmd=put kvsname=job key=k value=1\n");
  EXPECT_NE(events_.find("failure 1 sent PMI command 'put' before init"), std::string::npos);
  events_.clear();
  request(0, "hello\n");
  EXPECT_NE(events_.find("failure 0 sent 'hello'"), std::string::npos);
  events_.clear();
  request(0, "cmd=frobnicate\n");
  EXPECT_NE(events_.find("unknown PMI command 'frobnicate'"), std::string::npos);
}

TEST_F(Launcher, TooLongLineIsAnError) {
  init(0);
  const std::string line(launch::pmi::kLineMax + 1, 'x');
  EXPECT_EQ(::send(rank_ends_[0], line.data(), line.size(), 0), static_cast<ssize_t>(line.size()));
  EXPECT_FALSE(server_->read(0));
  EXPECT_NE(events_.find("oversized line"), std::string::npos);
}

}  // namespace
}  // namespace weft::mpiexec
