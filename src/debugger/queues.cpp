// SPDX-License-Identifier: BSD-3-Clause
// The functions that a debugger calls to read the message queues of a stopped process. No exception leaves
// them.
#include <algorithm>
#include <cstdio>
#include <cstring>
#include <memory>
#include <new>
#include <string>
#include <vector>

#include "debugger/mqs.h"
#include "debugger/target.hpp"

namespace {

using weft::debugger::Target;
using weft::debugger::Unreadable;

constexpr int kNoLayout = mqs_first_user_code, kUnreadable = mqs_first_user_code + 1;
constexpr mqs_tword_t kNoProcess = MQS_INVALID_PROCESS;
constexpr int kAny = INT32_MIN, kAnySource = -1, kAnyTag = -2;  // match::kAny, and the ABI's values
constexpr uint8_t kSend = 0;                                    // Request::Kind
constexpr uint8_t kDone = 8;                                    // Transfer::State
constexpr int kWaitSend = 1;                                    // wait_table::What

mqs_basic_callbacks basic;

struct Communicator {
  mqs_communicator shown;
  uint64_t id;
  std::vector<uint32_t> group, peers;  ///< of the program's ranks; of rank arguments
};

}  // namespace

struct mqs_image_info_ {
  mqs_image_callbacks callbacks;
};

struct mqs_process_info_ {
  explicit mqs_process_info_(Target memory) : target(std::move(memory)) {}
  Target target;
  std::vector<Communicator> communicators;
  size_t communicator = 0, operation = 0;
  std::vector<mqs_pending_operation> operations;
};

