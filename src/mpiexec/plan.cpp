// SPDX-License-Identifier: BSD-3-Clause
#include "mpiexec/plan.hpp"

#include <fcntl.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <climits>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <map>

#include "launch/environment.hpp"
#include "launch/pmi/address.hpp"
#include "mpiexec/cxx_bindings.hpp"
#include "mpiexec/elf.hpp"
#include "mpiexec/other_mpi.hpp"
#include "mpiexec/own_fortran.hpp"
#include "mpiexec/report.hpp"

namespace weft::mpiexec {

namespace {

constexpr const char* kLibrary = "libmpi_abi.so.1";

using Variables = std::map<std::string, std::string>;

/// Returns mpiexec's environment without launcher variables: mpiexec may itself run inside another job.
Variables inherited(char** environment) {
  Variables variables;
  for (char** entry = environment; entry != nullptr && *entry != nullptr; ++entry) {
    const std::string text = *entry;
    const size_t equals = text.find('=');
    if (equals == 0 || equals == text.npos) continue;
    const std::string name = text.substr(0, equals);
    if (!launch::is_launcher_variable(name)) variables[name] = text.substr(equals + 1);
  }
  return variables;
}

void prepend_path(Variables& variables, const std::string& name, const std::string& directory) {
  std::string& value = variables[name];
  // An empty element of the list would mean the current directory.
  value = value.empty() ? directory : directory + ":" + value;
}

/// Returns the path at which exec is expected to find the program.
std::string locate_program(const Program& program, const Variables& variables) {
  const std::string& name = program.argv[0];
  if (name.find('/') != name.npos)
    return name[0] == '/' || program.directory.empty() ? name : program.directory + "/" + name;
  auto path = variables.find("PATH");
  return path == variables.end() ? name : find_on_path(name, path->second);
}

/// Makes the dynamic linker find Weft's library first, also under the names of other MPI libraries that
/// lib/compat has. All programs get both folders: what Python or a shell script loads is not known here.
void prepend_library_path(Variables& variables, const Program& program, const std::string& directory) {
  if (directory.empty()) return;
  const std::string path = locate_program(program, variables);
  const std::string own_fortran = own_fortran_library(path, variables["LD_LIBRARY_PATH"], directory);
  const std::string empty_cxx = empty_cxx_bindings(path, variables["LD_LIBRARY_PATH"], directory);
  const std::string compat = directory + "/compat";
  if (::access(compat.c_str(), R_OK) == 0) prepend_path(variables, "LD_LIBRARY_PATH", compat);
  prepend_path(variables, "LD_LIBRARY_PATH", directory);
  if (!empty_cxx.empty()) variables["LD_LIBRARY_PATH"] += ":" + empty_cxx;
  // mpi4py's binary packages search lib/ of Python's environment first, where another MPI may be.
  const std::string for_mpi4py = compat + "/libmpi.so.12";
  if (!variables.contains("MPI4PY_MPIABI") && !variables.contains("MPI4PY_LIBMPI") &&
      ::access(for_mpi4py.c_str(), R_OK) == 0)
    variables["MPI4PY_LIBMPI"] = for_mpi4py;
  // LD_PRELOAD also affects processes started by the program, so use it only if DT_RPATH overrides
  // LD_LIBRARY_PATH. Append: a profiler preloaded by the user must stay first to intercept MPI_ functions.
  const auto preload = [&](const std::string& library) {
    std::string& list = variables["LD_PRELOAD"];
    list += (list.empty() ? "" : ":") + library;
  };
  if (has_overriding_rpath(path, kLibrary)) preload(directory + "/" + kLibrary);
  if (!own_fortran.empty()) preload(own_fortran);
  for (const std::string& needed : read_dynamic(path).needed)
    if (const std::string library = translation_for(needed, directory);
        !library.empty() && has_overriding_rpath(path, needed))
      preload(library);
}

void set_rank_variables(Variables& variables, int rank, int ranks, const std::string& job_id) {
  const std::string rank_text = std::to_string(rank), ranks_text = std::to_string(ranks);
  for (const char* name :
       {"PMI_RANK", "LOCAL_RANK", "MPI_LOCALRANKID", "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_LOCAL_RANK"})
    variables[name] = rank_text;
  for (const char* name :
       {"PMI_SIZE", "MPI_LOCALNRANKS", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_SIZE"})
    variables[name] = ranks_text;
  variables["WEFT_JOB_ID"] = job_id;
  for (const char* name : {"PMI_FD", launch::pmi::kAddressVariable}) variables.erase(name);  // see spawn()
}

/// Shows a rank only its GPUs. Numbers that mpiexec has chosen count in PCI order. `rotates`: the library
/// checks that the rank uses its device 0.
void set_gpu_variables(Variables& variables, const Binding& binding, bool rotates) {
  if (binding.gpus.empty()) return;
  if (rotates) variables["WEFT_LAUNCH_GPU_BIND"] = "rotate";
  if (!variables.contains("CUDA_VISIBLE_DEVICES")) variables.emplace("CUDA_DEVICE_ORDER", "PCI_BUS_ID");
  std::string list;
  for (const std::string& gpu : binding.gpus) list += (list.empty() ? "" : ",") + gpu;
  variables["CUDA_VISIBLE_DEVICES"] = list;
}

Error descriptor_error(const char* what) {
  return system_call_error(std::string("open a ") + what + " for the ranks", errno);
}

bool open_pair(int& parent_end, int& child_end) {
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0) return false;
  parent_end = ends[0];
  child_end = ends[1];
  return ::fcntl(parent_end, F_SETFL, O_NONBLOCK) == 0;
}

}  // namespace

std::string find_on_path(const std::string& name, const std::string& path) {
  for (size_t begin = 0; begin <= path.size();) {
    const size_t end = std::min(path.find(':', begin), path.size());
    const std::string candidate = path.substr(begin, end - begin) + "/" + name;
    if (::access(candidate.c_str(), X_OK) == 0) return candidate;
    begin = end + 1;
  }
  return name;
}

void prepend_library_path(Program& program, const std::string& library_directory) {
  Variables variables = inherited(environ), before;
  for (const auto& [name, value] : program.variables) variables[name] = value;
  before = variables;
  prepend_library_path(variables, program, library_directory);
  for (const auto& [name, value] : variables)
    if (before[name] != value) program.variables.emplace_back(name, value);
}

void prepend_python(Program& program, const std::string& library_directory) {
  if (!program.python) return;
  const std::string file = library_directory + "/../share/weft/python/weft_mpi/run.py";
  std::vector<std::string> words{"python3"};
  if (::access(file.c_str(), R_OK) == 0)
    words.push_back(file);
  else  // installed by pip
    words.insert(words.end(), {"-m", "weft_mpi.run"});
  program.argv.insert(program.argv.begin(), words.begin(), words.end());
  // Its output is to appear when it is written, as in a terminal.
  const auto is_set = [](const auto& variable) { return variable.first == "PYTHONUNBUFFERED"; };
  if (std::getenv("PYTHONUNBUFFERED") == nullptr &&
      std::none_of(program.variables.begin(), program.variables.end(), is_set))
    program.variables.emplace_back("PYTHONUNBUFFERED", "1");
  program.python = false;
}

std::string library_directory() {
  char path[PATH_MAX];
  const ssize_t length = ::readlink("/proc/self/exe", path, sizeof path - 1);
  if (length <= 0) return {};
  std::string directory(path, static_cast<size_t>(length));
  for (int level = 0; level < 2; ++level) directory.erase(std::min(directory.rfind('/'), directory.size()));
  directory += "/lib";
  return ::access((directory + "/" + kLibrary).c_str(), R_OK) == 0 ? directory : std::string();
}

Status check_folder(const std::string& library_directory) {
  if (library_directory.find_first_of(":;") == std::string::npos) return {};
  return Error(Errc::arg, "this installation cannot be used in its folder (" + library_directory +
                              "): ':' and ';' separate the folders of LD_LIBRARY_PATH, so no program would "
                              "find the library. Move it to another folder.");
}

std::vector<RankPlan> plan_ranks(const Options& options, const std::vector<Binding>& bindings,
                                 const std::string& job_id, const std::string& library_directory,
                                 char** environment) {
  const int ranks = options.ranks();
  const bool rotates = options.gpu_bind.kind == GpuBind::rotate;
  std::vector<RankPlan> plans;
  for (const Program& program : options.programs) {
    Variables variables = inherited(environment);
    if (const char* terminal = ::ttyname(STDERR_FILENO)) variables["MPIEXEC_TERMINAL"] = terminal;
    for (const auto& [name, value] : program.variables) variables[name] = value;
    const auto number = static_cast<int>(&program - options.programs.data());
    RankPlan plan{program.argv, {}, program.directory, {}, number, {}};
    if (!variables.contains("LD_PRELOAD"))  // which may translate between the binary interfaces
      plan.other_mpi =
          other_mpi_among(read_dynamic(locate_program(program, variables)).needed, library_directory);
    prepend_library_path(variables, program, library_directory);
    for (int i = 0; i < program.ranks; ++i) {
      const int rank = static_cast<int>(plans.size());
      set_rank_variables(variables, rank, ranks, job_id);
      Variables of_rank = variables;
      set_gpu_variables(of_rank, bindings[static_cast<size_t>(rank)], rotates);
      plan.environment.clear();
      for (const auto& [name, value] : of_rank) plan.environment.push_back(name + "=" + value);
      const Binding& binding = bindings[static_cast<size_t>(rank)];
      plan.cpus = binding.cpus;
      plan.gpus = binding.gpu_indices;
      if (rotates && plan.gpus.size() > 1) plan.gpus.resize(1);
      plan.visible_gpus = binding.gpus.size();
      plans.push_back(plan);
    }
  }
  return plans;
}

std::string unique_job_id() {
  unsigned long long number = 0;
  if (::getrandom(&number, sizeof number, 0) != sizeof number)
    number = static_cast<unsigned long long>(::time(nullptr));
  char text[64];
  snprintf(text, sizeof text, "weft-%d-%016llx", static_cast<int>(::getpid()), number);
  return text;
}

namespace {

/// Opens mpiexec's ends and the rank's ends, but for the rank's standard input.
Status open_channel(Channels& channels) {
  if (!open_pair(channels.output, channels.child_output) || !open_pair(channels.error, channels.child_error))
    return descriptor_error("pipe");
  int ends[2];
  if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0) return descriptor_error("socket");
  const int one = 1;  // which of a rank's processes sends
  if (::setsockopt(ends[0], SOL_SOCKET, SO_PASSCRED, &one, sizeof one) != 0)
    return descriptor_error("socket");
  channels.pmi = ends[0];
  channels.child_pmi = ends[1];
  return {};
}

}  // namespace

void close_child_ends(Channels& channels) {
  for (int* fd : {&channels.child_output, &channels.child_error, &channels.child_pmi}) {
    if (*fd >= 0) ::close(*fd);
    *fd = -1;
  }
}

Status add_debugger(std::vector<RankPlan>& plans, const Options& options) {
  const char* const path = std::getenv("PATH");
  for (const auto& [wanted, tool] :
       {std::pair(options.gdb, "gdb"), std::pair(options.xterm.has_value(), "xterm")})
    if (wanted && find_on_path(tool, path != nullptr ? path : "") == tool)
      return Error(Errc::arg, std::string(tool) + " is not on PATH (--" + tool + " needs it): install it");
  if (options.xterm && std::getenv("DISPLAY") == nullptr)
    return Error(Errc::arg, "--xterm needs an X display: set DISPLAY, or use --gdb alone");
  for (size_t rank = 0; rank < plans.size(); ++rank) {
    std::vector<std::string> words;
    const bool window = options.xterm &&
                        (options.xterm->empty() || std::find(options.xterm->begin(), options.xterm->end(),
                                                             static_cast<int>(rank)) != options.xterm->end());
    if (window) words = {"xterm", "-T", "rank " + std::to_string(rank), "-e"};
    if (options.gdb) words.insert(words.end(), {"gdb", "-q"});
    if (options.gdb && !window)
      words.insert(words.end(),
                   {"-batch", "-return-child-result", "-ex", "run", "-ex", "thread apply all -s backtrace"});
    if (options.gdb) words.emplace_back("--args");
    plans[rank].argv.insert(plans[rank].argv.begin(), words.begin(), words.end());
  }
  return {};
}

Result<std::vector<Channels>> open_channels(int ranks, int input_rank) {
  std::vector<Channels> all(static_cast<size_t>(ranks));
  const int null = ::open("/dev/null", O_RDONLY | O_CLOEXEC);
  if (null < 0) return descriptor_error("/dev/null");
  for (Channels& channels : all) {
    channels.child_input = &channels - all.data() == input_rank ? STDIN_FILENO : null;
    WEFT_TRY(open_channel(channels));
  }
  return all;
}

Result<std::vector<Channels>> open_later_channels(int ranks) {
  std::vector<Channels> all(static_cast<size_t>(ranks));
  for (Channels& channels : all) {
    Status opened = open_channel(channels);
    if (opened.ok()) continue;
    for (Channels& other : all) {
      close_child_ends(other);
      for (const int fd : {other.output, other.error, other.pmi})
        if (fd >= 0) ::close(fd);
    }
    return std::move(opened).error();
  }
  return all;
}

}  // namespace weft::mpiexec
