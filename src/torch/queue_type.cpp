// SPDX-License-Identifier: BSD-3-Clause
// The type Queue for Python (cli/weft_mpi/torch/streams.py).
#include <cstdlib>
#include <string>

#include "torch/binding.hpp"

namespace weft::torch {
namespace {

constexpr char kTicket[] = "weft.torch.event";

void* pointer(long long value) { return reinterpret_cast<void*>(value); }

/// Sets an exception for an error of CUDA. Returns null.
PyObject* fail(const Outcome& outcome) {
  return PyErr_Format(PyExc_RuntimeError, "weft: an operation in a stream: error %d of CUDA", outcome.cuda);
}

Event* event_of(PyObject* ticket) { return static_cast<Event*>(PyCapsule_GetPointer(ticket, kTicket)); }

/// Queue(functions, comm, own): addresses in the order of weft_torch_functions(), a handle, a stream.
PyObject* create(PyObject* type, PyObject* arguments, PyObject* /*keywords*/) {
  PyObject* addresses = nullptr;
  long long comm = 0, own = 0;
  if (PyArg_ParseTuple(arguments, "OLL", &addresses, &comm, &own) == 0) return nullptr;
  Functions functions{};
  Py_ssize_t i = 0;
#define WEFT_X(name, parameters)                                                                            \
  functions.name = reinterpret_cast<int(*) parameters>(PyLong_AsLongLong(PyTuple_GetItem(addresses, i++))); \
  if (PyErr_Occurred() != nullptr) return nullptr;
  WEFT_TORCH_FUNCTIONS(WEFT_X)
#undef WEFT_X
  PyObject* const self = PyType_GenericAlloc(type, 0);
  if (self != nullptr) data_of<QueueObject>(self) = new QueueObject{{functions, pointer(comm), pointer(own)}};
  return self;
}

/// Reads one call: (number of the function, arguments up to the communicator). Returns false after an error.
bool read(PyObject* object, Call& call) {
  using enum Call::Function;
  int function = 0;
  PyObject* arguments = nullptr;
  long long send = 0, recv = 0, count = 0, type = 0, other_count = 0, other_type = 0, op = 0;
  int root = 0;
  if (PyArg_ParseTuple(object, "iO", &function, &arguments) == 0) return false;
  call.function = static_cast<Call::Function>(function);
  bool read = false;
  switch (call.function) {
    case bcast:
      read = PyArg_ParseTuple(arguments, "LLLi", &recv, &count, &type, &root) != 0;
      break;
    case allreduce:
    case reduce_scatter_block:
      read = PyArg_ParseTuple(arguments, "LLLLL", &send, &recv, &count, &type, &op) != 0;
      break;
    case allgather:
    case alltoall:
      read =
          PyArg_ParseTuple(arguments, "LLLLLL", &send, &count, &type, &recv, &other_count, &other_type) != 0;
      break;
  }
  call = {call.function, pointer(send), pointer(recv), count, pointer(type), pointer(op), root};
  return read;
}

/// begin(current, asynchronous, calls): the code of MPI, whether the stream is captured, and whether end()
/// must follow, in the same thread.
PyObject* begin(PyObject* self, PyObject* arguments) {
  QueueObject& object = queue_of(self);
  long long current = 0;
  int asynchronous = 0;
  PyObject* list = nullptr;
  if (PyArg_ParseTuple(arguments, "LpO", &current, &asynchronous, &list) == 0) return nullptr;
  const Py_ssize_t count = PyList_Size(list);
  if (count < 0) return nullptr;
  std::vector<Call> calls(static_cast<size_t>(count));
  for (Py_ssize_t i = 0; i < count; ++i)
    if (!read(PyList_GetItem(list, i), calls[static_cast<size_t>(i)])) return nullptr;
  Outcome outcome;
  Queue::Operation operation{};
  {
    const WithoutLock without_lock;
    outcome = object.queue.begin(pointer(current), asynchronous != 0, calls.data(), calls.size(), operation);
  }
  if (outcome.cuda != 0) return fail(outcome);
  if (operation.any) {
    object.operation = operation;
    object.begun_by = PyThread_get_thread_ident();
  }
  return Py_BuildValue("iNN", outcome.mpi, PyBool_FromLong(operation.captured ? 1 : 0),
                       PyBool_FromLong(operation.any ? 1 : 0));
}

/// end(name, keep, seconds): the ticket of the operation, and whether the watching thread must wake up.
PyObject* end(PyObject* self, PyObject* arguments) {
  QueueObject& object = queue_of(self);
  PyObject *name = nullptr, *keep = nullptr;
  double seconds = 0;
  if (PyArg_ParseTuple(arguments, "OOd", &name, &keep, &seconds) == 0) std::abort();  // the lock is held
  const bool captured = object.operation.captured;
  object.begun_by = 0;
  Held held(name, keep == &_Py_NoneStruct ? nullptr : keep);
  Event event;
  bool watch = false;
  Outcome outcome;
  {
    const WithoutLock without_lock;
    outcome = object.queue.end(object.operation, held.watched(now(), seconds), event, watch);
  }
  if (!outcome.ok()) return fail(outcome);
  if (!captured) held.hand_over();
  release_complete(object.queue);
  return Py_BuildValue("NN", ticket_of(std::move(event)), PyBool_FromLong(watch ? 1 : 0));
}

/// begun(): whether end() must follow a begin() of this thread.
PyObject* begun(PyObject* self, PyObject* /*unused*/) {
  return PyBool_FromLong(queue_of(self).begun_by == PyThread_get_thread_ident() ? 1 : 0);
}

/// wait(stream, ticket): the stream waits for the operation.
PyObject* wait(PyObject* self, PyObject* arguments) {
  long long stream = 0;
  PyObject* ticket = nullptr;
  if (PyArg_ParseTuple(arguments, "LO", &stream, &ticket) == 0) return nullptr;
  const Event* const event = event_of(ticket);
  if (event == nullptr) return nullptr;
  Outcome outcome;
  {
    const WithoutLock without_lock;  // the driver waits if the stream is full
    outcome = queue_of(self).queue.wait(pointer(stream), *event);
  }
  return outcome.ok() ? none() : fail(outcome);
}

/// complete(ticket): whether the operation is complete.
PyObject* complete(PyObject* self, PyObject* arguments) {
  PyObject* ticket = nullptr;
  if (PyArg_ParseTuple(arguments, "O", &ticket) == 0) return nullptr;
  const Event* const event = event_of(ticket);
  if (event == nullptr) return nullptr;
  Outcome outcome;
  const bool complete = queue_of(self).queue.complete(*event, outcome);
  return outcome.ok() ? PyBool_FromLong(complete ? 1 : 0) : fail(outcome);
}

/// idle(): whether all operations outside of captures are complete.
PyObject* idle(PyObject* self, PyObject* /*unused*/) {
  Outcome outcome;
  bool found = false;
  {
    const WithoutLock without_lock;
    found = queue_of(self).queue.idle(outcome);
  }
  return outcome.ok() ? PyBool_FromLong(found ? 1 : 0) : fail(outcome);
}

/// retire(): forgets the operations that are complete, and empties what they keep. Returns their number.
PyObject* retire(PyObject* self, PyObject* /*unused*/) {
  std::vector<Watched> done;
  Outcome outcome;
  {
    const WithoutLock without_lock;
    outcome = queue_of(self).queue.retire(done);
  }
  release(done);
  if (!outcome.ok()) return fail(outcome);
  return PyLong_FromLongLong(static_cast<long long>(done.size()));
}

/// oldest(): the deadline, begin and name of the oldest operation in progress; None: there is none.
PyObject* oldest(PyObject* self, PyObject* /*unused*/) {
  Watched watched;
  if (!queue_of(self).queue.oldest(watched)) return none();
  return Py_BuildValue("ddO", watched.deadline, watched.begin, static_cast<PyObject*>(watched.name));
}

PyObject* watched(PyObject* self, PyObject* /*unused*/) {
  return PyLong_FromLongLong(static_cast<long long>(queue_of(self).queue.watched()));
}

PyObject* captured(PyObject* self, PyObject* /*unused*/) {
  return PyBool_FromLong(queue_of(self).queue.has_captured() ? 1 : 0);
}

PyObject* acquire(PyObject* self, PyObject* /*unused*/) {
  {
    const WithoutLock without_lock;
    queue_of(self).queue.lock();
  }
  return none();
}

PyObject* try_acquire(PyObject* self, PyObject* /*unused*/) {
  return PyBool_FromLong(queue_of(self).queue.try_lock() ? 1 : 0);
}

PyObject* release(PyObject* self, PyObject* /*unused*/) {
  queue_of(self).queue.unlock();
  return none();
}

/// close(): the end of the queue, under the lock.
PyObject* close(PyObject* self, PyObject* /*unused*/) {
  const Outcome outcome = queue_of(self).queue.close();
  return PyLong_FromLongLong(outcome.mpi);
}

PyMethodDef methods[] = {
    {"begin", begin, METH_VARARGS, nullptr},
    {"end", end, METH_VARARGS, nullptr},
    {"wait", wait, METH_VARARGS, nullptr},
    {"complete", complete, METH_VARARGS, nullptr},
    {"idle", idle, METH_NOARGS, nullptr},
    {"begun", begun, METH_NOARGS, nullptr},
    {"retire", retire, METH_NOARGS, nullptr},
    {"oldest", oldest, METH_NOARGS, nullptr},
    {"watched", watched, METH_NOARGS, nullptr},
    {"captured", captured, METH_NOARGS, nullptr},
    {"acquire", acquire, METH_NOARGS, nullptr},
    {"try_acquire", try_acquire, METH_NOARGS, nullptr},
    {"release", release, METH_NOARGS, nullptr},
    {"close", close, METH_NOARGS, nullptr},
    {nullptr, nullptr, 0, nullptr},
};

}  // namespace

void release(const std::vector<Watched>& done) {
  for (const Watched& watched : done) {
    const Ref name(static_cast<PyObject*>(watched.name)), keep(static_cast<PyObject*>(watched.keep));
    if (keep) PyList_SetSlice(keep.get(), 0, PyList_Size(keep.get()), nullptr);
  }
}

void release_complete(Queue& queue) {
  std::vector<Watched> done;
  queue.collect(done);
  release(done);
}

QueueObject& queue_of(PyObject* object) { return *data_of<QueueObject>(object); }

PyObject* ticket_of(Event event) {
  return PyCapsule_New(new Event(std::move(event)), kTicket,
                       [](PyObject* ticket) { delete event_of(ticket); });
}

PyObject* make_queue_type() {
  static PyType_Slot slots[] = {{Py_tp_new, reinterpret_cast<void*>(create)},
                                {Py_tp_dealloc, reinterpret_cast<void*>(dealloc<QueueObject>)},
                                {Py_tp_methods, methods},
                                {0, nullptr}};
  return make_type("weft_torch.Queue", slots);
}

}  // namespace weft::torch
