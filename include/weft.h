/* SPDX-License-Identifier: BSD-3-Clause */
/* weft.h: extensions of Weft to the MPI standard. C and C++. The manual pages and docs/extensions.md are
   generated from these comments. A comment describes the declarations that follow it without an empty line,
   a comment with == begins a chapter, and a comment before an empty line introduces one. */
#ifndef WEFT_H
#define WEFT_H

#include <mpi.h>

#ifdef __cplusplus
extern "C" {
#endif

/* == GPU memory and its types == */

/* Returns 1 if this process can pass GPU memory to MPI calls, i.e. Weft has opened the CUDA driver. Returns 0
   otherwise and before MPI_Init. Open MPI has the same function. */
int MPIX_Query_cuda_support(void);

/* Half precision: IEEE binary16 (_Float16, __half) and bfloat16 (__bf16, __nv_bfloat16), 2 bytes each. Sum,
   product, minimum and maximum are computed in float. Other MPI libraries use the same names. */
#define MPIX_C_FLOAT16 ((MPI_Datatype)0x0000024a)
#define MPIX_BFLOAT16 ((MPI_Datatype)0x0000024b)
#define MPIX_C_BF16 MPIX_BFLOAT16

/* 8-bit floating point of the Open Compute Project (OFP8): E4M3 (__nv_fp8_e4m3, float8_e4m3fn of PyTorch and
   JAX) and E5M2, 1 byte each. Sum, product, minimum and maximum are computed in float, and rounded to nearest
   even after each term. A sum beyond the largest number, 448 or 57344, becomes NaN or infinity. */
#define MPIX_FLOAT8_E4M3 ((MPI_Datatype)0x00000242)
#define MPIX_FLOAT8_E5M2 ((MPI_Datatype)0x00000246)

/* == Reductions that scale == */

/* The operations of NCCL that MPI lacks, for MPI_Reduce, MPI_Allreduce, MPI_Reduce_scatter and
   MPI_Reduce_scatter_block on intracommunicators, in all their forms, on predefined types of numbers:
   integers, floating point and complex, also half precision and 8 bits. */

/* The mean: the sum divided by the number of processes; integers are rounded towards zero. Terms of
   MPIX_C_FLOAT16 and of 8-bit types are divided before they are added, because their sum could exceed the
   largest number. */
#define MPIX_AVG ((MPI_Op)0x0000003e)
/* Creates a sum of terms that are multiplied by *scalar first, an element of `datatype`, the only type for
   which the operation is defined. Each process has a scalar of its own. Host memory is copied now; GPU memory
   is read when an operation starts, and must exist until the last one has ended. MPI_Op_free frees the
   operation. MPI_ERR_TYPE: the type is no predefined type of numbers. */
int MPIX_Op_create_premul_sum(const void* scalar, MPI_Datatype datatype, MPI_Op* op);

/* == Queries == */

/* Copies the message of the last MPI error of this thread, "MPI_Send: dest = 7 (...): ...", truncated to
   size - 1 characters. *length, if not null, is set to the untruncated length; 0 if there was no error. */
int MPIX_Last_error_message(char* message, int size, int* length);

/* Lists all settings, one per line: variable, value, default, origin ("environment", "profile", "default", or
   the path of a file of the site), level ("user", or "internal" for tests, measurements and tuning profiles),
   range, help, and for user settings when to change them (completes "Change it when"); separated by tabs.
   Reads the environment as MPI_Init does; for an invalid setting it returns MPI_ERR_ARG and the error
   message. size and length as in MPIX_Last_error_message. May be called at any time. */
int MPIX_Settings(char* text, int size, int* length);

/* Lists what the library has counted in this process, one counter per line in alphabetical order: name,
   value, unit ("events", "bytes", "ns", or "objects" for a current number) and help, separated by tabs. A
   slow path is a counter, with its cost as help. size and length as in MPIX_Last_error_message. May be called
   at any time. */
int MPIX_Counters(char* text, int size, int* length);

/* Copies the name of this machine in tuning profiles: GPUs, processor, cores. size and length as in
   MPIX_Last_error_message. May be called at any time. */
int MPIX_Machine_name(char* text, int size, int* length);

/* Describes the transports, one per line: name, a tab, text. While MPI is running: the launcher, the ranks
   and hosts of the job, the transports within a host and between hosts, and for each GPU whether GPUDirect
   RDMA is used, with the reason. Before MPI_Init: the networks that are usable, and why others are not. size
   and length as in MPIX_Last_error_message. */
int MPIX_Describe_paths(char* text, int size, int* length);
/* Describes the protocol of a message to another process of this host for each size up to `bytes`, as JSON.
   query: e.g. "kind=cuda to=cuda bytes=1048576"; kinds: host, pinned, cuda, pool, managed; block=8: the send
   data consists of contiguous runs of 8 bytes. For tools: initialises the CUDA driver. For an invalid query
   it returns MPI_ERR_ARG and the error message. size and length as in MPIX_Last_error_message. */
int MPIX_Explain_send(const char* query, char* text, int size, int* length);
/* MPIX_Explain_send for a collective among ranks of this host. query: e.g. "what=allreduce ranks=8 kind=cuda
   bytes=1048576"; kinds: host, or cuda with one GPU per rank. Errors, size and length as in
   MPIX_Explain_send. */
int MPIX_Explain_collective(const char* query, char* text, int size, int* length);
/* Describes how data reaches a file, as JSON. query: "kind=cuda path=/scratch/out"; kinds: host, cuda. The
   file may be absent; it is not created. Errors, size and length as in MPIX_Explain_send. */
int MPIX_Explain_file(const char* query, char* text, int size, int* length);
/* Describes how one-sided operations of up to `bytes` bytes on a process of this host are executed, as JSON.
   query: "what=put kind=cuda to=cuda window=create bytes=8"; what: put, get, accumulate, get_accumulate,
   fetch_and_op, compare_and_swap; kinds as for MPIX_Explain_send, of the origin buffer and of the window
   (to); window: create, or allocate, which is also memory of MPI_Alloc_mem. Errors, size and length as in
   MPIX_Explain_send. */
int MPIX_Explain_window(const char* query, char* text, int size, int* length);

/* == Start by a key-value store == */

/* Programs whose processes are started by torchrun, Ray or Dask have no MPI launcher, but a key-value store.
   They can form a job by it. */

/* Stores `bytes` bytes under a key. Returns 0, or another number on failure. */
typedef int MPIX_Store_put(void* state, const char* key, const void* value, int bytes);
/* Waits until process `owner` has stored a value under the key, and copies it, truncated to `capacity` bytes.
   Returns the untruncated length in bytes, or a negative number on failure. */
typedef int MPIX_Store_get(void* state, const char* key, int owner, void* value, int capacity);

/* Makes this process rank `rank` of a job of `size` processes that exchange their addresses by a store.
   Variables of launchers in the environment are ignored. name: at most 64 characters, the same in all
   processes of the job, and of no other job that runs. The functions are called in any thread that calls MPI,
   one at a time, until MPI is finalized; keys have at most 48 characters of [A-Za-z0-9._-], values some
   hundred bytes. A job goes on when one of its processes fails, as under mpiexec --continue-on-failure. Call
   it before MPI_Init and MPI_Session_init. MPI_ERR_ARG: an argument is invalid. MPI_ERR_OTHER: MPI was
   initialised, or a store was passed already. */
int MPIX_Job_by_store(int rank, int size, const char* name, MPIX_Store_put* put, MPIX_Store_get* get,
                      void* state);
/* Copies the name of the job of this process: the same in all its processes, and of no other job that runs.
   Empty before MPI_Init. size and length as in MPIX_Last_error_message. */
int MPIX_Job_name(char* text, int size, int* length);
/* From now on this process may end by exit(0) while sessions are open: then it leaves the job, which goes on.
   The launcher does not take it for failed; the operations of others that need it end with
   MPIX_ERR_PROC_FAILED, up to a second later. All processes of the job call it. A process that has called
   MPI_Init still has to call MPI_Finalize, and another exit status, _exit, a signal or MPI_Abort is a failure
   as before. Waits until the messages of completed sends have left this process, for `seconds` at most (0 to
   1e6), and at exit until processes on other hosts have received them, for as long: a process receives while
   it is inside of MPI. May be called again before the exit. MPI must be initialised. MPI_ERR_ARG: seconds is
   out of range. */
int MPIX_Job_allow_exit(double seconds);

/* == Fault tolerance == */

/* User-Level Failure Mitigation as the MPI Forum proposes it; see docs/fault-tolerance.md. Jobs of mpiexec
   --continue-on-failure go on when a process ends; in other jobs the launcher ends them. */

/* Error classes: a process that the operation needs has failed; the same of a receive from any source, which
   stays active; the communicator, window or file is revoked. */
#define MPIX_ERR_PROC_FAILED 16001
#define MPIX_ERR_PROC_FAILED_PENDING 16002
#define MPIX_ERR_REVOKED 16003

/* Ends all operations on a communicator, now and in future, at all its processes, with MPIX_ERR_REVOKED. Not
   collective. The functions of this section still work on it. */
int MPIX_Comm_revoke(MPI_Comm comm);
/* Sets *flag to 1 if the communicator is known to be revoked here, else to 0. */
int MPIX_Comm_is_revoked(MPI_Comm comm, int* flag);
/* Stores the group of the processes that are known here to have failed. A later group begins with an earlier
   one. */
int MPIX_Comm_get_failed(MPI_Comm comm, MPI_Group* failedgrp);
/* Acknowledges the first num_to_ack processes of the group of MPIX_Comm_get_failed: receives from any
   source wait for the other processes, and MPIX_Comm_agree does not fail because of them. *num_acked: how
   many are acknowledged. */
int MPIX_Comm_ack_failed(MPI_Comm comm, int num_to_ack, int* num_acked);
/* Former functions of the proposal. MPIX_Comm_failure_ack acknowledges all known failures;
   MPIX_Comm_failure_get_acked stores the group of the acknowledged processes. */
int MPIX_Comm_failure_ack(MPI_Comm comm);
int MPIX_Comm_failure_get_acked(MPI_Comm comm, MPI_Group* failedgrp);
/* Collective over the processes that are alive: *flag becomes the bitwise and of the flags, the same
   everywhere. If a process has failed whose failure not all have acknowledged, all return
   MPIX_ERR_PROC_FAILED, and *flag is agreed all the same. Works on revoked communicators. MPIX_Comm_iagree
   is the nonblocking form. */
int MPIX_Comm_agree(MPI_Comm comm, int* flag);
int MPIX_Comm_iagree(MPI_Comm comm, int* flag, MPI_Request* request);
/* Collective over the processes that are alive: a communicator of them, in the same order. Works on revoked
   communicators. The communicator of MPIX_Comm_ishrink is usable once its request is complete. */
int MPIX_Comm_shrink(MPI_Comm comm, MPI_Comm* newcomm);
int MPIX_Comm_ishrink(MPI_Comm comm, MPI_Comm* newcomm, MPI_Request* request);
/* MPIX_Comm_revoke, MPIX_Comm_is_revoked and MPIX_Comm_get_failed for windows and files, whose processes are
   those of the communicator that they were made from. */
int MPIX_Win_revoke(MPI_Win win);
int MPIX_Win_is_revoked(MPI_Win win, int* flag);
int MPIX_Win_get_failed(MPI_Win win, MPI_Group* failedgrp);
int MPIX_File_revoke(MPI_File fh);
int MPIX_File_is_revoked(MPI_File fh, int* flag);
int MPIX_File_get_failed(MPI_File fh, MPI_Group* failedgrp);
/* mpi4py, compiled with CFLAGS="-include weft.h", calls the functions that are named here. */
#define PyMPI_HAVE_MPIX_ERR_REVOKED 1
#define PyMPI_HAVE_MPIX_ERR_PROC_FAILED 1
#define PyMPI_HAVE_MPIX_ERR_PROC_FAILED_PENDING 1
#define PyMPI_HAVE_MPIX_Comm_revoke 1
#define PyMPI_HAVE_MPIX_Comm_is_revoked 1
#define PyMPI_HAVE_MPIX_Comm_get_failed 1
#define PyMPI_HAVE_MPIX_Comm_ack_failed 1
#define PyMPI_HAVE_MPIX_Comm_agree 1
#define PyMPI_HAVE_MPIX_Comm_iagree 1
#define PyMPI_HAVE_MPIX_Comm_shrink 1
#define PyMPI_HAVE_MPIX_Comm_ishrink 1

/* == Streams == */

/* A CUDA stream, or a stream without a GPU. */
typedef struct MPIX_ABI_Stream* MPIX_Stream;
#define MPIX_STREAM_NULL ((MPIX_Stream)0)

/* Stores value_size bytes under a key, as two hexadecimal digits per byte. Used to pass a CUDA stream in an
   info object. */
int MPIX_Info_set_hex(MPI_Info info, const char* key, const void* value, int value_size);

/* Creates a stream. Hints: "type" = "cudaStream_t" and "value" = the cudaStream_t (or CUstream), set with
   MPIX_Info_set_hex. The CUDA stream must outlive the communicators created with it; a default stream
   belongs to the GPU that is current. "weft_stream_order" = "true": ordinary calls on communicators of the
   stream are enqueued (docs/streams.md). "weft_stream_order_pinned" = "true": they access pinned host memory
   in stream order, too. "weft_stream_kernels" = "true": only kernels may execute enqueued operations, not the
   host; MPIX_Stream_comm_create fails otherwise, on all ranks, with MPI_ERR_UNSUPPORTED_OPERATION. With
   "weft_stream_order" = "true" on all ranks, "weft_stream_kernels" = "prefer" or "true" is the promise that
   the communicator's calls use GPU memory, regular datatypes and no MPI_ANY_SOURCE, so that kernels execute
   ordinary calls, too; with "prefer" the host does, if kernels cannot (docs/streams.md). Without "type" (or
   with MPI_INFO_NULL) the stream has no GPU. MPIX_Stream_free frees the handle. */
int MPIX_Stream_create(MPI_Info info, MPIX_Stream* stream);
int MPIX_Stream_free(MPIX_Stream* stream);

/* Duplicates comm and attaches the stream of this rank. Collective. Either all ranks pass a GPU stream or
   none does; with "weft_stream_order" in the hints of one rank's stream, any ranks may pass none. GPU streams
   allow enqueued operations: kernels execute them, or the host, if a rank passes a default stream or the GPUs
   cannot map each other's memory. Free the communicator (collective; waits for the streams) before the
   stream.
   */
int MPIX_Stream_comm_create(MPI_Comm comm, MPIX_Stream stream, MPI_Comm* newcomm);
/* Puts the operations that are enqueued on comm from now on into another CUDA stream of the same GPU, which
   may be a default stream. comm must be of MPIX_Stream_comm_create, with kernels that execute its operations.
   The caller makes cuda_stream, a cudaStream_t, wait for the earlier operations, as with an event. Before
   MPI_Comm_free, which waits for the current stream of comm only, do the same. Local. MPI_ERR_COMM: comm has
   no such stream, or nonblocking enqueued operations without a wait. */
int MPIX_Stream_comm_redirect(MPI_Comm comm, void* cuda_stream);
/* MPIX_Stream_comm_create with count streams (1 or more, each may be MPIX_STREAM_NULL); count may differ
   between ranks. MPIX_Stream_send and related calls send from a stream of one rank to a stream of another and
   match only each other. Other operations work as on a duplicate of comm; nothing can be enqueued. */
int MPIX_Stream_comm_create_multiplex(MPI_Comm comm, int count, MPIX_Stream array_of_streams[],
                                      MPI_Comm* newcomm);
/* Returns stream number idx (from 0) of comm; MPIX_STREAM_NULL if comm has no stream. */
int MPIX_Comm_get_stream(MPI_Comm comm, int idx, MPIX_Stream* stream);

/* Makes the calls of this rank on comm, and on windows made from it afterwards, run in the order of a GPU
   stream; MPIX_STREAM_NULL, or a stream without GPU: on the host again. Local; other ranks may do so or not.
   Allowed during a capture of the stream. docs/streams.md tells which calls are enqueued, and which make the
   host wait. MPI_ERR_UNSUPPORTED_OPERATION: the streams of the GPU cannot await words in memory. */
int MPIX_Comm_set_stream(MPI_Comm comm, MPIX_Stream stream);
/* Stores the error class of the first call on comm, or on its windows, that has failed in stream order since
   the last time, and clears it; MPI_SUCCESS: none. The next call on comm returns it otherwise.
   MPIX_Last_error_message has its text, with the rank that has failed if there is one. */
int MPIX_Comm_stream_error(MPI_Comm comm, int* errorclass);

/* Sends from stream number source_stream_index of the sender to stream number dest_stream_index of the
   receiver; the index is 0 for a rank with one stream or none. source must not be MPI_ANY_SOURCE. Streams
   only select the matching: the host executes the operation, not a GPU stream. */
int MPIX_Stream_send(const void* buf, int count, MPI_Datatype datatype, int dest, int tag, MPI_Comm comm,
                     int source_stream_index, int dest_stream_index);
int MPIX_Stream_recv(void* buf, int count, MPI_Datatype datatype, int source, int tag, MPI_Comm comm,
                     int source_stream_index, int dest_stream_index, MPI_Status* status);
int MPIX_Stream_isend(const void* buf, int count, MPI_Datatype datatype, int dest, int tag, MPI_Comm comm,
                      int source_stream_index, int dest_stream_index, MPI_Request* request);
int MPIX_Stream_irecv(void* buf, int count, MPI_Datatype datatype, int source, int tag, MPI_Comm comm,
                      int source_stream_index, int dest_stream_index, MPI_Request* request);
int MPIX_Stream_send_c(const void* buf, MPI_Count count, MPI_Datatype datatype, int dest, int tag,
                       MPI_Comm comm, int source_stream_index, int dest_stream_index);
int MPIX_Stream_recv_c(void* buf, MPI_Count count, MPI_Datatype datatype, int source, int tag, MPI_Comm comm,
                       int source_stream_index, int dest_stream_index, MPI_Status* status);
int MPIX_Stream_isend_c(const void* buf, MPI_Count count, MPI_Datatype datatype, int dest, int tag,
                        MPI_Comm comm, int source_stream_index, int dest_stream_index, MPI_Request* request);
int MPIX_Stream_irecv_c(void* buf, MPI_Count count, MPI_Datatype datatype, int source, int tag, MPI_Comm comm,
                        int source_stream_index, int dest_stream_index, MPI_Request* request);

/* == Messages and collectives in a GPU stream == */

/* Sends and receives in the stream of comm. The call returns immediately; the stream executes the operation
   in order with its other work. Operations may be captured into a CUDA graph, which executes them at each
   launch. They match only each other, by source and tag; source must not be MPI_ANY_SOURCE. buf: contiguous
   data in memory of the stream's GPU, managed or pinned memory. A status must be MPI_STATUS_IGNORE or in
   pinned or managed memory, because the GPU writes it. A message longer than the receive buffer is truncated;
   a later call on comm returns MPI_ERR_TRUNCATE. Nonblocking operations are complete after a wait in the
   stream. Pass their requests only to MPIX_Wait_enqueue or MPIX_Waitall_enqueue, within the same capture if
   there is one, or to MPI_Request_free: the operation takes place without a wait, before the next collective
   of comm; one of a capture without a wait in it does not. */
int MPIX_Send_enqueue(const void* buf, int count, MPI_Datatype datatype, int dest, int tag, MPI_Comm comm);
int MPIX_Recv_enqueue(void* buf, int count, MPI_Datatype datatype, int source, int tag, MPI_Comm comm,
                      MPI_Status* status);
int MPIX_Isend_enqueue(const void* buf, int count, MPI_Datatype datatype, int dest, int tag, MPI_Comm comm,
                       MPI_Request* request);
int MPIX_Irecv_enqueue(void* buf, int count, MPI_Datatype datatype, int source, int tag, MPI_Comm comm,
                       MPI_Request* request);
/* Makes the stream wait for operations; sets the requests to MPI_REQUEST_NULL. All requests must belong to
   the same communicator. */
int MPIX_Wait_enqueue(MPI_Request* request, MPI_Status* status);
int MPIX_Waitall_enqueue(int count, MPI_Request array_of_requests[], MPI_Status* array_of_statuses);

/* Collectives in the stream of comm: all ranks enqueue the same operations in the same order. Buffers as in
   MPIX_Send_enqueue; predefined operations with GPU support; at most 16 ranks; no pending nonblocking
   enqueued operation on comm. Counts must match on all ranks; otherwise the streams hang. */
int MPIX_Allreduce_enqueue(const void* sendbuf, void* recvbuf, int count, MPI_Datatype datatype, MPI_Op op,
                           MPI_Comm comm);
int MPIX_Reduce_scatter_block_enqueue(const void* sendbuf, void* recvbuf, int recvcount,
                                      MPI_Datatype datatype, MPI_Op op, MPI_Comm comm);
int MPIX_Bcast_enqueue(void* buffer, int count, MPI_Datatype datatype, int root, MPI_Comm comm);
int MPIX_Allgather_enqueue(const void* sendbuf, int sendcount, MPI_Datatype sendtype, void* recvbuf,
                           int recvcount, MPI_Datatype recvtype, MPI_Comm comm);
int MPIX_Alltoall_enqueue(const void* sendbuf, int sendcount, MPI_Datatype sendtype, void* recvbuf,
                          int recvcount, MPI_Datatype recvtype, MPI_Comm comm);

/* == One-sided communication in a GPU stream == */

/* One-sided operations in a GPU stream: that of the communicator (MPIX_Stream_comm_create) on which the
   window was created. The calls return immediately; the stream executes the operations in order with its
   other work. They may be captured into a CUDA graph. An epoch must be open at the call (MPI_Win_lock_all, or
   a fence), and the window memory of the target must be GPU memory that the stream's GPU can access.
   Contiguous datatypes. origin_addr: memory of the stream's GPU, managed or pinned memory, which must not
   change until the stream has executed the operation. Accumulate: predefined operations on aligned elements
   of at most 8 bytes, atomic with all accumulate operations on the window. Wait for the stream before
   MPI_Win_unlock_all and MPI_Win_free; the stream outlives the window. */
int MPIX_Put_enqueue(const void* origin_addr, int origin_count, MPI_Datatype origin_datatype, int target_rank,
                     MPI_Aint target_disp, int target_count, MPI_Datatype target_datatype, MPI_Win win);
int MPIX_Get_enqueue(void* origin_addr, int origin_count, MPI_Datatype origin_datatype, int target_rank,
                     MPI_Aint target_disp, int target_count, MPI_Datatype target_datatype, MPI_Win win);
int MPIX_Accumulate_enqueue(const void* origin_addr, int origin_count, MPI_Datatype origin_datatype,
                            int target_rank, MPI_Aint target_disp, int target_count,
                            MPI_Datatype target_datatype, MPI_Op op, MPI_Win win);
/* Earlier operations of the stream on `rank` are complete at the target before later work of the stream. */
int MPIX_Win_flush_enqueue(int rank, MPI_Win win);
/* MPI_Win_fence in the stream: all ranks enqueue it. The operations of all ranks before it are complete
   before later work of each stream. */
int MPIX_Win_fence_enqueue(int assert, MPI_Win win);

/* == Notifications == */

/* Notifications: 64-bit counters of each rank of a window, numbered from 0, initially 0. Names as in Intel
   MPI; the order of arguments is that of the proposal to the MPI Forum. MPIX_Win_create_notify is collective,
   with a number of counters that may differ between ranks; MPIX_Win_free_notify is collective, and
   MPI_Win_free includes it. */
int MPIX_Win_create_notify(MPI_Win win, int notification_num);
int MPIX_Win_free_notify(MPI_Win win);
/* Reads and writes a counter of the calling rank. */
int MPIX_Win_get_notify(MPI_Win win, int notification_idx, MPI_Count* value);
int MPIX_Win_set_notify(MPI_Win win, int notification_idx, MPI_Count value);
/* Waits until a counter of the calling rank is at least `value`, then subtracts `value` from it. Test: flag
   tells whether it was and has been subtracted. */
int MPIX_Win_wait_notify(MPI_Win win, int notification_idx, MPI_Count value);
int MPIX_Win_test_notify(MPI_Win win, int notification_idx, MPI_Count value, int* flag);
/* MPI_Put and MPI_Get that add 1 to a counter of the target when the target's memory has been written or
   read. Earlier operations on the target are then complete there, too. */
int MPIX_Put_notify(const void* origin_addr, int origin_count, MPI_Datatype origin_datatype, int target_rank,
                    MPI_Aint target_disp, int target_count, MPI_Datatype target_datatype, MPI_Win win,
                    int notification_idx);
int MPIX_Get_notify(void* origin_addr, int origin_count, MPI_Datatype origin_datatype, int target_rank,
                    MPI_Aint target_disp, int target_count, MPI_Datatype target_datatype, MPI_Win win,
                    int notification_idx);
/* MPIX_Put_notify and MPIX_Win_wait_notify in a GPU stream; what MPIX_Put_enqueue requires holds here, too.
 */
int MPIX_Put_notify_enqueue(const void* origin_addr, int origin_count, MPI_Datatype origin_datatype,
                            int target_rank, MPI_Aint target_disp, int target_count,
                            MPI_Datatype target_datatype, MPI_Win win, int notification_idx);
int MPIX_Win_wait_notify_enqueue(MPI_Win win, int notification_idx, MPI_Count value);

/* == Kernels == */

/* Returns the address in GPU memory with which kernels construct a weft::device::Window (weft_device.cuh).
   Requires MPIX_Win_create_notify; valid until MPIX_Win_free_notify or MPI_Win_free. Has the ranks of all
   hosts. MPI_ERR_UNSUPPORTED_OPERATION, with the reason: this GPU cannot access memory of this host. */
int MPIX_Win_device_handle(MPI_Win win, void** handle);
/* Returns the class of the first error that a kernel has met (MPIX_ERR_PROC_FAILED: `rank` has failed), its
   rank (-1: the calling rank) and counter, and resets it; MPI_SUCCESS: none. Both pointers may be null. */
int MPIX_Win_device_status(MPI_Win win, int* errorclass, int* rank, int* notification_idx);

/* Returns the address with which kernels construct a weft::device::PartitionedRequest (weft_device.cuh), to
   mark partitions of a request of MPI_Psend_init ready, or to see those of MPI_Precv_init arrive. Valid until
   the request is freed. Uses the current CUDA context; MPI_ERR_UNSUPPORTED_OPERATION without one. */
int MPIX_Prequest_device_handle(MPI_Request request, void** handle);

/* Large-count variants. */
int MPIX_Put_enqueue_c(const void* origin_addr, MPI_Count origin_count, MPI_Datatype origin_datatype,
                       int target_rank, MPI_Aint target_disp, MPI_Count target_count,
                       MPI_Datatype target_datatype, MPI_Win win);
int MPIX_Get_enqueue_c(void* origin_addr, MPI_Count origin_count, MPI_Datatype origin_datatype,
                       int target_rank, MPI_Aint target_disp, MPI_Count target_count,
                       MPI_Datatype target_datatype, MPI_Win win);
int MPIX_Accumulate_enqueue_c(const void* origin_addr, MPI_Count origin_count, MPI_Datatype origin_datatype,
                              int target_rank, MPI_Aint target_disp, MPI_Count target_count,
                              MPI_Datatype target_datatype, MPI_Op op, MPI_Win win);
int MPIX_Put_notify_c(const void* origin_addr, MPI_Count origin_count, MPI_Datatype origin_datatype,
                      int target_rank, MPI_Aint target_disp, MPI_Count target_count,
                      MPI_Datatype target_datatype, MPI_Win win, int notification_idx);
int MPIX_Get_notify_c(void* origin_addr, MPI_Count origin_count, MPI_Datatype origin_datatype,
                      int target_rank, MPI_Aint target_disp, MPI_Count target_count,
                      MPI_Datatype target_datatype, MPI_Win win, int notification_idx);
int MPIX_Put_notify_enqueue_c(const void* origin_addr, MPI_Count origin_count, MPI_Datatype origin_datatype,
                              int target_rank, MPI_Aint target_disp, MPI_Count target_count,
                              MPI_Datatype target_datatype, MPI_Win win, int notification_idx);
int MPIX_Send_enqueue_c(const void* buf, MPI_Count count, MPI_Datatype datatype, int dest, int tag,
                        MPI_Comm comm);
int MPIX_Recv_enqueue_c(void* buf, MPI_Count count, MPI_Datatype datatype, int source, int tag, MPI_Comm comm,
                        MPI_Status* status);
int MPIX_Isend_enqueue_c(const void* buf, MPI_Count count, MPI_Datatype datatype, int dest, int tag,
                         MPI_Comm comm, MPI_Request* request);
int MPIX_Irecv_enqueue_c(void* buf, MPI_Count count, MPI_Datatype datatype, int source, int tag,
                         MPI_Comm comm, MPI_Request* request);
int MPIX_Allreduce_enqueue_c(const void* sendbuf, void* recvbuf, MPI_Count count, MPI_Datatype datatype,
                             MPI_Op op, MPI_Comm comm);
int MPIX_Reduce_scatter_block_enqueue_c(const void* sendbuf, void* recvbuf, MPI_Count recvcount,
                                        MPI_Datatype datatype, MPI_Op op, MPI_Comm comm);
int MPIX_Bcast_enqueue_c(void* buffer, MPI_Count count, MPI_Datatype datatype, int root, MPI_Comm comm);
int MPIX_Allgather_enqueue_c(const void* sendbuf, MPI_Count sendcount, MPI_Datatype sendtype, void* recvbuf,
                             MPI_Count recvcount, MPI_Datatype recvtype, MPI_Comm comm);
int MPIX_Alltoall_enqueue_c(const void* sendbuf, MPI_Count sendcount, MPI_Datatype sendtype, void* recvbuf,
                            MPI_Count recvcount, MPI_Datatype recvtype, MPI_Comm comm);

#ifdef __cplusplus
}
#endif

#include "weft_profiling.h"

#endif /* WEFT_H */
