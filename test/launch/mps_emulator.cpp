// SPDX-License-Identifier: BSD-3-Clause
// Emulates NVIDIA's MPS for tests of mpiexec --mps. The name of the program selects what it is:
//   nvidia-cuda-mps-control -d   starts the control daemon: two forks, files in the pipe and the log folder
//   nvidia-cuda-mps-control      sends the commands of standard input: get_server_list, quit [-t SECONDS]
//   nvidia-cuda-mps-server       a server, which the daemon starts for the first client; it outlives the
//   daemon nvidia-smi                   prints EMUMPS_GPUS, or with --query-compute-apps EMUMPS_PROCESSES
//   mps-client [SECONDS]         connects as a CUDA program does, prints the folder, and stays for this time
// EMUMPS_FAULT: hangs (-d does not return), refuses (-d fails), dies (the daemon ends at once), silent (it
// does not answer), stubborn (daemon and servers ignore quit and SIGTERM).
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <iostream>
#include <iterator>
#include <map>
#include <string>
#include <vector>

namespace {

constexpr int kPollMs = 20;
constexpr const char* kNoDaemon = "Cannot find MPS control daemon process";

std::string variable(const char* name, const char* otherwise) {
  const char* const value = std::getenv(name);
  return value != nullptr && *value != '\0' ? value : otherwise;
}

std::string pipe_folder() { return variable("CUDA_MPS_PIPE_DIRECTORY", "/tmp/nvidia-mps"); }
std::string log_folder() { return variable("CUDA_MPS_LOG_DIRECTORY", "/var/log/nvidia-mps"); }
bool has_fault(const char* name) { return variable("EMUMPS_FAULT", "") == name; }

sockaddr_un control_address() {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  const std::string path = pipe_folder() + "/control";
  if (path.size() >= sizeof address.sun_path) std::exit(1);
  std::memcpy(address.sun_path, path.data(), path.size());
  return address;
}

/// Connects to the daemon; negative: there is none.
int connect_to_daemon() {
  const sockaddr_un address = control_address();
  const int fd = ::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (::connect(fd, reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0) return fd;
  ::close(fd);
  return -1;
}

void write_log(const std::string& line) {
  std::ofstream(log_folder() + "/control.log", std::ios::app) << line << '\n';
}

class Daemon {
 public:
  /// Returns false if the pipe folder has a daemon already.
  bool open();
  [[noreturn]] void run();

 private:
  void accept_one();
  /// Returns false when the connection is closed.
  bool serve(int fd);
  void start_server();
  void quit(int requester);

  int listener_ = -1;
  std::map<int, bool> connections_;  // open connections; true: a client
  std::vector<pid_t> servers_;
};

bool Daemon::open() {
  if (const int other = connect_to_daemon(); other >= 0) return false;
  const sockaddr_un address = control_address();
  ::unlink(address.sun_path);
  listener_ = ::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (::bind(listener_, reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0 ||
      ::listen(listener_, 64) != 0) {
    std::cout << "cannot create " << address.sun_path << '\n';
    std::exit(1);
  }
  ::mkfifo((pipe_folder() + "/log").c_str(), S_IRWXU);
  std::ofstream(pipe_folder() + "/control_lock");
  std::ofstream(log_folder() + "/server.log");
  return true;
}

void Daemon::start_server() {
  int executed[2];
  if (::pipe2(executed, O_CLOEXEC) != 0) std::exit(1);
  const pid_t pid = ::fork();
  if (pid == 0) {
    char name[] = "nvidia-cuda-mps-server";
    char* argv[] = {name, nullptr};
    ::execv("/proc/self/exe", argv);
    ::_exit(1);
  }
  ::close(executed[1]);
  char byte;
  (void)!::read(executed[0], &byte, 1);  // the end of the file: it has its name
  ::close(executed[0]);
  servers_.push_back(pid);
  write_log("Starting new server " + std::to_string(pid));
}

void Daemon::accept_one() {
  if (const int fd = ::accept4(listener_, nullptr, nullptr, SOCK_CLOEXEC); fd >= 0) connections_[fd] = false;
}

void Daemon::quit(int requester) {
  if (has_fault("stubborn")) return;
  for (const auto& [fd, client] : connections_)  // it waits for its clients
    if (client) return;
  for (const pid_t server : servers_) ::kill(server, SIGTERM);
  for (const pid_t server : servers_) ::waitpid(server, nullptr, 0);
  for (const char* file : {"/control", "/control_lock", "/log", "/nvidia-cuda-mps-control.pid"})
    ::unlink((pipe_folder() + file).c_str());
  write_log("Exit");
  ::close(requester);
  ::_exit(0);
}

bool Daemon::serve(int fd) {
  char buffer[256];
  const ssize_t count = ::recv(fd, buffer, sizeof buffer, 0);
  if (count <= 0) return false;
  if (has_fault("silent")) return true;
  const std::string command(buffer, static_cast<size_t>(count));
  std::string reply;
  if (command.starts_with("client")) {
    connections_[fd] = true;
    if (servers_.empty()) start_server();
    reply = std::to_string(servers_[0]);
    (void)!::write(fd, reply.data(), reply.size());
    return true;
  }
  if (command.starts_with("quit")) {
    quit(fd);
    return true;  // no answer before it has quit
  }
  for (const pid_t server : servers_) reply += std::to_string(server) + "\n";
  (void)!::write(fd, reply.data(), reply.size());
  return false;
}

void Daemon::run() {
  write_log("Starting control daemon using socket " + pipe_folder() + "/control");
  if (has_fault("dies")) {
    write_log("Failed to open the GPUs");
    ::_exit(1);
  }
  if (has_fault("stubborn")) ::signal(SIGTERM, SIG_IGN);
  while (true) {
    std::vector<pollfd> events{{listener_, POLLIN, 0}};
    for (const auto& [fd, client] : connections_) events.push_back({fd, POLLIN, 0});
    ::poll(events.data(), events.size(), -1);
    for (const pollfd& event : events)
      if (event.fd != listener_ && event.revents != 0 && !serve(event.fd)) {
        ::close(event.fd);
        connections_.erase(event.fd);
      }
    if (events[0].revents != 0) accept_one();
  }
}

int start_daemon() {
  if (has_fault("hangs"))
    while (true) ::pause();
  if (has_fault("refuses")) {
    std::cout << "no permission to use the GPUs\n";
    return 1;
  }
  Daemon daemon;
  if (!daemon.open()) {
    std::cout << "An instance of this daemon is already running\n";
    return 1;
  }
  std::cout.flush();
  const pid_t pid = ::fork();
  if (pid != 0) {
    ::waitpid(pid, nullptr, 0);
    return 0;
  }
  ::setsid();
  if (const pid_t second = ::fork(); second != 0) {
    std::ofstream(pipe_folder() + "/nvidia-cuda-mps-control.pid") << second << '\n';
    ::_exit(0);
  }
  const int null = ::open("/dev/null", O_RDWR);
  for (int fd = 0; fd < 3; ++fd) ::dup2(null, fd);
  daemon.run();
}

int send_commands() {
  for (std::string line; std::getline(std::cin, line);) {
    const int fd = connect_to_daemon();
    if (fd < 0) {
      std::cout << kNoDaemon << '\n';
      return 1;
    }
    (void)!::send(fd, line.data(), line.size(), MSG_NOSIGNAL);
    char buffer[256];
    ssize_t count;
    while ((count = ::read(fd, buffer, sizeof buffer)) > 0) std::cout.write(buffer, count);
    ::close(fd);
    if (count < 0) {  // the daemon has ended before it accepted the connection
      std::cout << kNoDaemon << '\n';
      return 1;
    }
  }
  return 0;
}

[[noreturn]] void serve_clients() {
  if (has_fault("stubborn")) ::signal(SIGTERM, SIG_IGN);
  while (true) ::pause();
}

int be_client(double seconds) {
  const int fd = connect_to_daemon();
  if (fd < 0) {
    std::cout << kNoDaemon << std::endl;
    return 1;
  }
  (void)!::write(fd, "client", 6);
  char reply[64];
  const ssize_t count = ::read(fd, reply, sizeof reply - 1);
  if (count <= 0) return 1;
  reply[count] = '\0';
  std::cout << pipe_folder() << ' ' << log_folder() << ' ' << reply << ' '
            << variable("CUDA_VISIBLE_DEVICES", "-") << std::endl;
  ::usleep(static_cast<useconds_t>(seconds * 1e6));
  ::close(fd);
  return 0;
}

int print_gpus(const std::string& query) {
  if (query.starts_with("--query-compute-apps"))
    std::cout << variable("EMUMPS_PROCESSES", "");
  else
    std::cout << variable("EMUMPS_GPUS", "0, GPU-00000000-1111, Default, Disabled\n");
  return variable("EMUMPS_GPUS", "").starts_with("No devices") ? 6 : 0;
}

}  // namespace

int main(int argc, char** argv) {
  const std::string path = argv[0], name = path.substr(path.rfind('/') + 1), first = argc > 1 ? argv[1] : "";
  if (name == "nvidia-cuda-mps-server") serve_clients();
  if (name == "nvidia-smi") return print_gpus(first);
  if (name == "mps-client") return be_client(first.empty() ? 0 : std::stod(first));
  if (name != "nvidia-cuda-mps-control") return 2;
  return first == "-d" ? start_daemon() : send_commands();
}
