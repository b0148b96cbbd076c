// SPDX-License-Identifier: BSD-3-Clause
// Counted: intrusive reference count of communicators, groups, operations, info objects and error handlers.
// Threading: changed under the instance lock.
#pragma once
#include <cstdint>

namespace weft::core {

/// Base of counted objects. The last release() calls destroy(), which returns the object to its slab.
class Counted {
 public:
  void retain() { ++references_; }
  void release() {
    if (--references_ == 0) destroy();
  }
  [[nodiscard]] int32_t references() const { return references_; }
  /// Handles are references held by the application, which may free only those. open_handle() converts the
  /// caller's reference to a handle, close_handle() releases the reference of a handle.
  void open_handle() { ++handles_; }
  void close_handle() {
    --handles_;
    release();
  }
  [[nodiscard]] bool has_handle() const { return handles_ > 0; }

 protected:
  virtual ~Counted() = default;
  virtual void destroy() = 0;

 private:
  int32_t references_ = 1;
  int32_t handles_ = 0;
};

/// Owning pointer to a Counted object. Construction adopts a reference; copying retains.
template <class T>
class Ref {
 public:
  Ref() = default;
  explicit Ref(T* adopted) : object_(adopted) {}
  static Ref share(T* object) {
    if (object != nullptr) object->retain();
    return Ref(object);
  }
  Ref(const Ref& other) : Ref(share(other.object_)) {}
  Ref(Ref&& other) noexcept : object_(other.detach()) {}
  Ref& operator=(Ref other) noexcept {
    T* old = object_;
    object_ = other.detach();
    if (old != nullptr) old->release();
    return *this;
  }
  ~Ref() {
    if (object_ != nullptr) object_->release();
  }
  T* detach() {
    T* object = object_;
    object_ = nullptr;
    return object;
  }
  T* get() const { return object_; }
  T* operator->() const { return object_; }
  T& operator*() const { return *object_; }
  explicit operator bool() const { return object_ != nullptr; }

 private:
  T* object_ = nullptr;
};

}  // namespace weft::core
