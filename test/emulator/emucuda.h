// SPDX-License-Identifier: BSD-3-Clause
// Control functions of the emulated CUDA driver for tests, found with dlsym; absent in a real driver.
#pragma once
#ifdef __cplusplus
extern "C" {
#endif
/// Number of calls of a driver function by Weft, i.e. through cuGetProcAddress.
unsigned long emucuda_calls(const char* symbol);
/// Number of forbidden calls by Weft: synchronisation, default stream, new contexts, ...
unsigned long emucuda_forbidden(void);
/// Name of the last forbidden call; "" if none.
const char* emucuda_last_forbidden(void);
/// Replaces the list of injected faults, e.g. "cuMemcpyAsync:3:700,op:1:700"; "" for none. Restarts the
/// counts.
int emucuda_fail(const char* list);
/// Weft's calls of a driver function wait, before they have an effect, until the next emucuda_hold(""). Null:
/// no change. Returns the number of calls that wait.
unsigned long emucuda_hold(const char* symbol);
/// Sets the delay of stream operations in microseconds.
void emucuda_delay(unsigned microseconds);
/// Enables or disables peer access.
void emucuda_peer(int access);
/// Number of driver calls by Weft (weft: 1) or by the application (0) that waited for a resident kernel.
/// `longest`: the longest such wait since the last query, in ns of the kernels' clock.
unsigned long emucuda_resident_kernel_waits(int weft, unsigned long* longest);
/// Number of commands executed by resident kernels.
unsigned long emucuda_resident_kernel_commands(void);
/// Number of copies by Weft that a GPU executes by its compute engine: inside the GPU, and of less than
/// 32 KiB in one row from the host.
unsigned long emucuda_compute_engine_copies(void);
/// Number of completed batch copy kernels.
unsigned long emucuda_batch_copies(void);
/// Number of collectives executed by resident kernels, including timeouts.
unsigned long emucuda_resident_kernel_calls(void);
/// Number of collectives with the direct protocol.
unsigned long emucuda_direct_collectives(void);
/* Launches of the kernels for blocks of any layout; by pairs of ranks, without enqueued calls. */
unsigned long emucuda_block_collectives(void);
unsigned long emucuda_pair_collectives(void);
/// Number of completed collective kernels. `late`: launches that timed out.
unsigned long emucuda_collectives(unsigned long* late);
/// Makes resident kernels exit at random times, with this seed; 0: off.
void emucuda_resident_kernel_exits(unsigned seed);
/// Sets the maximum number of concurrent kernels per device.
void emucuda_kernels(unsigned count);
/// Number of fat binaries whose machine code was loaded. `ptx`: number of those whose PTX was compiled.
unsigned long emucuda_images(unsigned long* ptx);
/// Host alias of device memory, and the buffer id; null: no such allocation.
void* emucuda_alias(unsigned long address, unsigned long size, unsigned long* buffer_id);
/// Host alias of memory that kernels can access, also of other processes' memory; null: no such memory.
void* emucuda_translate(unsigned long address, unsigned long size);
/// A network adapter writes device memory (GPUDirect RDMA). If the device does not order such writes
/// (EMUCUDA_RDMA_ORDER), kernels do not see the data before cuFlushGPUDirectRDMAWrites. Returns 0 without
/// such memory.
int emucuda_remote_write(unsigned long address, const void* data, unsigned long size);
/// Number and bytes of live allocations and mappings in this process.
unsigned long emucuda_live(void);
unsigned long emucuda_live_bytes(void);
#ifdef __cplusplus
}
#endif
