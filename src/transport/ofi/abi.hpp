// SPDX-License-Identifier: BSD-3-Clause
// Subset of libfabric's ABI used by Weft, so that building needs no libfabric headers
// (docs/adr/0014-libfabric.md). Names drop "fi_" and "FI_"; fields keep their names. Structures only grow at
// the end, and operation tables store their size. test/network/ofi_abi_test.cpp compares these declarations
// with the headers if installed.
#pragma once
#include <sys/types.h>
#include <sys/uio.h>

#include <cstddef>
#include <cstdint>

namespace weft::transport::ofi::abi {

using Address = uint64_t;  ///< fi_addr_t: a peer in an address vector
inline constexpr Address kNoAddress = ~uint64_t{0};

constexpr uint32_t version(uint32_t major, uint32_t minor) { return major << 16 | minor; }
/// Requested API version: older libraries are refused, newer ones are compatible.
inline constexpr uint32_t kVersion = version(1, 17);

// Capabilities and completion flags.
inline constexpr uint64_t kRma = 1ULL << 2, kTagged = 1ULL << 3, kRead = 1ULL << 8, kRecv = 1ULL << 10,
                          kSend = 1ULL << 11, kTransmit = kSend, kWrite = 1ULL << 9, kRemoteRead = 1ULL << 12,
                          kRemoteWrite = 1ULL << 13, kDeliveryComplete = 1ULL << 28, kHmem = 1ULL << 47;
// Mode bits.
inline constexpr uint64_t kContext = 1ULL << 59, kContext2 = 1ULL << 52;
inline constexpr uint64_t kOrderSas = 1ULL << 8;
// Registration modes (mr_mode).
inline constexpr int kMrLocal = 1 << 2, kMrVirtAddr = 1 << 4, kMrAllocated = 1 << 5, kMrProvKey = 1 << 6,
                     kMrEndpoint = 1 << 9, kMrHmem = 1 << 10;
inline constexpr int kEndpointRdm = 3;       // enum fi_ep_type
inline constexpr int kThreadDomain = 3;      // enum fi_threading
inline constexpr int kProgressManual = 2;    // enum fi_progress
inline constexpr int kResourcesManaged = 2;  // enum fi_resource_mgmt
inline constexpr int kCqFormatTagged = 4;    // enum fi_cq_format
inline constexpr int kWaitNone = 0;          // enum fi_wait_obj
inline constexpr int kControlEnable = 6;     // fi_control: FI_ENABLE
inline constexpr int kBusPci = 1;            // enum fi_bus_type
inline constexpr int kHmemSystem = 0, kHmemCuda = 1;
inline constexpr uint32_t kFormatSockaddr = 1, kFormatIn = 2, kFormatIn6 = 3;
// Error codes beyond errno.
inline constexpr int kErrAvailable = 259, kErrTruncated = 265;

struct Fid;
struct Ops {
  size_t size;
  int (*close)(Fid*);
  int (*bind)(Fid*, Fid* other, uint64_t flags);
  int (*control)(Fid*, int command, void* argument);
};
struct Fid {  // first member of every object
  size_t fclass;
  void* context;
  Ops* ops;
};

struct TxAttr {
  uint64_t caps, mode, op_flags, msg_order, comp_order;
  size_t inject_size, size, iov_limit, rma_iov_limit;
  uint32_t tclass;
};
struct RxAttr {
  uint64_t caps, mode, op_flags, msg_order, comp_order;
  size_t total_buffered_recv, size, iov_limit;
};
struct EpAttr {
  int type;
  uint32_t protocol, protocol_version;
  size_t max_msg_size;
};
struct DomainAttr {
  Fid* domain;
  char* name;
  int threading, control_progress, data_progress, resource_mgmt, av_type, mr_mode;
  size_t mr_key_size;
};
struct FabricAttr {
  Fid* fabric;
  char *name, *prov_name;
  uint32_t prov_version, api_version;
};
struct DeviceAttr {
  char *name, *device_id, *device_version, *vendor_id, *driver, *firmware;
};
struct BusAttr {
  int bus_type;
  struct {
    uint16_t domain_id;
    uint8_t bus_id, device_id, function_id;
  } pci;
};
struct LinkAttr {
  char* address;
  size_t mtu, speed;
  int state;
  char* network_type;
};
struct Nic {
  Fid fid;
  DeviceAttr* device_attr;
  BusAttr* bus_attr;
  LinkAttr* link_attr;
};
/// Allocated and copied only by the library (fi_dupinfo), whose structure may have more fields.
struct Info {
  Info* next;
  uint64_t caps, mode;
  uint32_t addr_format;
  size_t src_addrlen, dest_addrlen;
  void *src_addr, *dest_addr;
  Fid* handle;
  TxAttr* tx_attr;
  RxAttr* rx_attr;
  EpAttr* ep_attr;
  DomainAttr* domain_attr;
  FabricAttr* fabric_attr;
  Nic* nic;
};

struct Domain;
struct Fabric;
struct FabricOps {
  size_t size;
  int (*domain)(Fabric*, Info*, Domain**, void* context);
};
struct Fabric {
  Fid fid;
  FabricOps* ops;
  uint32_t api_version;
};

struct AvAttr {
  int type, rx_ctx_bits;
  size_t count, ep_per_node;
  const char* name;
  void* map_addr;
  uint64_t flags;
};
struct Av;
struct AvOps {
  size_t size;
  int (*insert)(Av*, const void* address, size_t count, Address*, uint64_t flags, void* context);
};
struct Av {
  Fid fid;
  AvOps* ops;
};

struct CqAttr {
  size_t size;
  uint64_t flags;
  int format, wait_obj, signaling_vector, wait_cond;
  Fid* wait_set;
};
struct CqEntry {  // fi_cq_tagged_entry
  void* op_context;
  uint64_t flags;
  size_t len;
  void* buf;
  uint64_t data, tag;
};
struct CqError {
  void* op_context;
  uint64_t flags;
  size_t len;
  void* buf;
  uint64_t data, tag;
  size_t olen;
  int err, prov_errno;
  void* err_data;
  size_t err_data_size;
  uint64_t later[6];  ///< reserved for fields of newer libraries
};
struct Cq;
struct CqOps {
  size_t size;
  ssize_t (*read)(Cq*, void* entries, size_t count);
  ssize_t (*readfrom)(Cq*, void* entries, size_t count, Address*);
  ssize_t (*readerr)(Cq*, CqError*, uint64_t flags);
  ssize_t (*sread)(Cq*, void*, size_t, const void*, int);
  ssize_t (*sreadfrom)(Cq*, void*, size_t, Address*, const void*, int);
  int (*signal)(Cq*);
  const char* (*strerror)(Cq*, int prov_errno, const void* err_data, char* text, size_t size);
};
struct Cq {
  Fid fid;
  CqOps* ops;
};

struct Mr {
  Fid fid;
  void* mem_desc;
  uint64_t key;
};
struct MrAttr {
  const iovec* mr_iov;
  size_t iov_count;
  uint64_t access, offset, requested_key;
  void* context;
  size_t auth_key_size;
  uint8_t* auth_key;
  int iface;
  union {
    uint64_t reserved;
    int cuda;
  } device;
  uint64_t later[6];  ///< fields of newer API versions: zero
};
struct MrOps {
  size_t size;
  int (*reg)(Fid* domain, const void*, size_t, uint64_t access, uint64_t offset, uint64_t key, uint64_t flags,
             Mr**, void* context);
  int (*regv)(Fid* domain, const iovec*, size_t, uint64_t, uint64_t, uint64_t, uint64_t, Mr**, void*);
  int (*regattr)(Fid* domain, const MrAttr*, uint64_t flags, Mr**);
};

struct Ep;
struct DomainOps {
  size_t size;
  int (*av_open)(Domain*, AvAttr*, Av**, void* context);
  int (*cq_open)(Domain*, CqAttr*, Cq**, void* context);
  int (*endpoint)(Domain*, Info*, Ep**, void* context);
};
struct Domain {
  Fid fid;
  DomainOps* ops;
  MrOps* mr;
};

struct CmOps {
  size_t size;
  int (*setname)(Fid*, void*, size_t);
  int (*getname)(Fid*, void* address, size_t* length);
};
struct RmaIov {
  uint64_t addr;
  size_t len;
  uint64_t key;
};
struct RmaMessage {  // fi_msg_rma
  const iovec* msg_iov;
  void** desc;
  size_t iov_count;
  Address addr;
  const RmaIov* rma_iov;
  size_t rma_iov_count;
  void* context;
  uint64_t data;
};
struct RmaOps {
  size_t size;
  ssize_t (*read)(Ep*, void* buffer, size_t length, void* desc, Address, uint64_t remote, uint64_t key,
                  void* context);
  ssize_t (*readv)(Ep*, const iovec*, void**, size_t, Address, uint64_t, uint64_t, void*);
  ssize_t (*readmsg)(Ep*, const RmaMessage*, uint64_t);
  ssize_t (*write)(Ep*, const void*, size_t, void*, Address, uint64_t, uint64_t, void*);
  ssize_t (*writev)(Ep*, const iovec*, void**, size_t, Address, uint64_t, uint64_t, void*);
  ssize_t (*writemsg)(Ep*, const RmaMessage*, uint64_t flags);
};
struct TaggedOps {
  size_t size;
  ssize_t (*recv)(Ep*, void* buffer, size_t length, void* desc, Address, uint64_t tag, uint64_t ignore,
                  void* context);
  ssize_t (*recvv)(Ep*, const iovec*, void**, size_t, Address, uint64_t, uint64_t, void*);
  ssize_t (*recvmsg)(Ep*, const void*, uint64_t);
  ssize_t (*send)(Ep*, const void* buffer, size_t length, void* desc, Address, uint64_t tag, void* context);
  ssize_t (*sendv)(Ep*, const iovec*, void**, size_t, Address, uint64_t, void*);
  ssize_t (*sendmsg)(Ep*, const void*, uint64_t);
  ssize_t (*inject)(Ep*, const void* buffer, size_t length, Address, uint64_t tag);
};
struct Ep {
  Fid fid;
  void* ops;
  CmOps* cm;
  void* msg;
  RmaOps* rma;
  TaggedOps* tagged;
};

/// fi_context2: first member of every operation, owned by the provider until completion.
struct OperationContext {
  void* internal[8];
};

}  // namespace weft::transport::ofi::abi
