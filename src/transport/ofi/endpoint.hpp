// SPDX-License-Identifier: BSD-3-Clause
// Endpoint: libfabric's objects for one reliable, connectionless endpoint (RDM), closed in order, and the
// calls on them. Functions that return ssize_t return libfabric's code: 0, or negative; -EAGAIN: retry after
// reading completions.
#pragma once
#include <cerrno>
#include <memory>
#include <string>

#include "base/result.hpp"
#include "device/memory.hpp"
#include "transport/ofi/select.hpp"

namespace weft::transport::ofi {

struct CloseObject {
  template <class T>
  void operator()(T* object) const {
    object->fid.ops->close(&object->fid);
  }
};
template <class T>
using Object = std::unique_ptr<T, CloseObject>;

class Endpoint {
 public:
  /// `completions`: capacity of the completion queue.
  [[nodiscard]] static Result<std::unique_ptr<Endpoint>> create(const Library& library,
                                                                SelectedInterface choice, size_t completions);

  [[nodiscard]] const abi::Info& info() const { return *choice_.info; }
  [[nodiscard]] const SelectedInterface& choice() const { return choice_; }
  [[nodiscard]] const Library& library() const { return library_; }
  [[nodiscard]] bool wants(int mr_mode) const { return (info().domain_attr->mr_mode & mr_mode) != 0; }
  /// Returns whether local buffers need a registration.
  [[nodiscard]] bool registers_local(const device::Memory& memory) const {
    return wants(abi::kMrLocal) || (memory.on_device() && wants(abi::kMrHmem));
  }

  [[nodiscard]] Result<std::string> name() const;  ///< address that peers pass to insert()
  [[nodiscard]] Result<abi::Address> insert(const std::string& name);
  [[nodiscard]] Result<Object<abi::Mr>> add_memory(const void* start, size_t length, uint64_t access,
                                                   const device::Memory& memory);
  /// Returns the remote address of a byte of registered memory: its address, or its offset in the region.
  [[nodiscard]] uint64_t remote_address(const void* start, const void* byte) const {
    const auto at = reinterpret_cast<uint64_t>(byte);
    return wants(abi::kMrVirtAddr) ? at : at - reinterpret_cast<uint64_t>(start);
  }

  ssize_t send(const void* data, size_t size, void* desc, abi::Address to, uint64_t tag, void* context) {
    return ep_->tagged->send(ep_.get(), data, size, desc, to, tag, context);
  }
  /// Matches messages whose tag differs from `tag` only in bits of `ignore`.
  ssize_t receive(void* data, size_t size, void* desc, uint64_t tag, uint64_t ignore, void* context) {
    return ep_->tagged->recv(ep_.get(), data, size, desc, abi::kNoAddress, tag, ignore, context);
  }
  ssize_t read(void* data, size_t size, void* desc, abi::Address from, uint64_t remote, uint64_t key,
               void* context) {
    return ep_->rma->read(ep_.get(), data, size, desc, from, remote, key, context);
  }
  /// Completes once the data are in place at the peer.
  ssize_t write(const void* data, size_t size, void* desc, abi::Address to, uint64_t remote, uint64_t key,
                void* context) {
    const iovec local{const_cast<void*>(data), size};
    const abi::RmaIov target{remote, size, key};
    const abi::RmaMessage message{&local, &desc, 1, to, &target, 1, context, 0};
    return ep_->rma->writemsg(ep_.get(), &message, abi::kDeliveryComplete);
  }
  /// Progresses and returns the number of completions; -EAGAIN: none; -kErrAvailable: call read_error().
  ssize_t completions(abi::CqEntry* entries, size_t count) {
    return cq_->ops->read(cq_.get(), entries, count);
  }
  /// Closes the endpoint before memory is deregistered, unless registrations are bound to the endpoint.
  void shut() {
    if (!wants(abi::kMrEndpoint)) ep_.reset();
  }
  /// Returns false if there is no error completion.
  bool read_error(abi::CqError& error, std::string& why);

 private:
  Endpoint(const Library& library, SelectedInterface choice)
      : library_(library), choice_(std::move(choice)) {}
  Status open(size_t completions);

  const Library& library_;
  SelectedInterface choice_;
  uint64_t next_key_ = 1;
  // Closed in reverse order.
  Object<abi::Fabric> fabric_;
  Object<abi::Domain> domain_;
  Object<abi::Cq> cq_;
  Object<abi::Av> av_;
  Object<abi::Ep> ep_;
};

}  // namespace weft::transport::ofi
