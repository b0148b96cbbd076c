// SPDX-License-Identifier: BSD-3-Clause
// src/transport/ofi/abi.hpp compared with libfabric's headers, if installed.
#include <gtest/gtest.h>

#include "transport/ofi/abi.hpp"

#if __has_include(<rdma/fabric.h>)
#include <rdma/fabric.h>
#include <rdma/fi_cm.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_eq.h>
#include <rdma/fi_errno.h>
#include <rdma/fi_rma.h>
#include <rdma/fi_tagged.h>

namespace declared = weft::transport::ofi::abi;

#define SAME(ours, our_field, theirs, their_field)                                     \
  static_assert(offsetof(declared::ours, our_field) == offsetof(theirs, their_field)); \
  static_assert(sizeof(declared::ours::our_field) == sizeof(static_cast<theirs*>(nullptr)->their_field))
#define EACH(ours, theirs, field) SAME(ours, field, struct theirs, field)

EACH(Ops, fi_ops, close);
EACH(Ops, fi_ops, bind);
EACH(Ops, fi_ops, control);
EACH(Fid, fid, fclass);
EACH(Fid, fid, ops);
EACH(TxAttr, fi_tx_attr, caps);
EACH(TxAttr, fi_tx_attr, msg_order);
EACH(TxAttr, fi_tx_attr, inject_size);
EACH(TxAttr, fi_tx_attr, tclass);
EACH(RxAttr, fi_rx_attr, caps);
EACH(RxAttr, fi_rx_attr, msg_order);
EACH(RxAttr, fi_rx_attr, size);
EACH(EpAttr, fi_ep_attr, type);
EACH(EpAttr, fi_ep_attr, max_msg_size);
EACH(DomainAttr, fi_domain_attr, name);
EACH(DomainAttr, fi_domain_attr, threading);
EACH(DomainAttr, fi_domain_attr, control_progress);
EACH(DomainAttr, fi_domain_attr, data_progress);
EACH(DomainAttr, fi_domain_attr, resource_mgmt);
EACH(DomainAttr, fi_domain_attr, av_type);
EACH(DomainAttr, fi_domain_attr, mr_mode);
EACH(DomainAttr, fi_domain_attr, mr_key_size);
EACH(FabricAttr, fi_fabric_attr, name);
EACH(FabricAttr, fi_fabric_attr, prov_name);
EACH(FabricAttr, fi_fabric_attr, api_version);
EACH(BusAttr, fi_bus_attr, bus_type);
SAME(BusAttr, pci.domain_id, struct fi_bus_attr, attr.pci.domain_id);
SAME(BusAttr, pci.function_id, struct fi_bus_attr, attr.pci.function_id);
EACH(LinkAttr, fi_link_attr, speed);
EACH(Nic, fid_nic, bus_attr);
EACH(Nic, fid_nic, link_attr);
EACH(Info, fi_info, next);
EACH(Info, fi_info, caps);
EACH(Info, fi_info, mode);
EACH(Info, fi_info, addr_format);
EACH(Info, fi_info, src_addrlen);
EACH(Info, fi_info, src_addr);
EACH(Info, fi_info, tx_attr);
EACH(Info, fi_info, rx_attr);
EACH(Info, fi_info, ep_attr);
EACH(Info, fi_info, domain_attr);
EACH(Info, fi_info, fabric_attr);
EACH(Info, fi_info, nic);
EACH(FabricOps, fi_ops_fabric, domain);
EACH(Fabric, fid_fabric, ops);
EACH(AvAttr, fi_av_attr, type);
EACH(AvAttr, fi_av_attr, count);
EACH(AvAttr, fi_av_attr, flags);
EACH(AvOps, fi_ops_av, insert);
EACH(Av, fid_av, ops);
EACH(CqAttr, fi_cq_attr, size);
EACH(CqAttr, fi_cq_attr, format);
EACH(CqAttr, fi_cq_attr, wait_obj);
EACH(CqAttr, fi_cq_attr, wait_set);
EACH(CqEntry, fi_cq_tagged_entry, op_context);
EACH(CqEntry, fi_cq_tagged_entry, len);
EACH(CqEntry, fi_cq_tagged_entry, tag);
static_assert(sizeof(declared::CqEntry) == sizeof(fi_cq_tagged_entry));
EACH(CqError, fi_cq_err_entry, op_context);
EACH(CqError, fi_cq_err_entry, err);
EACH(CqError, fi_cq_err_entry, prov_errno);
EACH(CqError, fi_cq_err_entry, err_data);
EACH(CqError, fi_cq_err_entry, err_data_size);
static_assert(sizeof(declared::CqError) >= sizeof(fi_cq_err_entry));
EACH(CqOps, fi_ops_cq, read);
EACH(CqOps, fi_ops_cq, readerr);
EACH(CqOps, fi_ops_cq, strerror);
EACH(Cq, fid_cq, ops);
EACH(Mr, fid_mr, mem_desc);
EACH(Mr, fid_mr, key);
EACH(MrAttr, fi_mr_attr, mr_iov);
EACH(MrAttr, fi_mr_attr, access);
EACH(MrAttr, fi_mr_attr, requested_key);
EACH(MrAttr, fi_mr_attr, iface);
SAME(MrAttr, device.cuda, struct fi_mr_attr, device.cuda);
static_assert(sizeof(declared::MrAttr) >= sizeof(fi_mr_attr));
EACH(MrOps, fi_ops_mr, regattr);
EACH(DomainOps, fi_ops_domain, av_open);
EACH(DomainOps, fi_ops_domain, cq_open);
EACH(DomainOps, fi_ops_domain, endpoint);
EACH(Domain, fid_domain, ops);
EACH(Domain, fid_domain, mr);
EACH(CmOps, fi_ops_cm, getname);
EACH(RmaOps, fi_ops_rma, read);
EACH(RmaOps, fi_ops_rma, writemsg);
EACH(RmaIov, fi_rma_iov, addr);
EACH(RmaIov, fi_rma_iov, len);
EACH(RmaIov, fi_rma_iov, key);
EACH(RmaMessage, fi_msg_rma, msg_iov);
EACH(RmaMessage, fi_msg_rma, desc);
EACH(RmaMessage, fi_msg_rma, iov_count);
EACH(RmaMessage, fi_msg_rma, addr);
EACH(RmaMessage, fi_msg_rma, rma_iov);
EACH(RmaMessage, fi_msg_rma, rma_iov_count);
EACH(RmaMessage, fi_msg_rma, context);
EACH(TaggedOps, fi_ops_tagged, recv);
EACH(TaggedOps, fi_ops_tagged, send);
EACH(Ep, fid_ep, cm);
EACH(Ep, fid_ep, rma);
EACH(Ep, fid_ep, tagged);
static_assert(sizeof(declared::OperationContext) == sizeof(fi_context2));

