// SPDX-License-Identifier: BSD-3-Clause
// The functions that cli/weft_mpi/torch/native.py calls, through ctypes.PyDLL, which keeps Python's lock.
#include <chrono>
#include <thread>
#include <vector>

#include "torch/binding.hpp"

#define WEFT_EXPORT __attribute__((visibility("default")))

extern "C" {

/// Returns the types Queue and Issue.
WEFT_EXPORT PyObject* weft_torch_types() {
  using namespace weft::torch;
  Ref queue(make_queue_type());
  if (!queue) return nullptr;
  Ref issue(make_issue_type());
  if (!issue) return nullptr;
  return Py_BuildValue("NN", queue.release(), issue.release());
}

/// Watches queues, a list of objects, without Python's lock: looks at them each `tick` seconds, until one
/// needs a look by Python or `seconds` are over.
WEFT_EXPORT void weft_torch_watch(PyObject* list, double tick, double seconds) {
  using namespace weft::torch;
  std::vector<Queue*> queues;
  for (Py_ssize_t i = 0; i < PyList_Size(list); ++i)
    queues.push_back(&queue_of(PyList_GetItem(list, i)).queue);
  const WithoutLock without_lock;
  const double end = now() + seconds;
  for (bool found = false; !found && now() < end;) {
    std::this_thread::sleep_for(std::chrono::duration<double>(tick));
    for (Queue* queue : queues) found = queue->needs_look(now()) || found;
  }
}

/// Returns the names of the functions that Queue takes addresses of, with a space behind each.
WEFT_EXPORT PyObject* weft_torch_functions() {
#define WEFT_X(name, parameters) #name " "
  return PyUnicode_FromString(WEFT_TORCH_FUNCTIONS(WEFT_X));
#undef WEFT_X
}

}  // extern "C"
