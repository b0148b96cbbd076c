// SPDX-License-Identifier: BSD-3-Clause
// Events: a registry of what the library reports while it runs, for MPI_T. An event is one declaration beside
// the code that raises it. Without a tool an event costs a load and a branch.
#pragma once
#include <atomic>
#include <cstdint>
#include <functional>
#include <initializer_list>
#include <string_view>
#include <vector>

namespace weft::counters {
class Counter;
}

namespace weft::events {

/// number: a signed 32-bit integer; amount: 64 bits without sign; counter: the address of a Counter; choice:
/// an index into Field::words.
enum class Type : uint8_t { number, amount, counter, choice };

/// One value of an event. `words` is read when a tool queries the event.
struct Field {
  const char* name;
  Type type;
  std::vector<const char*> (*words)() = nullptr;
};

/// The object that an event belongs to, which a tool selects. `communicator`: the id of its user channel.
enum class Binding : uint8_t { none, communicator };

/// Static storage only.
class Event {
 public:
  /// `name`: "p2p.message_matched"; `help`: a noun phrase.
  Event(const char* name, const char* help, std::initializer_list<Field> fields,
        Binding binding = Binding::none);
  Event(const Event&) = delete;
  Event& operator=(const Event&) = delete;

  /// Returns whether a tool waits for the event. Any thread.
  [[nodiscard]] bool wanted() const { return wanted_.load(std::memory_order_relaxed); }
  /// Passes the event to the tool, in this thread. Precondition: wanted(); one value per field. `object`: as
  /// the binding says.
  void raise(std::initializer_list<uint64_t> values, uint64_t object = 0) const;

  [[nodiscard]] const char* name() const { return name_; }
  [[nodiscard]] const char* help() const { return help_; }
  [[nodiscard]] const std::vector<Field>& fields() const { return fields_; }
  [[nodiscard]] Binding binding() const { return binding_; }

  // For api/ alone.
  void set_wanted(bool wanted);
  // For the code that raises the event, where even a branch costs too much: `hook` is called when wanted()
  // has changed, under the instance lock.
  void set_hook(std::function<void()> hook) { hook_ = std::move(hook); }

 private:
  const char* name_;
  const char* help_;
  std::vector<Field> fields_;
  Binding binding_;
  std::atomic<bool> wanted_{false};
  std::function<void()> hook_;
};

/// All events in the order of their names.
[[nodiscard]] std::vector<Event*> all();

using Sink = void (*)(const Event& event, std::initializer_list<uint64_t> values, uint64_t object);
/// Sets the function that receives raised events; called before the first set_wanted(true).
void set_sink(Sink sink);

}  // namespace weft::events
