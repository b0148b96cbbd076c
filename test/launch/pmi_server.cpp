// SPDX-License-Identifier: BSD-3-Clause
// The PMI-1 server: replies identical to Hydra's, and error messages for misuse.
#include "mpiexec/pmi_server.hpp"

#include <gtest/gtest.h>
#include <sys/socket.h>
#include <unistd.h>

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
  auto lines = launch::pmi::spawn_lines(sent, false);
  ASSERT_TRUE(lines);
  EXPECT_NE(lines->find("execname=a b\n"), std::string::npos);
  EXPECT_NE(lines->find("arg1=x y\n"), std::string::npos);
  sent.programs[0].arguments[0] = "x\ny";
  EXPECT_EQ(launch::pmi::spawn_lines(sent, false).error().code(), Errc::spawn);
}

TEST_F(Launcher, NameService) {
  init(0);
  EXPECT_NE(request(0, "cmd=lookup_name service=s\n").find("rc=-1"), std::string::npos);
  EXPECT_NE(request(0, "cmd=publish_name service=s port=p\n").find("rc=0"), std::string::npos);
  EXPECT_NE(request(0, "cmd=lookup_name service=s\n").find("port=p"), std::string::npos);
  EXPECT_NE(request(0, "cmd=unpublish_name service=s\n").find("rc=0"), std::string::npos);
  EXPECT_NE(request(0, "cmd=unpublish_name service=s\n").find("rc=-1"), std::string::npos);
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
