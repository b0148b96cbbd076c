// SPDX-License-Identifier: BSD-3-Clause
// Controls of the emulated CUDA driver for tests, found with dlsym; a real driver has none of them.
#pragma once
#ifdef __cplusplus
extern "C" {
#endif
/// Calls that Weft (whoever found its functions by cuGetProcAddress) made of a driver function so far.
unsigned long emucuda_calls(const char* symbol);
/// Calls of Weft's that break its promises: synchronisation, default stream, new contexts, ...
unsigned long emucuda_forbidden(void);
/// Name of the last forbidden call, or "".
const char* emucuda_last_forbidden(void);
/// Replaces the list of faults: "cuMemcpyAsync:3:700,op:1:700"; "" for none. Counting starts here.
int emucuda_fail(const char* list);
/// How late streams run, in microseconds.
void emucuda_delay(unsigned microseconds);
/// Whether devices can access each other.
void emucuda_peer(int access);
/// Times that a call of Weft's (weft: 1) or of the application's (0) had to wait for a running copier; the
/// longest such wait since this was asked last, in ns of the kernels' own clock.
unsigned long emucuda_copier_waits(int weft, unsigned long* longest);
/// Commands that copiers have served.
unsigned long emucuda_copier_commands(void);
/// Lists that copy kernels have copied.
unsigned long emucuda_lists(void);
/// Collectives that copiers have done, well or late.
unsigned long emucuda_copier_calls(void);
/// Those that kernels have done in the buffers of all ranks.
unsigned long emucuda_direct_collectives(void);
/// Collectives that kernels have done; launches of such kernels that left early.
unsigned long emucuda_collectives(unsigned long* late);
/// Lets copiers leave at random from now on, by this seed; 0: no more.
void emucuda_copier_exits(unsigned seed);
/// How many kernels run at a time on a device.
void emucuda_kernels(unsigned count);
/// Fat binaries, and machine code of one generation, that were loaded.
unsigned long emucuda_images(unsigned long* cubins);
/// The emulator's own view of device memory, and the buffer's id; null: there is none.
void* emucuda_alias(unsigned long address, unsigned long size, unsigned long* buffer_id);
/// Allocations and mappings that are live in this process.
unsigned long emucuda_live(void);
unsigned long emucuda_live_bytes(void);
#ifdef __cplusplus
}
#endif