TEST(OfiAbi, Constants) {
  EXPECT_EQ(declared::kRma, FI_RMA);
  EXPECT_EQ(declared::kTagged, FI_TAGGED);
  EXPECT_EQ(declared::kRead, FI_READ);
  EXPECT_EQ(declared::kRecv, FI_RECV);
  EXPECT_EQ(declared::kSend, FI_SEND);
  EXPECT_EQ(declared::kTransmit, FI_TRANSMIT);
  EXPECT_EQ(declared::kRemoteRead, FI_REMOTE_READ);
  EXPECT_EQ(declared::kWrite, FI_WRITE);
  EXPECT_EQ(declared::kRemoteWrite, FI_REMOTE_WRITE);
  EXPECT_EQ(declared::kDeliveryComplete, FI_DELIVERY_COMPLETE);
  EXPECT_EQ(declared::kHmem, FI_HMEM);
  EXPECT_EQ(declared::kContext, FI_CONTEXT);
  EXPECT_EQ(declared::kContext2, FI_CONTEXT2);
  EXPECT_EQ(declared::kOrderSas, FI_ORDER_SAS);
  EXPECT_EQ(declared::kMrLocal, FI_MR_LOCAL);
  EXPECT_EQ(declared::kMrVirtAddr, FI_MR_VIRT_ADDR);
  EXPECT_EQ(declared::kMrAllocated, FI_MR_ALLOCATED);
  EXPECT_EQ(declared::kMrProvKey, FI_MR_PROV_KEY);
  EXPECT_EQ(declared::kMrEndpoint, FI_MR_ENDPOINT);
  EXPECT_EQ(declared::kMrHmem, FI_MR_HMEM);
  EXPECT_EQ(declared::kEndpointRdm, FI_EP_RDM);
  EXPECT_EQ(declared::kThreadDomain, FI_THREAD_DOMAIN);
  EXPECT_EQ(declared::kProgressManual, FI_PROGRESS_MANUAL);
  EXPECT_EQ(declared::kResourcesManaged, FI_RM_ENABLED);
  EXPECT_EQ(declared::kCqFormatTagged, FI_CQ_FORMAT_TAGGED);
  EXPECT_EQ(declared::kWaitNone, FI_WAIT_NONE);
  EXPECT_EQ(declared::kControlEnable, FI_ENABLE);
  EXPECT_EQ(declared::kBusPci, FI_BUS_PCI);
  EXPECT_EQ(declared::kHmemSystem, FI_HMEM_SYSTEM);
  EXPECT_EQ(declared::kHmemCuda, FI_HMEM_CUDA);
  EXPECT_EQ(declared::kFormatSockaddr, static_cast<uint32_t>(FI_SOCKADDR));
  EXPECT_EQ(declared::kFormatIn, static_cast<uint32_t>(FI_SOCKADDR_IN));
  EXPECT_EQ(declared::kFormatIn6, static_cast<uint32_t>(FI_SOCKADDR_IN6));
  EXPECT_EQ(declared::kErrAvailable, FI_EAVAIL);
  EXPECT_EQ(declared::kErrTruncated, FI_ETRUNC);
  EXPECT_EQ(declared::kNoAddress, FI_ADDR_NOTAVAIL);
  EXPECT_EQ(declared::kVersion, static_cast<uint32_t>(FI_VERSION(1, 17)));
}
#else
TEST(OfiAbi, Constants) { GTEST_SKIP() << "skipped: needs libfabric-dev"; }
#endif
