// SPDX-License-Identifier: BSD-3-Clause
// The type Issue for Python: a method of a process group that issues one collective on contiguous tensors of
// one GPU. It reads tensors and options by Python's interface, and leaves every other call to the method in
// Python.
#include <array>
#include <atomic>
#include <mutex>

#include "torch/binding.hpp"
#include "torch/tensor.hpp"

namespace weft::torch {
namespace {

constexpr long long kInPlace = 1;  // MPI_IN_PLACE
constexpr size_t kMaxReductions =
    64;  // of which a program uses few; Python is asked about further ones each time

/// The names of attributes and methods of torch, made once.
struct Names {
#define WEFT_X(name) PyObject* const name = PyUnicode_InternFromString(#name);
  WEFT_X(asyncOp)
  WEFT_X(failed)
  WEFT_X(failure)
  WEFT_X(op)
  WEFT_X(reduceOp)
  WEFT_X(reduction)
  WEFT_X(rootRank)
  WEFT_X(time_limit)
  WEFT_X(timeout)
  WEFT_X(total_seconds)
  WEFT_X(wake)
#undef WEFT_X
};
const Names& names() {
  static const Names all;
  return all;
}

/// How MPI reduces one type by one operation; found by Python once.
struct Reduction {
  Ref kind;         ///< the operation of torch, without a factor; compared with those of options, by torch
  uintptr_t dtype;  ///< of Tensor
  bool supported;
  long long type, op;
};

bool apart(const Tensor& a, const Tensor& b) {
  return a.address >= b.address + b.bytes || b.address >= a.address + a.bytes;
}

struct Issue {
  Call::Function function;
  long processes;  ///< of the group
  TensorReader tensors;
  // Objects of Python.
  Ref general;       ///< the method that takes all other calls
  Ref kernels;       ///< streams.Kernels
  Ref group, queue;  ///< WeftGroup, Queue
  Ref options;       ///< the type of the options
  Ref work, done;    ///< the type of asynchronous works, the work of all others
  Ref raw_stream;    ///< a function
  Ref name;          ///< of the operation, for errors
  Ref index_object, no_time;
  std::array<Reduction, kMaxReductions> reductions{};
  std::atomic<size_t> reduction_count = 0;
  std::mutex mutex;  ///< of additions, for a Python whose threads hold no common lock

  /// Issues the operation. Null: an error, or, without an exception, a call for `general`.
  PyObject* attempt(PyObject* arguments);

