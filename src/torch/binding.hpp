// SPDX-License-Identifier: BSD-3-Clause
// The types of the module for Python: Queue, and Issue, a method of a process group.
#pragma once
#include <vector>

#include "python/interface.hpp"
#include "torch/queue.hpp"

namespace weft::torch {

using python::data_of;
using python::dealloc;
using python::kGreater;
using python::make_type;
using python::none;
using python::Ref;
using python::WithoutLock;

/// Gives up what operations refer to.
void release(const std::vector<Watched>& done);

/// A queue and the operation that Python has begun and not ended, under the lock of the queue.
struct QueueObject {
  ~QueueObject() {  // after an error of CUDA no operation is known to be complete
    std::vector<Watched> left;
    queue.forget(left);
    release(left);
  }
  Queue queue;
  Queue::Operation operation{};  ///< between begin() and end() of Python
  unsigned long begun_by = 0;    ///< the thread that holds the queue's lock since its begin(); 0: none
};

/// References of a watched operation, which retire() gives up if the queue watches it. Taken before the
/// operation ends, since another thread may retire it at once.
class Held {
 public:
  Held(PyObject* name, PyObject* keep) : name_(Ref::borrowed(name)), keep_(Ref::borrowed(keep)) {}
  [[nodiscard]] Watched watched(double begin, double seconds) const {
    return {nullptr, begin + seconds, begin, name_.get(), keep_.get()};
  }
  /// The queue watches the operation.
  void hand_over() {
    static_cast<void>(name_.release());
    static_cast<void>(keep_.release());
  }

 private:
  Ref name_, keep_;
};

/// Gives up what the operations refer to that the watching thread, without Python's lock, has found complete.
void release_complete(Queue& queue);

/// Returns the queue of an object of the type Queue.
QueueObject& queue_of(PyObject* object);
/// Returns a new reference to an object that owns a reference to the event.
PyObject* ticket_of(Event event);

/// Returns the new types; null after an error.
PyObject* make_queue_type();
PyObject* make_issue_type();

}  // namespace weft::torch
