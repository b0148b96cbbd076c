/* SPDX-License-Identifier: BSD-3-Clause */
/* weft.h: what Weft offers beyond the MPI standard. C and C++. */
#ifndef WEFT_H
#define WEFT_H

#include <mpi.h>

#ifdef __cplusplus
extern "C" {
#endif

/* 1 when this process can pass GPU memory to MPI calls: the CUDA driver is there and Weft has opened it. 0
   otherwise, also before MPI_Init. Known under this name to programs written for other MPI libraries. */
int MPIX_Query_cuda_support(void);

/* Half precision: IEEE binary16 (_Float16, __half) and bfloat16 (__bf16, __nv_bfloat16), 2 bytes each. Sums,
   products, minima and maxima are computed in float. The names are those of
   other MPI libraries. */
#define MPIX_C_FLOAT16 ((MPI_Datatype)0x0000024a)
#define MPIX_BFLOAT16 ((MPI_Datatype)0x0000024b)
#define MPIX_C_BF16 MPIX_BFLOAT16

/* The message of the last error of an MPI call in this thread, "MPI_Send: dest = 7 (...): ...", cut to size -
   1 characters. *length, if not null, gets its whole length; 0 when there was no error. */
int MPIX_Last_error_message(char* message, int size, int* length);

/* All settings, a line each: variable, value, default, "environment", "profile" or "default",
   range, help, separated by
   tabs. Read from the environment as MPI_Init would; when that refuses one, MPI_ERR_ARG and its message
   instead. size and length as above. Before MPI_Init or at any time after it. */
int MPIX_Settings(char* text, int size, int* length);

/* What profiles of settings know this machine by: GPUs, processor, cores. size and length as above. At any
 * time. */
int MPIX_Machine_name(char* text, int size, int* length);

/* What carries messages here, a line a part: name, a tab, text. While MPI is running: the launcher, the ranks
   and hosts of the job, what is used inside a host and between hosts, and for each GPU whether the network
   reaches its memory (GPUDirect), proved or not and why. Before: which networks could be used, and why others
   could not. */
int MPIX_Describe_paths(char* text, int size, int* length);
/* Which way a message to another process of this host would take, at each size up to one, as JSON. query:
   such as "kind=cuda to=cuda bytes=1048576"; kinds: host, pinned, cuda, pool, managed; block=8: the
   sender's data lie in runs of so many bytes. For tools: it initialises the CUDA driver. What is wrong with
   the query, and MPI_ERR_ARG. size and length as above. */
int MPIX_Explain_send(const char* query, char* text, int size, int* length);
/* The same of a collective among the ranks of this host. query: such as "what=allreduce ranks=8 kind=cuda
   bytes=1048576"; kinds: host, or cuda where each rank has a GPU of its own. */
int MPIX_Explain_collective(const char* query, char* text, int size, int* length);

/* A stream of a GPU, or of nothing in particular. */
typedef struct MPIX_ABI_Stream* MPIX_Stream;
#define MPIX_STREAM_NULL ((MPIX_Stream)0)

/* Stores value_size bytes under a key, two hexadecimal digits each: how a stream gets into an info object. */
int MPIX_Info_set_hex(MPI_Info info, const char* key, const void* value, int value_size);

/* Makes a stream. Hints: "type" = "cudaStream_t" and "value" = the cudaStream_t (or CUstream), set by
   MPIX_Info_set_hex. It must not be a default stream, and must live until the communicators made with it are
   freed. Without "type" (or with MPI_INFO_NULL) it is a stream of no GPU. */
int MPIX_Stream_create(MPI_Info info, MPIX_Stream* stream);
int MPIX_Stream_free(MPIX_Stream* stream);

/* Duplicates comm (collective) and gives this rank's side the stream. Either all ranks give a GPU stream or
   none. With GPU streams the communicator takes enqueued operations; MPI_ERR_UNSUPPORTED_OPERATION on all
   ranks when some GPUs cannot map each other's memory. Free it (collective; waits for the streams) before the
   stream's end. */
int MPIX_Stream_comm_create(MPI_Comm comm, MPIX_Stream stream, MPI_Comm* newcomm);
/* The same with count streams (1 or more, which may be MPIX_STREAM_NULL); ranks may give different numbers.
   Messages go from a stream of one rank to a stream of another by the calls below, and match only among
   themselves. Other operations on the communicator are those of a duplicate; nothing can be enqueued. */
int MPIX_Stream_comm_create_multiplex(MPI_Comm comm, int count, MPIX_Stream array_of_streams[],
                                      MPI_Comm* newcomm);
/* The stream comm was made with; MPIX_STREAM_NULL without one. idx: which one, from 0. */
int MPIX_Comm_get_stream(MPI_Comm comm, int idx, MPIX_Stream* stream);

/* From stream number source_stream_index of the sender to stream number dest_stream_index of the receiver;
   both are 0 where a rank has one stream or none. source must not be MPI_ANY_SOURCE. The streams are names:
   the operation takes place now, not in a GPU stream. */
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

/* Sends and receives that run in the stream of comm: the call returns at once, the stream does the operation
   after what was put into it before, and what is put into it later finds it done. They may be captured into a
   CUDA graph, which then does them each time it is launched. They match each other only, by source and tag;
   source must not be MPI_ANY_SOURCE. buf: contiguous data in memory of the stream's GPU, managed or pinned
   memory. A status has to be MPI_STATUS_IGNORE or lie in pinned or managed memory, where the GPU writes it. A
   message that is too long for its receive is cut; a later call on comm returns MPI_ERR_TRUNCATE. The
   nonblocking ones are complete after a wait in the stream; their requests must be given to MPIX_Wait_enqueue
   or MPIX_Waitall_enqueue, within the same capture if there is one, and to no other call. */
int MPIX_Send_enqueue(const void* buf, int count, MPI_Datatype datatype, int dest, int tag, MPI_Comm comm);
int MPIX_Recv_enqueue(void* buf, int count, MPI_Datatype datatype, int source, int tag, MPI_Comm comm,
                      MPI_Status* status);
int MPIX_Isend_enqueue(const void* buf, int count, MPI_Datatype datatype, int dest, int tag, MPI_Comm comm,
                       MPI_Request* request);
int MPIX_Irecv_enqueue(void* buf, int count, MPI_Datatype datatype, int source, int tag, MPI_Comm comm,
                       MPI_Request* request);
/* The stream waits for the operation; the request becomes MPI_REQUEST_NULL. All requests of one call: of one
 * comm. */
int MPIX_Wait_enqueue(MPI_Request* request, MPI_Status* status);
int MPIX_Waitall_enqueue(int count, MPI_Request array_of_requests[], MPI_Status* array_of_statuses);

/* Collectives that run in the stream of comm: every rank enqueues the same ones in the same order. Buffers as
   above; predefined operations that GPUs compute; 16 ranks at most; no nonblocking enqueued operation of comm
   may be under way. Counts have to agree, or the streams wait for ever. */
int MPIX_Allreduce_enqueue(const void* sendbuf, void* recvbuf, int count, MPI_Datatype datatype, MPI_Op op,
                           MPI_Comm comm);
int MPIX_Reduce_scatter_block_enqueue(const void* sendbuf, void* recvbuf, int recvcount,
                                      MPI_Datatype datatype, MPI_Op op, MPI_Comm comm);
int MPIX_Bcast_enqueue(void* buffer, int count, MPI_Datatype datatype, int root, MPI_Comm comm);
int MPIX_Allgather_enqueue(const void* sendbuf, int sendcount, MPI_Datatype sendtype, void* recvbuf,
                           int recvcount, MPI_Datatype recvtype, MPI_Comm comm);
int MPIX_Alltoall_enqueue(const void* sendbuf, int sendcount, MPI_Datatype sendtype, void* recvbuf,
                          int recvcount, MPI_Datatype recvtype, MPI_Comm comm);

/* The same with large counts. */
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

/* The same under the names that profiling libraries call. */
int PMPIX_Query_cuda_support(void);
int PMPIX_Last_error_message(char* message, int size, int* length);
int PMPIX_Settings(char* text, int size, int* length);
int PMPIX_Machine_name(char* text, int size, int* length);
int PMPIX_Describe_paths(char* text, int size, int* length);
int PMPIX_Explain_send(const char* query, char* text, int size, int* length);
int PMPIX_Explain_collective(const char* query, char* text, int size, int* length);
int PMPIX_Info_set_hex(MPI_Info info, const char* key, const void* value, int value_size);
int PMPIX_Stream_create(MPI_Info info, MPIX_Stream* stream);
int PMPIX_Stream_free(MPIX_Stream* stream);
int PMPIX_Stream_comm_create(MPI_Comm comm, MPIX_Stream stream, MPI_Comm* newcomm);
int PMPIX_Stream_comm_create_multiplex(MPI_Comm comm, int count, MPIX_Stream array_of_streams[],
                                       MPI_Comm* newcomm);
int PMPIX_Comm_get_stream(MPI_Comm comm, int idx, MPIX_Stream* stream);
int PMPIX_Stream_send(const void* buf, int count, MPI_Datatype datatype, int dest, int tag, MPI_Comm comm,
                      int source_stream_index, int dest_stream_index);
int PMPIX_Stream_recv(void* buf, int count, MPI_Datatype datatype, int source, int tag, MPI_Comm comm,
                      int source_stream_index, int dest_stream_index, MPI_Status* status);
int PMPIX_Stream_isend(const void* buf, int count, MPI_Datatype datatype, int dest, int tag, MPI_Comm comm,
                       int source_stream_index, int dest_stream_index, MPI_Request* request);
int PMPIX_Stream_irecv(void* buf, int count, MPI_Datatype datatype, int source, int tag, MPI_Comm comm,
                       int source_stream_index, int dest_stream_index, MPI_Request* request);
int PMPIX_Stream_send_c(const void* buf, MPI_Count count, MPI_Datatype datatype, int dest, int tag,
                        MPI_Comm comm, int source_stream_index, int dest_stream_index);
int PMPIX_Stream_recv_c(void* buf, MPI_Count count, MPI_Datatype datatype, int source, int tag, MPI_Comm comm,
                        int source_stream_index, int dest_stream_index, MPI_Status* status);
int PMPIX_Stream_isend_c(const void* buf, MPI_Count count, MPI_Datatype datatype, int dest, int tag,
                         MPI_Comm comm, int source_stream_index, int dest_stream_index, MPI_Request* request);
int PMPIX_Stream_irecv_c(void* buf, MPI_Count count, MPI_Datatype datatype, int source, int tag,
                         MPI_Comm comm, int source_stream_index, int dest_stream_index, MPI_Request* request);
int PMPIX_Send_enqueue(const void* buf, int count, MPI_Datatype datatype, int dest, int tag, MPI_Comm comm);
int PMPIX_Recv_enqueue(void* buf, int count, MPI_Datatype datatype, int source, int tag, MPI_Comm comm,
                       MPI_Status* status);
int PMPIX_Isend_enqueue(const void* buf, int count, MPI_Datatype datatype, int dest, int tag, MPI_Comm comm,
                        MPI_Request* request);
int PMPIX_Irecv_enqueue(void* buf, int count, MPI_Datatype datatype, int source, int tag, MPI_Comm comm,
                        MPI_Request* request);
int PMPIX_Wait_enqueue(MPI_Request* request, MPI_Status* status);
int PMPIX_Waitall_enqueue(int count, MPI_Request array_of_requests[], MPI_Status* array_of_statuses);
int PMPIX_Send_enqueue_c(const void* buf, MPI_Count count, MPI_Datatype datatype, int dest, int tag,
                         MPI_Comm comm);
int PMPIX_Recv_enqueue_c(void* buf, MPI_Count count, MPI_Datatype datatype, int source, int tag,
                         MPI_Comm comm, MPI_Status* status);
int PMPIX_Isend_enqueue_c(const void* buf, MPI_Count count, MPI_Datatype datatype, int dest, int tag,
                          MPI_Comm comm, MPI_Request* request);
int PMPIX_Irecv_enqueue_c(void* buf, MPI_Count count, MPI_Datatype datatype, int source, int tag,
                          MPI_Comm comm, MPI_Request* request);
int PMPIX_Allreduce_enqueue(const void* sendbuf, void* recvbuf, int count, MPI_Datatype datatype, MPI_Op op,
                            MPI_Comm comm);
int PMPIX_Reduce_scatter_block_enqueue(const void* sendbuf, void* recvbuf, int recvcount,
                                       MPI_Datatype datatype, MPI_Op op, MPI_Comm comm);
int PMPIX_Bcast_enqueue(void* buffer, int count, MPI_Datatype datatype, int root, MPI_Comm comm);
int PMPIX_Allgather_enqueue(const void* sendbuf, int sendcount, MPI_Datatype sendtype, void* recvbuf,
                            int recvcount, MPI_Datatype recvtype, MPI_Comm comm);
int PMPIX_Alltoall_enqueue(const void* sendbuf, int sendcount, MPI_Datatype sendtype, void* recvbuf,
                           int recvcount, MPI_Datatype recvtype, MPI_Comm comm);
int PMPIX_Allreduce_enqueue_c(const void* sendbuf, void* recvbuf, MPI_Count count, MPI_Datatype datatype,
                              MPI_Op op, MPI_Comm comm);
int PMPIX_Reduce_scatter_block_enqueue_c(const void* sendbuf, void* recvbuf, MPI_Count recvcount,
                                         MPI_Datatype datatype, MPI_Op op, MPI_Comm comm);
int PMPIX_Bcast_enqueue_c(void* buffer, MPI_Count count, MPI_Datatype datatype, int root, MPI_Comm comm);
int PMPIX_Allgather_enqueue_c(const void* sendbuf, MPI_Count sendcount, MPI_Datatype sendtype, void* recvbuf,
                              MPI_Count recvcount, MPI_Datatype recvtype, MPI_Comm comm);
int PMPIX_Alltoall_enqueue_c(const void* sendbuf, MPI_Count sendcount, MPI_Datatype sendtype, void* recvbuf,
                             MPI_Count recvcount, MPI_Datatype recvtype, MPI_Comm comm);

#ifdef __cplusplus
}
#endif

#endif /* WEFT_H */
