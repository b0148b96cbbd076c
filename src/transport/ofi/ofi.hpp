// SPDX-License-Identifier: BSD-3-Clause
// libfabric transport. Messages are tagged ones of one endpoint, received into a pool; the tag names the
// sender. Bulk data is read from the peer's memory (RMA). A peer's end is seen by reading a word of its
// memory now and then. Threading: as transport.hpp; progress happens in poll() and close() only, never within
// a delivery.
#pragma once
#include <deque>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/slab.hpp"
#include "transport/network.hpp"
#include "transport/ofi/contact.hpp"
#include "transport/ofi/endpoint.hpp"
#include "transport/ofi/messages.hpp"
#include "transport/ofi/registration.hpp"

namespace weft::transport::ofi {

/// The setting net.ofi_reads.
[[nodiscard]] size_t most_reads();

class Ofi final : public Network {
 public:
  /// Opens the library and an endpoint. Errc::unsupported, or why it cannot.
  [[nodiscard]] static Result<std::unique_ptr<Network>> open(const launch::Job& job);
  ~Ofi() override { close(); }

  [[nodiscard]] const char* name() const override { return "ofi"; }
  [[nodiscard]] std::string description() const override;
  [[nodiscard]] std::string address() const override { return card_; }
  void start(Directory& directory) override { directory_ = &directory; }

  [[nodiscard]] size_t max_message(Peer) override { return sends_.bytes() - kPrefix; }
  [[nodiscard]] std::byte* reserve(Peer peer, size_t size) override;
  void commit(Peer peer, size_t size) override;
  size_t poll(Receiver& receiver, size_t limit) override;

  [[nodiscard]] bool takes(const device::Memory& memory) const override;
  [[nodiscard]] Result<Exposed> expose(Peer peer, const Buffer& buffer, std::byte* key) override;
  void conceal(uint64_t id) override;
  void fetch(Peer peer, const Buffer& local, std::span<const std::byte> key, uint64_t offset,
             Completion& done) override;
  void watch(Peer peer) override { contact(peer); }
  void leave() override;
  [[nodiscard]] bool idle() const override {
    return sends_.in_use() == out_to_lost_ + (reserved_ != nullptr ? 1 : 0);
  }
  void close() override;

 private:
  struct Fetch {
    Completion* done;  // null: fired already, because the peer is lost
    Peer peer;
    Region* region = nullptr;  // of the local buffer, where it must be registered
    std::byte* to;
    uint64_t from, key;  // of the first byte
    size_t length;
    size_t begun = 0;       // bytes that reads were begun for
    uint32_t reads = 0;     // that have not ended
    bool doubtful = false;  // failed: its end waits for the peer's pulse
    Status outcome;
  };
  struct Read : Operation {
    Fetch* fetch;
  };
  struct Ended {  // to be fired by poll()
    Completion* done;
    Status outcome;
  };

  /// Before each message: its number, for large ones complete later than small ones that follow them.
  static constexpr size_t kPrefix = 8;

  Ofi(const launch::Job& job, std::unique_ptr<Endpoint> endpoint);
  Status prepare();

  // ofi.cpp
  Contact& contact(Peer peer);
  [[nodiscard]] bool connect(Contact& contact);
  [[nodiscard]] Status look_up(Contact& contact);
  [[nodiscard]] bool try_send(Contact& contact, Message& message);
  void flush();
  void post(Message& message);
  size_t drain_completions(Receiver* receiver, size_t limit);
  size_t complete(const abi::CqEntry& entry, Receiver* receiver);
  size_t received(const abi::CqEntry& entry, Receiver& receiver);
  void take(Contact& from, const abi::CqEntry& entry, Receiver& receiver);
  void queue(Contact& to, Message& message, size_t size, uint64_t flags);
  void sent(Message& message);
  bool take_error();
  void lose(Contact& contact, Error why);
  void report(Receiver& receiver);

  // bulk.cpp
  void start_reads();
  bool start_read(Fetch& fetch);
  void finish_read(Read* read, Status outcome);
  void finish_fetch(Fetch* fetch);
  void end_fetch(Fetch* fetch);
  void abandon_fetches(const Contact& contact, const Error& why);
  void settle_doubt(Contact& contact);
  void replace_reads(const Contact& contact);

  // pulse.cpp
  void watch_over();
  void feel_pulse(Contact& contact);
  [[nodiscard]] bool doubt(Contact& contact);
  void knock(Contact& contact);
  bool witnessed(Contact& contact);
  void pulse_felt(Contact& contact);
  void pulse_failed(Contact& contact, std::string why);

  const Peer self_;
  const uint64_t job_bits_;
  const uint64_t place_;
  std::string provider_, card_;
  bool over_tcp_ = false;   ///< peers listen at a TCP address
  bool in_memory_ = false;  // peers share memory with us, which does not tell of their ends
  bool loopback_ = false;
  Directory* directory_ = nullptr;
  std::unique_ptr<Endpoint> endpoint_;
  Registrations exposed_, local_;
  Messages sends_, receives_;
  Message* reserved_ = nullptr;
  size_t out_to_lost_ = 0;          // messages to lost peers that libfabric still has: nobody waits for them
  std::vector<Message*> unposted_;  // libfabric had no room for these receives
  std::vector<abi::CqEntry> stored_;  // messages that came while leave() flushed
  std::vector<std::unique_ptr<Contact>> contacts_;
  std::vector<Contact*> known_;    // those that exist, in the order of their coming
  std::vector<Contact*> backlog_;  // with unsent messages
  std::vector<std::pair<Peer, Error>> losses_;
  std::vector<Ended> ended_, reported_;

  std::deque<Read> reads_;  // as many as may be under way, and those that never end
  std::vector<Read*> free_reads_;
  std::deque<Fetch*> waiting_;  // of which parts are still to be begun
  std::vector<Fetch*> fetches_;
  Slab<Fetch> fetch_slab_{1 << 18};
  size_t piece_;  // bytes that one read may fetch

  struct Pulse {
    uint64_t own = 0, landing = 0;
  };
  std::unique_ptr<Pulse> pulse_;
  Object<abi::Mr> pulse_region_;
  std::vector<Contact*> suspects_;
  uint32_t polls_ = 0;
  int64_t next_beat_ = 0;  // milliseconds
  size_t turn_ = 0;        // in known_
};

/// For table.cpp.
[[nodiscard]] inline Result<std::unique_ptr<Network>> open(const launch::Job& job) { return Ofi::open(job); }

}  // namespace weft::transport::ofi