 private:
  bool reduction(PyObject* options, const Tensor& tensor, Call& call);
  bool describe(PyObject* arguments, PyObject* options, Call& call, Tensor& in, Tensor& out);
  bool limit(PyObject* options, double& seconds) const;
  PyObject* run(const Call& call, bool asynchronous, double seconds, const Tensor& in, const Tensor& out);
};

/// Finds the type and operation of MPI. Returns false if kernels do not compute them, or not alone.
bool Issue::reduction(PyObject* options, const Tensor& tensor, Call& call) {
  const Ref operation(PyObject_GetAttr(options, names().reduceOp));
  if (!operation) return false;
  const auto set = [&](const Reduction& known) {
    call.type = reinterpret_cast<void*>(known.type);
    call.op = reinterpret_cast<void*>(known.op);
    return known.supported;
  };
  // Entries are added, never changed; comparisons by torch are made without the lock.
  size_t count = reduction_count.load(std::memory_order_acquire);
  for (size_t i = 0; i < count; ++i) {
    const Reduction& known = reductions[i];
    if (known.dtype != tensor.dtype) continue;
    const int equal = PyObject_RichCompareBool(operation.get(), known.kind.get(), python::kEqual);
    if (equal < 0) return false;
    if (equal > 0) return set(known);
  }
  const Ref found(PyObject_CallMethodObjArgs(kernels.get(), names().reduction, name.get(), operation.get(),
                                             tensor.object, nullptr));
  if (!found) return false;
  Ref kind(PyObject_GetAttr(operation.get(), names().op));
  if (!kind) return false;
  Reduction made{std::move(kind), tensor.dtype, found.get() != &_Py_NoneStruct, 0, 0};
  if (made.supported && PyArg_ParseTuple(found.get(), "LL", &made.type, &made.op) == 0) return false;
  const bool supported = set(made);
  const std::lock_guard lock(mutex);
  count = reduction_count.load(std::memory_order_relaxed);
  if (count < reductions.size()) {
    reductions[count] = std::move(made);
    reduction_count.store(count + 1, std::memory_order_release);
  }
  return supported;
}

/// Checks the arguments, and describes the call of MPI. `in`: object null if the operation has one tensor.
bool Issue::describe(PyObject* arguments, PyObject* options, Call& call, Tensor& in, Tensor& out) {
  using enum Call::Function;
  const auto argument = [&](Py_ssize_t i) { return PyTuple_GetItem(arguments, i); };
  call = {.function = function,
          .send = nullptr,
          .recv = nullptr,
          .count = 0,
          .type = reinterpret_cast<void*>(kByte),
          .op = nullptr,
          .root = 0};
  in.object = nullptr;
  switch (function) {
    case bcast: {
      long long root = 0;
      if (!number(PyObject_GetAttr(options, names().rootRank), root) || !tensors.read_one(argument(0), out))
        return false;
      call.root = static_cast<int>(root);
      call.count = out.bytes;
      break;
    }
    case allreduce:
      if (!tensors.read_one(argument(0), out) || !reduction(options, out, call)) return false;
      call.send = reinterpret_cast<void*>(kInPlace);
      call.count = out.elements;
      break;
    default: {
      if (!tensors.read(argument(0), out) || !tensors.read(argument(1), in)) return false;
      if (in.dtype != out.dtype || !apart(in, out)) return false;
      call.send = reinterpret_cast<void*>(in.address);
      if (function == reduce_scatter_block) {
        if (in.elements != out.elements * processes || !reduction(options, in, call)) return false;
        call.count = out.elements;
      } else if (function == allgather) {
        if (out.elements != in.elements * processes) return false;
        call.count = in.bytes;
      } else {
        if (PyObject_Size(argument(2)) != 0 || PyObject_Size(argument(3)) != 0) return false;
        if (in.elements != out.elements || in.elements == 0) return false;
        if (rows_of(in) % processes != 0 || rows_of(out) % processes != 0) return false;
        call.count = in.bytes / processes;
      }
    }
  }
  call.recv = reinterpret_cast<void*>(out.address);
  return true;
}

/// Finds the time limit of the operation: of its options, else of the group.
bool Issue::limit(PyObject* options, double& seconds) const {
  const Ref own(PyObject_GetAttr(options, names().timeout));
  if (!own) return false;
  const int positive = PyObject_RichCompareBool(own.get(), no_time.get(), kGreater);
  if (positive < 0) return false;
  const Ref found(positive != 0 ? PyObject_CallMethodObjArgs(own.get(), names().total_seconds, nullptr)
                                : PyObject_GetAttr(group.get(), names().time_limit));
  if (!found) return false;
  seconds = PyFloat_AsDouble(found.get());
  return PyErr_Occurred() == nullptr;
}

PyObject* Issue::attempt(PyObject* arguments) {
  const Py_ssize_t count = PyTuple_Size(arguments);
  const bool pair = function != Call::Function::bcast && function != Call::Function::allreduce;
  if (count != (function == Call::Function::alltoall ? 5 : pair ? 3 : 2)) return nullptr;
  PyObject* const given = PyTuple_GetItem(arguments, count - 1);
  if (Ref(PyObject_Type(given)).get() != options.get()) return nullptr;
  if (Ref(PyObject_GetAttr(group.get(), names().failure)).get() != &_Py_NoneStruct) return nullptr;
  Call call{};
  Tensor in{}, out{};
  double seconds = 0;
  const Ref asynchronous(PyObject_GetAttr(given, names().asyncOp));
  if (!asynchronous || !describe(arguments, given, call, in, out) || !limit(given, seconds)) {
    PyErr_Clear();  // the method in Python finds the same error, if it is one
    return nullptr;
  }
  return run(call, asynchronous.get() == &_Py_TrueStruct, seconds, in, out);
}

PyObject* Issue::run(const Call& call, bool asynchronous, double seconds, const Tensor& in,
                     const Tensor& out) {
  long long stream = 0;
  if (!number(PyObject_CallFunctionObjArgs(raw_stream.get(), index_object.get(), nullptr), stream))
    return nullptr;
  Ref keep;  // of other operations the memory is used in the order of the stream
  if (asynchronous) {
    keep = Ref(PyList_New(0));
    if (!keep || PyList_Append(keep.get(), out.object) != 0) return nullptr;
    if (in.object != nullptr && PyList_Append(keep.get(), in.object) != 0) return nullptr;
  }
  const double begun = now();
  Queue& own = queue_of(queue.get()).queue;
  Outcome outcome, ended;
  Queue::Operation operation{};
  Event event;
  bool watch = false;
  Held held(name.get(), keep.get());
  {
    const WithoutLock without_lock;
    outcome = own.begin(reinterpret_cast<void*>(stream), asynchronous, &call, 1, operation);
    if (operation.any) ended = own.end(operation, held.watched(begun, seconds), event, watch);
  }
  if (operation.any && !operation.captured && ended.ok()) held.hand_over();
  release_complete(own);
  if (watch && !Ref(PyObject_CallMethodObjArgs(kernels.get(), names().wake, nullptr))) return nullptr;
  if (!outcome.ok() || !ended.ok()) {  // raises
    const Ref mpi(PyLong_FromLongLong(outcome.mpi));
    const Ref cuda(PyLong_FromLongLong(outcome.cuda != 0 ? outcome.cuda : ended.cuda));
    const Ref raised(PyObject_CallMethodObjArgs(kernels.get(), names().failed, name.get(), mpi.get(),
                                                cuda.get(), nullptr));
    if (raised) PyErr_SetString(PyExc_RuntimeError, "weft: a failed operation has raised no exception");
    return nullptr;
  }
  if (!asynchronous) return Ref::borrowed(done.get()).release();
  const Ref result(PyList_New(0)), ticket(ticket_of(std::move(event)));
  if (!result || !ticket || PyList_Append(result.get(), out.object) != 0) return nullptr;
  return PyObject_CallFunctionObjArgs(work.get(), kernels.get(), name.get(), result.get(), ticket.get(),
                                      keep.get(), operation.captured ? &_Py_TrueStruct : &_Py_FalseStruct,
                                      nullptr);
}

/// Issue(function, index, processes, general, kernels, group, queue, options, work, done, raw_stream, name,
/// no_time, exchange, described): the number of the function, the GPU, the arguments of TensorReader, and the
/// members of that name.
PyObject* create(PyObject* type, PyObject* arguments, PyObject* /*keywords*/) {
  int function = 0;
  long index = 0, processes = 0;
  PyObject *general, *kernels, *group, *queue, *options, *work, *done, *raw_stream, *name, *no_time,
      *exchange, *described;
  if (PyArg_ParseTuple(arguments, "illOOOOOOOOOOOO", &function, &index, &processes, &general, &kernels,
                       &group, &queue, &options, &work, &done, &raw_stream, &name, &no_time, &exchange,
                       &described) == 0)
    return nullptr;
  PyObject* const self = PyType_GenericAlloc(type, 0);
  if (self == nullptr) return nullptr;
  const auto own = Ref::borrowed;
  data_of<Issue>(self) = new Issue{static_cast<Call::Function>(function),
                                   processes,
                                   TensorReader(index, exchange, described),
                                   own(general),
                                   own(kernels),
                                   own(group),
                                   own(queue),
                                   own(options),
                                   own(work),
                                   own(done),
                                   own(raw_stream),
                                   own(name),
                                   Ref(PyLong_FromLongLong(index)),
                                   own(no_time),
                                   {},
                                   {},
                                   {}};
  return self;
}

PyObject* call(PyObject* self, PyObject* arguments, PyObject* keywords) {
  Issue& issue = *data_of<Issue>(self);
  if (keywords == nullptr || PyObject_Size(keywords) == 0) {
    PyObject* const work = issue.attempt(arguments);
    if (work != nullptr || PyErr_Occurred() != nullptr) return work;
  }
  return PyObject_Call(issue.general.get(), arguments, keywords);
}

}  // namespace

PyObject* make_issue_type() {
  static PyType_Slot slots[] = {{Py_tp_new, reinterpret_cast<void*>(create)},
                                {Py_tp_dealloc, reinterpret_cast<void*>(dealloc<Issue>)},
                                {Py_tp_call, reinterpret_cast<void*>(call)},
                                {0, nullptr}};
  return make_type("weft_torch.Issue", slots);
}

}  // namespace weft::torch