namespace {

mqs_process_info& info_of(mqs_process* process) { return *basic.mqs_get_process_info_fp(process); }

/// Address of the list of names; 0: the image has none.
mqs_taddr_t layout_of(mqs_image* image) {
  char name[] = "MPIR_weft_layout";
  mqs_taddr_t address = 0;
  const auto* info = basic.mqs_get_image_info_fp(image);
  return info != nullptr && info->callbacks.mqs_find_symbol_fp(image, name, &address) == mqs_ok ? address : 0;
}

Communicator communicator_at(const Target& target, uint64_t address) {
  Communicator found{};
  found.id = target.word(address + target["communicator.id"]);
  found.group = target.processes(target.word(address + target["communicator.group"]));
  const uint64_t remote = target.word(address + target["communicator.remote_group"]);
  found.peers = remote != 0 ? target.processes(remote) : found.group;
  const auto self = std::find(found.group.begin(), found.group.end(), target["self"]);
  found.shown.unique_id = found.id;
  found.shown.local_rank = self == found.group.end() ? -1 : self - found.group.begin();
  found.shown.size = static_cast<mqs_tword_t>(found.group.size());
  std::string name = target.text(address + target["communicator.name"]);
  if (name.empty()) name = "communicator " + std::to_string(found.id);
  std::snprintf(found.shown.name, sizeof found.shown.name, "%s", name.c_str());
  return found;
}

mqs_tword_t global_rank(const Communicator& comm, int rank) {
  return rank >= 0 && static_cast<size_t>(rank) < comm.peers.size()
             ? static_cast<mqs_tword_t>(comm.peers[static_cast<size_t>(rank)])
             : kNoProcess;
}

mqs_pending_operation operation(const Communicator& comm, int rank, int tag, uint64_t bytes,
                                uint64_t buffer) {
  mqs_pending_operation found{};
  const bool any = rank == kAny || rank == kAnySource;
  found.status = mqs_st_pending;
  found.desired_local_rank = any ? kNoProcess : rank;
  found.desired_global_rank = any ? kNoProcess : global_rank(comm, rank);
  found.tag_wild = tag == kAny || tag == kAnyTag;
  found.desired_tag = found.tag_wild ? 0 : tag;
  found.desired_length = static_cast<mqs_tword_t>(bytes);
  found.buffer = buffer;
  found.actual_local_rank = found.actual_global_rank = kNoProcess;
  return found;
}

void name(mqs_pending_operation& found, const char* text) {
  std::snprintf(found.extra_text[0], sizeof found.extra_text[0], "%s", text);
}

/// Requests of sends, and blocking sends, which have no request: they are waits.
void list_sends(mqs_process_info& info, const Communicator& comm) {
  const Target& t = info.target;
  for (const uint64_t transfer : t.objects("transfers")) {
    const auto state = t.value<uint8_t>(transfer + t["transfer.state"]);
    if (t.value<uint8_t>(transfer + t["request.kind"]) != kSend || state == 0 || state == kDone ||
        t.word(transfer + t["transfer.context"]) != comm.id)
      continue;
    info.operations.push_back(operation(
        comm, t.value<int>(transfer + t["transfer.rank"]), t.value<int>(transfer + t["transfer.tag"]),
        t.word(transfer + t["transfer.bytes"]), t.word(transfer + t["transfer.address"])));
    name(info.operations.back(), "request of a send");
  }
  for (uint64_t i = 0; t["waits"] != 0 && i < t["wait.records"]; ++i) {
    const uint64_t wait = t["waits"] + i * t["wait.stride"];
    const std::string call = t.characters(wait + t["wait.call"], 48);
    if (t.word(wait + t["wait.seen"]) == 0 || t.value<int>(wait + t["wait.what"]) != kWaitSend ||
        call.starts_with("MPI_Wait") || t.word(wait + t["wait.context"]) != comm.id)
      continue;
    info.operations.push_back(operation(comm, t.value<int>(wait + t["wait.peer"]),
                                        t.value<int>(wait + t["wait.tag"]), t.word(wait + t["wait.bytes"]),
                                        0));
    name(info.operations.back(), call.c_str());
  }
}

void list_receives(mqs_process_info& info, const Communicator& comm) {
  const Target& t = info.target;
  for (const uint64_t node : t.nodes("posted")) {
    if (t.word(node + t["node.context"]) != comm.id) continue;
    const uint64_t transfer = node - t["transfer.node"];
    info.operations.push_back(
        operation(comm, t.value<int>(node + t["node.source"]), t.value<int>(node + t["node.tag"]),
                  t.word(transfer + t["transfer.bytes"]), t.word(transfer + t["transfer.address"])));
    name(info.operations.back(), "posted receive");
  }
}

void list_unexpected(mqs_process_info& info, const Communicator& comm) {
  const Target& t = info.target;
  for (const uint64_t node : t.nodes("unexpected")) {
    if (t.word(node + t["node.context"]) != comm.id) continue;
    const int source = t.value<int>(node + t["node.source"]), tag = t.value<int>(node + t["node.tag"]);
    const uint64_t bytes = t.word(node - t["message.node"] + t["message.bytes"]);
    mqs_pending_operation found = operation(comm, source, tag, bytes, 0);
    found.status = mqs_st_matched;
    found.system_buffer = 1;
    found.actual_local_rank = source;
    found.actual_global_rank = global_rank(comm, source);
    found.actual_tag = tag;
    found.actual_length = static_cast<mqs_tword_t>(bytes);
    name(found, "unexpected message");
    info.operations.push_back(found);
  }
}

/// Runs a function that reads the process; returns its code, or that of a failure.
template <class F>
int guarded(F&& function) {
  try {
    return function();
  } catch (const Unreadable&) {
    return kUnreadable;
  } catch (const std::exception&) {  // no memory, or a list without a name
    return kNoLayout;
  }
}

}  // namespace

