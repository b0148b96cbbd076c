// SPDX-License-Identifier: BSD-3-Clause
#include "mpiexec/mps.hpp"

#include <signal.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <set>
#include <sstream>

#include "base/local_socket.hpp"
#include "mpiexec/plan.hpp"
#include "mpiexec/report.hpp"

namespace weft::mpiexec {

namespace {

constexpr const char* kControlProgram = "nvidia-cuda-mps-control";
constexpr const char* kDefaultPipeFolder = "/tmp/nvidia-mps";
constexpr const char* kPipeVariable = "CUDA_MPS_PIPE_DIRECTORY";
constexpr const char* kLogVariable = "CUDA_MPS_LOG_DIRECTORY";
constexpr const char* kOrderVariable = "CUDA_DEVICE_ORDER";
constexpr const char* kVisibleVariable = "CUDA_VISIBLE_DEVICES";
/// The longest path of a socket below the folder of private daemons.
constexpr std::string_view kLongestSocket = "/weft-mps-0123-XXXXXX/pipe/control_privileged";

Error refused(const std::string& why) { return Error(Errc::unsupported, "--mps on: " + why); }

/// Returns the path of a program on PATH; empty: none.
std::string tool_on_path(const char* name) {
  const char* const path = std::getenv("PATH");
  const std::string found = find_on_path(name, path != nullptr ? path : "");
  return found == name ? std::string() : found;
}

/// mpiexec's environment without the variables that the monitor sets. The daemon numbers the GPUs anew for
/// its clients if it has a CUDA_VISIBLE_DEVICES, so it gets only one of UUIDs, which mean the same to daemon
/// and clients.
std::vector<std::string> daemon_environment(const std::string& visible, bool pci_order) {
  std::vector<std::string> variables;
  for (char** entry = environ; *entry != nullptr; ++entry) {
    const std::string text = *entry, name = text.substr(0, text.find('='));
    if (name != kPipeVariable && name != kLogVariable && name != kVisibleVariable) variables.push_back(text);
  }
  if (pci_order && std::getenv(kOrderVariable) == nullptr)  // as the ranks
    variables.push_back(std::string(kOrderVariable) + "=PCI_BUS_ID");
  if (has_only_uuids(visible)) variables.push_back(std::string(kVisibleVariable) + "=" + visible);
  return variables;
}

/// The GPUs of all programs if each has a list of UUIDs; else the list of a program that has none, or another
/// one.
std::string visible_to_programs(const Options& options) {
  const char* const inherited = std::getenv(kVisibleVariable);
  std::set<std::string> gpus;  // CUDA refuses a GPU that is named twice
  for (const Program& program : options.programs) {
    std::string own = inherited != nullptr ? inherited : "";
    for (const auto& [name, value] : program.variables)
      if (name == kVisibleVariable) own = value;
    if (!has_only_uuids(own)) return own;
    std::istringstream words(own);
    for (std::string word; std::getline(words, word, ',');) gpus.insert(word);
  }
  std::string list;
  for (const std::string& gpu : gpus) list += (list.empty() ? "" : ",") + gpu;
  return list;
}

/// SIGCHLD at its default. Some programs start others with it ignored: the kernel would reap the tools.
class DefaultSigchld {
 public:
  DefaultSigchld() : before_(::signal(SIGCHLD, SIG_DFL)) {}
  ~DefaultSigchld() {
    if (before_ == SIG_IGN) ::signal(SIGCHLD, SIG_IGN);
  }
  DefaultSigchld(const DefaultSigchld&) = delete;
  DefaultSigchld& operator=(const DefaultSigchld&) = delete;

