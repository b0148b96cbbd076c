// SPDX-License-Identifier: BSD-3-Clause
// A debugger in small: attaches to nothing, reads a stopped or waiting process by process_vm_readv, loads the
// library that MPIR_dll_name names and prints all queues. usage: msgq PID LIBMPI_ABI [damaged]
#include <dlfcn.h>
#include <sys/uio.h>
#include <unistd.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <string>
#include <vector>

#include "debugger/mqs.h"

namespace {

pid_t target;
std::string library;  // of the process
bool damaged = false;
mqs_image_info* image_info;
mqs_process_info* process_info;
mqs_image* const kImage = reinterpret_cast<mqs_image*>(1);
mqs_process* const kProcess = reinterpret_cast<mqs_process*>(2);

uint64_t base_of(pid_t pid, const std::string& path) {
  std::ifstream maps("/proc/" + std::to_string(pid) + "/maps");
  for (std::string line; std::getline(maps, line);)
    if (line.ends_with(path) && line.find(" 00000000 ") != std::string::npos)
      return std::stoull(line, nullptr, 16);
  std::fprintf(stderr, "%s is not mapped by %d\n", path.c_str(), pid);
  std::exit(1);
}

int find_symbol(mqs_image*, char* name, mqs_taddr_t* address) {
  void* const own = ::dlopen(library.c_str(), RTLD_NOW);
  void* const symbol = own != nullptr ? ::dlsym(own, name) : nullptr;
  if (symbol == nullptr) return mqs_no_information;
  *address = reinterpret_cast<uintptr_t>(symbol) - base_of(::getpid(), library) + base_of(target, library);
  return mqs_ok;
}

int fetch(mqs_process*, mqs_taddr_t address, int bytes, void* to) {
  iovec here{to, static_cast<size_t>(bytes)},
      there{reinterpret_cast<void*>(address), static_cast<size_t>(bytes)};
  if (::process_vm_readv(target, &here, 1, &there, 1, 0) != bytes) return mqs_no_information;
  // Every pointer and count beyond the list of names is wrong, one after the other.
  static uint64_t reads = 0;
  if (damaged && bytes == 8 && ++reads % 7 == 0) std::memset(to, static_cast<int>(reads), 8);
  return mqs_ok;
}

template <class F>
F symbol(void* from, const char* name) {
  void* const found = ::dlsym(from, name);
  if (found == nullptr) std::printf("%s has no %s\n", library.c_str(), name), std::exit(1);
  return reinterpret_cast<F>(found);
}
#define MQS(name) const auto name = symbol<decltype(&::name)>(dll, #name)

}  // namespace

int main(int argc, char** argv) {
  if (argc < 3) return 2;
  target = std::atoi(argv[1]);
  library = argv[2];
  damaged = argc > 3;
  char name[] = "MPIR_dll_name";
  mqs_taddr_t address = 0;
  char path[4096] = {};
  if (find_symbol(kImage, name, &address) != mqs_ok || fetch(kProcess, address, sizeof path, path) != mqs_ok)
    return 1;
  void* const dll = ::dlopen(path, RTLD_NOW | RTLD_LOCAL);
  if (dll == nullptr) return std::fprintf(stderr, "%s\n", ::dlerror()), 1;
  MQS(mqs_setup_basic_callbacks);
  MQS(mqs_version_compatibility);
  MQS(mqs_version_string);
  MQS(mqs_dll_taddr_width);
  MQS(mqs_dll_error_string);
  MQS(mqs_setup_image);
  MQS(mqs_image_has_queues);
  MQS(mqs_destroy_image_info);
  MQS(mqs_setup_process);
  MQS(mqs_process_has_queues);
  MQS(mqs_destroy_process_info);
  MQS(mqs_update_communicator_list);
  MQS(mqs_setup_communicator_iterator);
  MQS(mqs_get_communicator);
  MQS(mqs_get_comm_group);
  MQS(mqs_next_communicator);
  MQS(mqs_setup_operation_iterator);
  MQS(mqs_next_operation);

  const mqs_basic_callbacks basic{
      std::malloc,
      std::free,
      [](const char* text) { std::puts(text); },
      [](int) { return const_cast<char*>(""); },
      [](mqs_image*, mqs_image_info* info) { image_info = info; },
      [](mqs_image*) { return image_info; },
      [](mqs_process*, mqs_process_info* info) { process_info = info; },
      [](mqs_process*) { return process_info; },
  };
  const mqs_image_callbacks image{nullptr, nullptr, find_symbol, nullptr, nullptr, nullptr};
  const mqs_process_callbacks process{nullptr, [](mqs_process*) { return kImage; }, fetch, nullptr};
  const char* text = nullptr;
  mqs_setup_basic_callbacks(&basic);
  std::printf("%s, interface %d, %d bytes\n", mqs_version_string(), mqs_version_compatibility(),
              mqs_dll_taddr_width());
  if (mqs_setup_image(kImage, &image) != mqs_ok || mqs_image_has_queues(kImage, &text) != mqs_ok) return 1;
  if (const int code = mqs_setup_process(kProcess, &process); code != mqs_ok)
    return std::printf("%s\n", mqs_dll_error_string(code)), 0;
  char* message = nullptr;
  if (mqs_process_has_queues(kProcess, &message) != mqs_ok) return 1;
  if (const int code = mqs_update_communicator_list(kProcess); code != mqs_ok)
    std::printf("%s\n", mqs_dll_error_string(code));
  static const char* const kinds[] = {"send", "receive", "unexpected"};
  for (int more = mqs_setup_communicator_iterator(kProcess); more == mqs_ok;
       more = mqs_next_communicator(kProcess)) {
    mqs_communicator comm{};
    if (mqs_get_communicator(kProcess, &comm) != mqs_ok) return 1;
    std::vector<int> ranks(static_cast<size_t>(comm.size));
    if (mqs_get_comm_group(kProcess, ranks.data()) != mqs_ok) return 1;
    std::printf("communicator %s rank %ld size %ld:", comm.name, comm.local_rank, comm.size);
    for (size_t i = 0; i < ranks.size() && i < 16; ++i) std::printf(" %d", ranks[i]);
    std::printf("\n");
    for (int what = mqs_pending_sends; what <= mqs_unexpected_messages; ++what) {
      mqs_setup_operation_iterator(kProcess, what);
      for (mqs_pending_operation one{}; mqs_next_operation(kProcess, &one) == mqs_ok;)
        std::printf("%s %s rank %ld global %ld tag %ld%s length %ld actual %ld %ld %ld (%s)\n", comm.name,
                    kinds[what], one.desired_local_rank, one.desired_global_rank, one.desired_tag,
                    one.tag_wild ? " any" : "", one.desired_length, one.actual_local_rank, one.actual_tag,
                    one.actual_length, one.extra_text[0]);
    }
  }
  mqs_destroy_process_info(process_info);
  mqs_destroy_image_info(image_info);
  return 0;
}
