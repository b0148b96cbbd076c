// SPDX-License-Identifier: BSD-3-Clause
// Graphs: the captured operations of one stream, or one kernel node with updated parameters, and user objects
// that graphs retain. Captures must not contain events.
#include <map>
#include <set>

#include "world.hpp"

namespace emucuda {
namespace {

/// Graphs and executable graphs have the same representation.
std::set<Recording*>& recordings() {
  static auto& instance = *new std::set<Recording*>;
  return instance;
}

Recording* find(void* handle) {
  const auto at = recordings().find(static_cast<Recording*>(handle));
  return at == recordings().end() ? nullptr : *at;
}

Recording* copy_of(const Recording& other) {
  auto* copy = new Recording;
  for (const Operation& operation : other) copy->push_back(operation.clone());
  copy->kept = other.kept;
  recordings().insert(copy);
  return copy;
}

Code destroy(void* handle) {
  Recording* recording = find(handle);
  if (recording == nullptr) return kInvalidValue;
  recordings().erase(recording);
  delete recording;
  return kSuccess;
}

/// Objects of cuUserObjectCreate that the creator has not released or moved yet.
std::map<void*, std::shared_ptr<void>>& user_objects() {
  static auto& instance = *new std::map<void*, std::shared_ptr<void>>;
  return instance;
}

/// The recording of a graph, also of one whose capture goes on.
Recording* find_graph(void* handle) {
  for (const StreamObject* stream : world().streams)
    if (stream->capture.get() == handle) return stream->capture.get();
  return find(handle);
}

bool replayable(const Recording& recording) {
  for (const Operation& operation : recording)
    if (operation.type == Operation::Type::kernel && operation.kernel->clone() == nullptr) return false;
  return true;
}

}  // namespace

Operation Operation::clone() const {
  Operation copy{type};
  copy.dst = dst;
  copy.src = src;
  copy.dst_pitch = dst_pitch;
  copy.src_pitch = src_pitch;
  copy.width = width;
  copy.height = height;
  copy.value = value;
  if (kernel != nullptr) copy.kernel = kernel->clone();
  return copy;
}

#define EMUCUDA_STREAM(handle)    \
  const auto lock = lock_world(); \
  StreamObject* stream = nullptr; \
  if (const Code code = stream_of(handle, &stream); code != kSuccess) return code

extern "C" {

Code cuStreamGetCtx(Stream handle, Context* context) {
  const auto lock = lock_world();
  if (const Code code = ready(); code != kSuccess) return code;
  auto* stream = static_cast<StreamObject*>(handle);
  if (world().streams.count(stream) == 0) return kInvalidHandle;
  *context = stream->context;
  return kSuccess;
}

Code cuStreamIsCapturing(Stream handle, int* status) {
  const auto lock = lock_world();
  StreamObject* stream = nullptr;
  if (const Code code = stream_of(handle, &stream, Use::query); code != kSuccess) return code;
  *status = stream->capture != nullptr ? 1 : 0;
  if (stream != stream->context->legacy) return kSuccess;
  for (const StreamObject* other : world().streams)
    if (other->context == stream->context && other->blocking && other->capture != nullptr)
      return kCaptureImplicit;
  return kSuccess;
}

Code cuStreamBeginCapture_v2(Stream handle, int) {
  EMUCUDA_STREAM(handle);
  if (stream->capture != nullptr || stream == stream->context->legacy) return kCaptureUnsupported;
  stream->capture = std::make_unique<Recording>();
  stream->capture_invalid = false;
  stream->capture->id = world().next_id++;
  return kSuccess;
}

Code cuStreamGetCaptureInfo_v2(Stream handle, int* status, uint64_t* id, Graph* graph,
                               const GraphNode** dependencies, size_t* count) {
  const auto lock = lock_world();
  StreamObject* stream = nullptr;
  if (const Code code = stream_of(handle, &stream, Use::query); code != kSuccess) return code;
  *status = stream->capture != nullptr ? 1 : 0;
  if (stream->capture == nullptr) return kSuccess;
  if (id != nullptr) *id = stream->capture->id;
  if (graph != nullptr) *graph = stream->capture.get();
  if (dependencies != nullptr) *dependencies = nullptr;
  if (count != nullptr) *count = 0;
  return kSuccess;
}

// `destroy` runs in any call or thread that releases the last reference, with the driver's lock held: it may
// not call the driver.
Code cuUserObjectCreate(UserObject* object, void* state, void (*destroy)(void*), unsigned references,
                        unsigned flags) {
  constexpr unsigned kNoDestructorSync = 1;
  const auto lock = lock_world();
  if (object == nullptr || destroy == nullptr || references != 1 || flags != kNoDestructorSync)
    return kInvalidValue;
  static uintptr_t created = 0;
  auto* key = reinterpret_cast<char*>(++created);  // no later object has it
  user_objects()[key] = std::shared_ptr<void>(state, destroy);
  *object = key;
  return kSuccess;
}

Code cuUserObjectRelease(UserObject object, unsigned count) {
  const auto lock = lock_world();
  return count == 1 && user_objects().erase(object) == 1 ? kSuccess : kInvalidValue;
}

Code cuGraphRetainUserObject(Graph graph, UserObject object, unsigned count, unsigned flags) {
  constexpr unsigned kMove = 1;
  const auto lock = lock_world();
  Recording* recording = find_graph(graph);
  const auto at = user_objects().find(object);
  if (recording == nullptr || at == user_objects().end() || count != 1 || flags != kMove)
    return kInvalidValue;
  recording->kept.push_back(std::move(at->second));
  user_objects().erase(at);
  return kSuccess;
}

Code cuStreamEndCapture(Stream handle, Graph* graph) {
  EMUCUDA_STREAM(handle);
  if (stream->capture == nullptr) return kInvalidValue;
  const auto recording = std::move(stream->capture);
  if (stream->capture_invalid) return kCaptureInvalidated;
  if (!replayable(*recording)) return kCaptureUnsupported;
  *graph = copy_of(*recording);
  return kSuccess;
}

Code cuGraphCreate(Graph* graph, unsigned) {
  const auto lock = lock_world();
  if (const Code code = ready(); code != kSuccess) return code;
  *graph = copy_of({});
  return kSuccess;
}

// Ignores the parameters of the node: they are set before each launch.
Code cuGraphAddKernelNode_v2(GraphNode* node, Graph graph, const GraphNode*, size_t dependencies,
                             const KernelNode* parameters) {
  const auto lock = lock_world();
  Recording* recording = find(graph);
  if (recording == nullptr || dependencies != 0 || parameters == nullptr || parameters->function == nullptr)
    return kInvalidValue;
  recording->push_back(Operation{Operation::Type::kernel});
  *node = reinterpret_cast<GraphNode>(recording->size());
  return kSuccess;
}

Code cuGraphKernelNodeSetAttribute(GraphNode, int attribute, const NodeAttribute*) {
  return attribute == kNodePriority ? kSuccess : kInvalidValue;
}

Code cuGraphUpload(GraphExec executable, Stream handle) {
  EMUCUDA_STREAM(handle);
  return find(executable) != nullptr ? kSuccess : kInvalidValue;
}

Code cuGraphExecKernelNodeSetParams_v2(GraphExec executable, GraphNode node, const KernelNode* parameters) {
  const auto lock = lock_world();
  Recording* recording = find(executable);
  const auto number = reinterpret_cast<size_t>(node);
  if (recording == nullptr || number == 0 || number > recording->size()) return kInvalidValue;
  return make_launch(*parameters, nullptr, (*recording)[number - 1]);
}

// The driver may allocate memory here, and so waits for kernels like an allocation.
Code cuGraphInstantiateWithFlags(GraphExec* executable, Graph graph, unsigned long long) {
  const auto lock = lock_world();
  const Recording* recording = find(graph);
  if (recording == nullptr) return kInvalidValue;
  ContextObject* context = nullptr;
  if (const Code code = current(&context); code != kSuccess) return code;
  forbid_unsafe("cuGraphInstantiate outside relaxed capture mode");
  wait_for_kernels(context->device);
  *executable = copy_of(*recording);
  return kSuccess;
}

Code cuGraphLaunch(GraphExec executable, Stream handle) {
  EMUCUDA_STREAM(handle);
  Recording* recording = find(executable);
  if (recording == nullptr) return kInvalidValue;
  for (Operation& operation : *recording) {
    Operation operation_copy = operation.clone();
    if (operation.type == Operation::Type::kernel && operation_copy.kernel == nullptr) {
      if (operation.kernel == nullptr) return kInvalidValue;
      operation_copy.kernel = std::move(operation.kernel);  // one launch per update of the parameters
    }
    if (&operation == &recording->back()) operation_copy.kept = recording->kept;
    enqueue(*stream, std::move(operation_copy));
  }
  return stream->context->sticky;
}

Code cuGraphDestroy(Graph graph) {
  const auto lock = lock_world();
  return destroy(graph);
}

Code cuGraphExecDestroy(GraphExec executable) {
  const auto lock = lock_world();
  return destroy(executable);
}

}  // extern "C"
}  // namespace emucuda