extern "C" {

void mqs_setup_basic_callbacks(const mqs_basic_callbacks* callbacks) { basic = *callbacks; }
const char* mqs_version_string() { return "Weft"; }
int mqs_version_compatibility() { return MQS_INTERFACE_COMPATIBILITY; }
int mqs_dll_taddr_width() { return sizeof(mqs_taddr_t); }

const char* mqs_dll_error_string(int code) {
  if (code == kNoLayout) return "the process has not called MPI_Init, or uses another version of Weft";
  return code == kUnreadable ? "the memory of the process cannot be read" : "unknown error";
}

int mqs_setup_image(mqs_image* image, const mqs_image_callbacks* callbacks) {
  auto* const info = new (std::nothrow) mqs_image_info{*callbacks};
  if (info == nullptr) return mqs_no_information;
  basic.mqs_put_image_info_fp(image, info);
  return mqs_ok;
}

int mqs_image_has_queues(mqs_image* image, const char** message) {
  *message = nullptr;
  return layout_of(image) != 0 ? mqs_ok : mqs_no_information;
}

void mqs_destroy_image_info(mqs_image_info* info) { delete info; }

int mqs_setup_process(mqs_process* process, const mqs_process_callbacks* callbacks) {
  return guarded([&] {
    const auto fetch = callbacks->mqs_fetch_data_fp;
    auto read = [process, fetch](uint64_t address, size_t bytes, void* to) {
      return fetch(process, address, static_cast<int>(bytes), to) == mqs_ok;
    };
    auto info = std::make_unique<mqs_process_info>(Target(std::move(read)));
    const mqs_taddr_t layout = layout_of(callbacks->mqs_get_image_fp(process));
    if (layout == 0 || !info->target.load(layout)) return kNoLayout;
    basic.mqs_put_process_info_fp(process, info.release());
    return static_cast<int>(mqs_ok);
  });
}

int mqs_process_has_queues(mqs_process*, char** message) {
  *message = nullptr;
  return mqs_ok;
}

void mqs_destroy_process_info(mqs_process_info* info) { delete info; }

int mqs_update_communicator_list(mqs_process* process) {
  return guarded([&] {
    mqs_process_info& info = info_of(process);
    info.communicators.clear();
    for (const uint64_t address : info.target.objects("communicators"))
      info.communicators.push_back(communicator_at(info.target, address));
    return static_cast<int>(mqs_ok);
  });
}

int mqs_setup_communicator_iterator(mqs_process* process) {
  mqs_process_info& info = info_of(process);
  info.communicator = 0;
  return info.communicators.empty() ? mqs_end_of_list : mqs_ok;
}

int mqs_get_communicator(mqs_process* process, mqs_communicator* shown) {
  const mqs_process_info& info = info_of(process);
  if (info.communicator >= info.communicators.size()) return mqs_end_of_list;
  *shown = info.communicators[info.communicator].shown;
  return mqs_ok;
}

int mqs_get_comm_group(mqs_process* process, int* ranks) {
  const mqs_process_info& info = info_of(process);
  if (info.communicator >= info.communicators.size()) return mqs_end_of_list;
  const auto& group = info.communicators[info.communicator].group;
  std::copy(group.begin(), group.end(), ranks);
  return mqs_ok;
}

int mqs_next_communicator(mqs_process* process) {
  mqs_process_info& info = info_of(process);
  if (info.communicator < info.communicators.size()) ++info.communicator;
  return info.communicator < info.communicators.size() ? mqs_ok : mqs_end_of_list;
}

int mqs_setup_operation_iterator(mqs_process* process, int what) {
  return guarded([&] {
    mqs_process_info& info = info_of(process);
    info.operations.clear();
    info.operation = 0;
    if (info.communicator >= info.communicators.size()) return static_cast<int>(mqs_end_of_list);
    const Communicator& comm = info.communicators[info.communicator];
    if (what == mqs_pending_sends) list_sends(info, comm);
    if (what == mqs_pending_receives) list_receives(info, comm);
    if (what == mqs_unexpected_messages) list_unexpected(info, comm);
    return static_cast<int>(info.operations.empty() ? mqs_end_of_list : mqs_ok);
  });
}

int mqs_next_operation(mqs_process* process, mqs_pending_operation* shown) {
  mqs_process_info& info = info_of(process);
  if (info.operation >= info.operations.size()) return mqs_end_of_list;
  *shown = info.operations[info.operation++];
  return mqs_ok;
}

}  // extern "C"
