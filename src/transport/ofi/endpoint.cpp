// SPDX-License-Identifier: BSD-3-Clause
#include "transport/ofi/endpoint.hpp"

#include <array>

namespace weft::transport::ofi {
namespace {

/// Binds `other` to `object`, as fi_ep_bind() and fi_mr_bind() do.
template <class T, class U>
int bind(T& object, U& other, uint64_t flags) {
  return object.fid.ops->bind(&object.fid, &other.fid, flags);
}
template <class T>
int enable(T& object) {
  return object.fid.ops->control(&object.fid, abi::kControlEnable, nullptr);
}

}  // namespace

Result<std::unique_ptr<Endpoint>> Endpoint::create(const Library& library, SelectedInterface choice,
                                                   size_t completions) {
  std::unique_ptr<Endpoint> endpoint(new Endpoint(library, std::move(choice)));
  WEFT_TRY(endpoint->open(completions));
  return endpoint;
}

Status Endpoint::open(size_t completions) {
  abi::Info* info = choice_.info.get();
  const auto failed = [&](const char* what, int code) {
    return library_.error(std::string("libfabric's ") + info->fabric_attr->prov_name + "/" +
                              info->domain_attr->name + ": " + what + " failed",
                          code);
  };
  abi::Fabric* fabric = nullptr;
  if (const int code = library_.fabric(info->fabric_attr, &fabric, nullptr)) return failed("fi_fabric", code);
  fabric_.reset(fabric);
  abi::Domain* domain = nullptr;
  if (const int code = fabric->ops->domain(fabric, info, &domain, nullptr)) return failed("fi_domain", code);
  domain_.reset(domain);
  abi::CqAttr cq_attr{};
  cq_attr.size = completions;
  cq_attr.format = abi::kCqFormatTagged;
  cq_attr.wait_obj = abi::kWaitNone;
  abi::Cq* cq = nullptr;
  if (const int code = domain->ops->cq_open(domain, &cq_attr, &cq, nullptr))
    return failed("fi_cq_open", code);
  cq_.reset(cq);
  abi::AvAttr av_attr{};
  av_attr.type = info->domain_attr->av_type;
  abi::Av* av = nullptr;
  if (const int code = domain->ops->av_open(domain, &av_attr, &av, nullptr))
    return failed("fi_av_open", code);
  av_.reset(av);
  abi::Ep* ep = nullptr;
  if (const int code = domain->ops->endpoint(domain, info, &ep, nullptr)) return failed("fi_endpoint", code);
  ep_.reset(ep);
  if (const int code = bind(*ep, *cq, abi::kTransmit | abi::kRecv)) return failed("fi_ep_bind (cq)", code);
  if (const int code = bind(*ep, *av, 0)) return failed("fi_ep_bind (av)", code);
  if (const int code = enable(*ep)) return failed("fi_enable", code);
  return {};
}

Result<std::string> Endpoint::name() const {
  std::array<char, 512> name{};
  size_t length = name.size();
  if (const int code = ep_->cm->getname(&ep_->fid, name.data(), &length))
    return library_.error("libfabric's fi_getname failed", code);
  return std::string(name.data(), length);
}

Result<abi::Address> Endpoint::insert(const std::string& name) {
  abi::Address address = abi::kNoAddress;
  const int inserted = av_->ops->insert(av_.get(), name.data(), 1, &address, 0, nullptr);
  if (inserted != 1 || address == abi::kNoAddress)
    return library_.error("libfabric refuses the address of a peer", inserted < 0 ? inserted : -EINVAL);
  return address;
}

Result<Object<abi::Mr>> Endpoint::add_memory(const void* start, size_t length, uint64_t access,
                                             const device::Memory& memory) {
  const iovec range{const_cast<void*>(start), length};
  abi::MrAttr attr{};
  attr.mr_iov = &range;
  attr.iov_count = 1;
  attr.access = access;
  attr.requested_key = wants(abi::kMrProvKey) ? 0 : next_key_++;
  attr.iface = memory.on_device() ? abi::kHmemCuda : abi::kHmemSystem;
  if (memory.on_device()) attr.device.cuda = memory.device;
  abi::Mr* mr = nullptr;
  if (const int code = domain_->mr->regattr(&domain_->fid, &attr, 0, &mr))
    return library_.error("libfabric cannot register " + std::to_string(length) + " bytes of memory", code);
  Object<abi::Mr> region(mr);
  if (wants(abi::kMrEndpoint)) {
    int code = bind(*mr, *ep_, 0);
    if (code == 0) code = enable(*mr);
    if (code != 0) return library_.error("libfabric cannot bind registered memory to its endpoint", code);
  }
  return region;
}

bool Endpoint::read_error(abi::CqError& error, std::string& why) {
  error = {};
  if (cq_->ops->readerr(cq_.get(), &error, 0) <= 0) return false;
  why = library_.strerror(error.err);
  return true;
}

}  // namespace weft::transport::ofi
