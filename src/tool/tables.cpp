// SPDX-License-Identifier: BSD-3-Clause
// Tables of the tool interface: variables and events in the order of their names, categories by the first
// part of the names.
#include <algorithm>
#include <map>
#include <string_view>

#include "api/handles.hpp"
#include "coll/schedule/hints.hpp"
#include "p2p/engine/engine.hpp"
#include "p2p/traffic.hpp"
#include "tool/tool.hpp"

namespace weft::tool {

using api::g_instance, api::to_communicator, api::to_file, api::to_window;

namespace {

// Values that the library does not count for tools alone, read from its state: they cost nothing. An object
// exists: bound().
void read_unexpected(const Binding& binding, uint64_t* value) {
  *value = 0;
  p2p::engine_of(*g_instance).delivery.unexpected().for_each(binding.id, [&](const p2p::match::MatchEntry&) {
    return ++*value != 0;
  });
}

void read_posted(const Binding& binding, uint64_t* value) {
  *value = 0;
  p2p::engine_of(*g_instance).delivery.posted().for_each([&](const p2p::match::Node& node) {
    *value += node.key.context == binding.id;
  });
}

void read_pending(const Binding& binding, uint64_t* value) {
  *value = 0;
  for (const rma::Peer& peer : to_window(static_cast<MPI_Win>(binding.handle))->peers)
    *value += peer.pending + (peer.posted.in_flight() ? 1 : 0);
}

void read_queued(const Binding& binding, uint64_t* value) {
  *value = to_file(static_cast<MPI_File>(binding.handle))->queued_accesses();
}

const core::Communicator& communicator_of(const Binding& binding) {
  return *to_communicator(static_cast<MPI_Comm>(binding.handle));
}

/// Processes with which the program communicates: those of the remote group of an intercommunicator.
int peers_of(const Binding& binding) { return communicator_of(binding).remote_size(); }

/// Reads the traffic with each of these processes.
template <uint64_t p2p::Traffic::*member>
void read_peers(const Binding& binding, uint64_t* values) {
  const core::Communicator& comm = communicator_of(binding);
  for (int rank = 0; rank < comm.remote_size(); ++rank)
    values[rank] = p2p::traffic_with(*g_instance, comm.process(rank)).*member;
}

template <uint64_t io::File::Accesses::*member>
void read_file(const Binding& binding, uint64_t* value) {
  *value = to_file(static_cast<MPI_File>(binding.handle))->accesses().*member;
}

/// Reads a value of the engine; 0 before the first initialisation of MPI.
template <auto read>
void read_engine(const Binding&, uint64_t* value) {
  *value = g_instance != nullptr && g_instance->messaging != nullptr ? read(*g_instance) : 0;
}
template <uint64_t p2p::Traffic::*member>
constexpr auto kAll =
    read_engine<[](const core::Instance& instance) { return p2p::traffic(instance).*member; }>;
template <uint64_t p2p::Traffic::*member, p2p::Distance distance>
constexpr auto kWithin =
    read_engine<[](const core::Instance& instance) { return p2p::traffic(instance, distance).*member; }>;
template <uint64_t p2p::Traffic::*member>
constexpr auto kFromHost =
    read_engine<[](const core::Instance& instance) { return p2p::traffic_from_host(instance).*member; }>;

constexpr int kCount = MPI_T_PVAR_CLASS_COUNTER, kBytes = MPI_T_PVAR_CLASS_AGGREGATE;
constexpr int kLevel = MPI_T_PVAR_CLASS_LEVEL;
using p2p::Distance;
using p2p::Traffic;

const PerformanceVariable kComputed[] = {
    {"net.received_bytes", "Bytes of messages that have arrived from processes of other hosts", kBytes,
     nullptr, kWithin<&Traffic::received_bytes, Distance::network>},
    {"net.received_messages", "Messages that have arrived from processes of other hosts", kCount, nullptr,
     kWithin<&Traffic::received, Distance::network>},
    {"net.sent_bytes", "Bytes of messages to processes of other hosts", kBytes, nullptr,
     kWithin<&Traffic::sent_bytes, Distance::network>},
    {"net.sent_messages", "Messages to processes of other hosts", kCount, nullptr,
     kWithin<&Traffic::sent, Distance::network>},
    {"p2p.host_sent_bytes", "Bytes of messages to other processes sent from host memory", kBytes, nullptr,
     kFromHost<&Traffic::sent_bytes>},
    {"p2p.host_sent_messages", "Messages to other processes sent from host memory", kCount, nullptr,
     kFromHost<&Traffic::sent>},
    {"p2p.posted_matches", "Messages that have arrived after their receive was posted", kCount, nullptr,
     read_engine<p2p::matched_on_arrival>},
    {"p2p.posted_receives", "Receives that wait for a message", kLevel, nullptr,
     read_engine<[](const core::Instance& instance) -> uint64_t {
       return p2p::engine_of(instance).delivery.posted().size();
     }>},
    {"p2p.received_bytes", "Bytes of messages that have arrived", kBytes, nullptr,
     kAll<&Traffic::received_bytes>},
    {"p2p.received_messages", "Messages that have arrived", kCount, nullptr, kAll<&Traffic::received>},
    {"p2p.self_bytes", "Bytes of messages of this process to itself", kBytes, nullptr,
     kWithin<&Traffic::sent_bytes, Distance::self>},
    {"p2p.self_messages", "Messages of this process to itself", kCount, nullptr,
     kWithin<&Traffic::sent, Distance::self>},
    {"p2p.sent_bytes", "Bytes of messages sent", kBytes, nullptr, kAll<&Traffic::sent_bytes>},
    {"p2p.sent_messages", "Messages sent", kCount, nullptr, kAll<&Traffic::sent>},
    {"shm.received_bytes", "Bytes of messages that have arrived from other processes of this host", kBytes,
     nullptr, kWithin<&Traffic::received_bytes, Distance::host>},
    {"shm.received_messages", "Messages that have arrived from other processes of this host", kCount, nullptr,
     kWithin<&Traffic::received, Distance::host>},
    {"shm.sent_bytes", "Bytes of messages to other processes of this host", kBytes, nullptr,
     kWithin<&Traffic::sent_bytes, Distance::host>},
    {"shm.sent_messages", "Messages to other processes of this host", kCount, nullptr,
     kWithin<&Traffic::sent, Distance::host>},
    // Of an object.
    {"communicator.peer_bytes_received", "Bytes of messages that have arrived from each process so far",
     kBytes, nullptr, read_peers<&Traffic::received_bytes>, MPI_T_BIND_MPI_COMM, true, peers_of},
    {"communicator.peer_bytes_sent", "Bytes of messages sent to each process so far", kBytes, nullptr,
     read_peers<&Traffic::sent_bytes>, MPI_T_BIND_MPI_COMM, true, peers_of},
    {"communicator.peer_messages_received", "Messages that have arrived from each process so far", kCount,
     nullptr, read_peers<&Traffic::received>, MPI_T_BIND_MPI_COMM, true, peers_of},
    {"communicator.peer_messages_sent", "Messages sent to each process so far", kCount, nullptr,
     read_peers<&Traffic::sent>, MPI_T_BIND_MPI_COMM, true, peers_of},
    {"communicator.posted_receives", "Receives of the communicator that wait for a message", kLevel, nullptr,
     read_posted, MPI_T_BIND_MPI_COMM},
    {"communicator.unexpected_messages", "Messages of the communicator that wait for their receive", kLevel,
     nullptr, read_unexpected, MPI_T_BIND_MPI_COMM},
    {"file.queued_accesses", "Collective accesses to the file that have not completed", kLevel, nullptr,
     read_queued, MPI_T_BIND_MPI_FILE},
    {"file.read_bytes", "Bytes asked of the file by reads so far", kBytes, nullptr,
     read_file<&io::File::Accesses::read_bytes>, MPI_T_BIND_MPI_FILE},
    {"file.reads", "Accesses that have read the file", kCount, nullptr, read_file<&io::File::Accesses::reads>,
     MPI_T_BIND_MPI_FILE},
    {"file.writes", "Accesses that have written the file", kCount, nullptr,
     read_file<&io::File::Accesses::writes>, MPI_T_BIND_MPI_FILE},
    {"file.written_bytes", "Bytes of accesses that have written the file", kBytes, nullptr,
     read_file<&io::File::Accesses::written_bytes>, MPI_T_BIND_MPI_FILE},
    {"window.pending_operations", "Operations on the window that are not complete at their targets", kLevel,
     nullptr, read_pending, MPI_T_BIND_MPI_WIN},
};

int class_of(const counters::Counter& counter) {
  if (counter.kind() == counters::Kind::level) return MPI_T_PVAR_CLASS_LEVEL;
  if (counter.kind() == counters::Kind::high_water) return MPI_T_PVAR_CLASS_HIGHWATERMARK;
  if (counter.unit() == counters::Unit::bytes) return MPI_T_PVAR_CLASS_AGGREGATE;
  return counter.unit() == counters::Unit::nanoseconds ? MPI_T_PVAR_CLASS_TIMER : MPI_T_PVAR_CLASS_COUNTER;
}

struct CategoryHelp {
  std::string_view name;
  const char* help;
};
constexpr CategoryHelp kCategoryHelp[] = {
    {"am", "Active messages"},
    {"coll", "Collectives"},
    {"communicator", "Single communicators"},
    {"core", "Processes and slow paths"},
    {"datatype", "Datatypes"},
    {"errors", "Errors and crashes"},
    {"file", "Single files"},
    {"ft", "Fault tolerance"},
    {"general", "Logging, checks, profile, and the choice of libraries"},
    {"gpu", "GPU memory, kernels and mappings of peers' GPU memory"},
    {"io", "Files"},
    {"jobs", "Connections to other jobs"},
    {"launch", "Start-up"},
    {"memory", "Kinds of memory"},
    {"net", "Networks"},
    {"p2p", "Messages and matching"},
    {"progress", "Waiting and the progress thread"},
    {"rma", "Access to memory of other processes"},
    {"shm", "Shared memory inside a host"},
    {"stream", "Operations in GPU streams"},
    {"topo", "Topologies"},
    {"trace", "Profilers"},
    {"window", "Windows"},
};

/// "p2p" of "p2p.credit".
std::string category_of(std::string_view name) {
  const size_t dot = name.find('.');
  return dot == std::string_view::npos ? "general" : std::string(name.substr(0, dot));
}

std::string help_of(const std::string& category) {
  for (const CategoryHelp& known : kCategoryHelp)
    if (known.name == category) return known.help;
  return "Variables whose names begin with " + category;
}

}  // namespace

const Tables& tables() {
  static const auto& all = *new Tables;  // never destroyed: static destructors may call MPI_T
  return all;
}

int index_of(const counters::Counter* counter) {
  const auto& pvars = tables().pvars;
  const auto at = std::find_if(pvars.begin(), pvars.end(),
                               [&](const PerformanceVariable& known) { return known.counter == counter; });
  return at == pvars.end() ? -1 : static_cast<int>(at - pvars.begin());
}

Tables::Tables() {
  add_cvars();
  add_pvars();
  for (events::Event* event : events::all()) {
    std::vector<std::string> fields;
    for (const events::Field& field : event->fields()) fields.emplace_back(field.name);
    events.push_back({event->name(), event, add_enum(event->name(), std::move(fields))});
  }
  add_categories();
}

MPI_T_enum_t* Tables::add_enum(std::string name, std::vector<std::string> items) {
  enums.push_back({std::move(name), std::move(items)});
  return &enums.back();
}

void Tables::add_cvars() {
  const auto hintable = coll::hintable();
  for (config::Setting* setting : config::all()) {
    const auto* choice = dynamic_cast<const config::Choice*>(setting);
    MPI_T_enum_t* words = choice == nullptr ? nullptr : add_enum(setting->name, choice->words());
    cvars.push_back({setting->name, setting, words, MPI_T_BIND_NO_OBJECT});
    if (std::find(hintable.begin(), hintable.end(), setting) != hintable.end())
      cvars.push_back({std::string("communicator.") + setting->name, setting, words, MPI_T_BIND_MPI_COMM});
  }
  std::sort(cvars.begin(), cvars.end(), [](const auto& a, const auto& b) { return a.name < b.name; });
}

void Tables::add_pvars() {
  pvars.assign(std::begin(kComputed), std::end(kComputed));
  for (const counters::Counter* counter : counters::all())
    pvars.push_back({counter->name(), counter->help(), class_of(*counter), counter, nullptr,
                     MPI_T_BIND_NO_OBJECT, counter->kind() != counters::Kind::total});
  std::sort(pvars.begin(), pvars.end(), [](const auto& a, const auto& b) { return a.name < b.name; });
}

// The first category, "weft", contains all others.
void Tables::add_categories() {
  std::map<std::string, Category> found;
  const auto collect = [&](const auto& table, std::vector<int> Category::*members) {
    for (size_t i = 0; i < table.size(); ++i)
      (found[category_of(table[i].name)].*members).push_back(static_cast<int>(i));
  };
  collect(cvars, &Category::cvars);
  collect(pvars, &Category::pvars);
  collect(events, &Category::events);
  categories.push_back({"weft", "All variables and events of the library", {}, {}, {}, {}});
  for (auto& [name, category] : found) {
    category.name = name;
    category.help = help_of(name);
    categories.front().categories.push_back(static_cast<int>(categories.size()));
    categories.push_back(std::move(category));
  }
}

}  // namespace weft::tool