 private:
  sighandler_t before_;
};

}  // namespace

std::string rank_variable(const Options& options, const std::string& name) {
  for (const Program& program : options.programs)
    for (auto variable = program.variables.rbegin(); variable != program.variables.rend(); ++variable)
      if (variable->first == name) return variable->second;
  const char* const value = std::getenv(name.c_str());
  return value != nullptr ? value : "";
}

bool mps_daemon_answers(const std::string& pipe_folder) {
  const std::string path = pipe_folder + "/control";
  sockaddr_un address{};
  if (path.size() >= sizeof address.sun_path) return false;
  address.sun_family = AF_UNIX;
  std::memcpy(address.sun_path, path.data(), path.size());
  for (const int type : {SOCK_STREAM, SOCK_SEQPACKET}) {
    const int fd = ::socket(AF_UNIX, type | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0) return false;
    bool serves_user = false;
    const bool connected = ::connect(fd, reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0;
    const bool other_type = !connected && errno == EPROTOTYPE;
    if (connected)
      if (const auto daemon = local_socket::peer(fd))
        serves_user = daemon->uid == 0 || daemon->uid == ::geteuid();
    ::close(fd);
    if (!other_type) return serves_user;
  }
  return false;
}

std::string mps_parent_folder(const char* tmpdir) {
  const std::string folder = tmpdir != nullptr && *tmpdir == '/' ? tmpdir : "/tmp";
  return folder.size() + kLongestSocket.size() < sizeof(sockaddr_un::sun_path) ? folder : "/tmp";
}

Status check_mps_gpus(const std::vector<GpuState>& gpus) {
  for (const GpuState& gpu : gpus) {
    const std::string name = "GPU " + gpu.index + " (" + gpu.uuid + ") ";
    if (gpu.mig)
      return refused(
          name +
          "is divided into MIG instances, each of which needs a daemon of its own: start the ranks "
          "without --mps, one for each instance, or disable MIG (as root: nvidia-smi -mig 0)");
    if (gpu.compute_mode == "Prohibited")
      return refused(name + "is in the compute mode Prohibited (as root: nvidia-smi -c DEFAULT)");
    if (gpu.compute_mode.starts_with("Exclusive") && !gpu.user.empty())
      return refused(
          name + "is in the compute mode " + gpu.compute_mode + " and held by " + gpu.user +
          ": a daemon can't use it before that process ends. Use the daemon of the site, if that process is "
          "one (CUDA_MPS_PIPE_DIRECTORY), or other GPUs (CUDA_VISIBLE_DEVICES)");
  }
  return {};
}

Status Mps::start(Options& options, char** argv) {
  if (!options.mps) return {};
  const DefaultSigchld default_sigchld;  // of the monitor, too
  const std::string given = rank_variable(options, kPipeVariable);
  const std::string pipe_folder = given.empty() ? kDefaultPipeFolder : given;
  if (mps_daemon_answers(pipe_folder)) {
    if (options.report_bindings) print_message("MPS: the daemon of " + pipe_folder + ", which runs already");
    return {};
  }
  const std::string control = tool_on_path(kControlProgram);
  if (control.empty())
    return refused(std::string(kControlProgram) +
                   " is not on PATH. NVIDIA's driver has it (packages nvidia-cuda-mps of Debian, "
                   "nvidia-compute-utils of "
                   "Ubuntu); containers get it by NVIDIA_DRIVER_CAPABILITIES=compute,utility");
  const std::string visible = visible_to_programs(options);
  if (visible.find("MIG-") != visible.npos)
    return refused("CUDA_VISIBLE_DEVICES names MIG instances, each of which needs a daemon of its own");
  if (const std::string smi = tool_on_path("nvidia-smi"); smi.empty()) {
    print_message("--mps on: nvidia-smi is not on PATH: compute modes and MIG of the GPUs are not checked");
  } else {
    auto gpus = query_gpu_states(smi);
    if (!gpus) return refused(gpus.error().message());
    WEFT_TRY(check_mps_gpus(states_of_visible(std::move(*gpus), visible)));
  }
  WEFT_TRY(
      monitor_.start({control, daemon_environment(visible, visible.empty() && gpu_binding(options).assigns()),
                      mps_parent_folder(std::getenv("TMPDIR")), kMpsStartSeconds, kMpsQuitSeconds},
                     argv));
  for (Program& program : options.programs) {
    program.variables.emplace_back(kPipeVariable, monitor_.folder().pipe());
    program.variables.emplace_back(kLogVariable, monitor_.folder().log());
  }
  if (options.report_bindings) print_message("MPS: a daemon of this job in " + monitor_.folder().path());
  return {};
}

void Mps::stop() {
  if (const std::string notice = monitor_.stop(); !notice.empty()) print_message(notice);
}

}  // namespace weft::mpiexec
