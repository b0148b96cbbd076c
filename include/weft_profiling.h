/* SPDX-License-Identifier: BSD-3-Clause */
/* weft_profiling.h: the profiling interface (PMPIX) of the functions of weft.h, which includes it. */
#ifndef WEFT_PROFILING_H
#define WEFT_PROFILING_H

#include "weft.h"

#ifdef __cplusplus
extern "C" {
#endif

int PMPIX_Query_cuda_support(void);
int PMPIX_Last_error_message(char* message, int size, int* length);
int PMPIX_Op_create_premul_sum(const void* scalar, MPI_Datatype datatype, MPI_Op* op);
int PMPIX_Settings(char* text, int size, int* length);
int PMPIX_Counters(char* text, int size, int* length);
int PMPIX_Machine_name(char* text, int size, int* length);
int PMPIX_Describe_paths(char* text, int size, int* length);
int PMPIX_Explain_send(const char* query, char* text, int size, int* length);
int PMPIX_Explain_collective(const char* query, char* text, int size, int* length);
int PMPIX_Explain_file(const char* query, char* text, int size, int* length);
int PMPIX_Explain_window(const char* query, char* text, int size, int* length);
int PMPIX_Job_by_store(int rank, int size, const char* name, MPIX_Store_put* put, MPIX_Store_get* get,
                       void* state);
int PMPIX_Job_name(char* text, int size, int* length);
int PMPIX_Job_allow_exit(double seconds);
int PMPIX_Info_set_hex(MPI_Info info, const char* key, const void* value, int value_size);
int PMPIX_Stream_create(MPI_Info info, MPIX_Stream* stream);
int PMPIX_Stream_free(MPIX_Stream* stream);
int PMPIX_Stream_comm_create(MPI_Comm comm, MPIX_Stream stream, MPI_Comm* newcomm);
int PMPIX_Stream_comm_create_multiplex(MPI_Comm comm, int count, MPIX_Stream array_of_streams[],
                                       MPI_Comm* newcomm);
int PMPIX_Stream_comm_redirect(MPI_Comm comm, void* cuda_stream);
int PMPIX_Comm_get_stream(MPI_Comm comm, int idx, MPIX_Stream* stream);
int PMPIX_Comm_set_stream(MPI_Comm comm, MPIX_Stream stream);
int PMPIX_Comm_stream_error(MPI_Comm comm, int* errorclass);
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
int PMPIX_Win_flush_enqueue(int rank, MPI_Win win);
int PMPIX_Win_fence_enqueue(int assert, MPI_Win win);
int PMPIX_Win_create_notify(MPI_Win win, int notification_num);
int PMPIX_Win_free_notify(MPI_Win win);
int PMPIX_Win_get_notify(MPI_Win win, int notification_idx, MPI_Count* value);
int PMPIX_Win_set_notify(MPI_Win win, int notification_idx, MPI_Count value);
int PMPIX_Win_wait_notify(MPI_Win win, int notification_idx, MPI_Count value);
int PMPIX_Win_test_notify(MPI_Win win, int notification_idx, MPI_Count value, int* flag);
int PMPIX_Win_wait_notify_enqueue(MPI_Win win, int notification_idx, MPI_Count value);
int PMPIX_Win_device_handle(MPI_Win win, void** handle);
int PMPIX_Win_device_status(MPI_Win win, int* errorclass, int* rank, int* notification_idx);
int PMPIX_Prequest_device_handle(MPI_Request request, void** handle);
int PMPIX_Put_enqueue(const void* origin_addr, int origin_count, MPI_Datatype origin_datatype,
                      int target_rank, MPI_Aint target_disp, int target_count, MPI_Datatype target_datatype,
                      MPI_Win win);
int PMPIX_Get_enqueue(void* origin_addr, int origin_count, MPI_Datatype origin_datatype, int target_rank,
                      MPI_Aint target_disp, int target_count, MPI_Datatype target_datatype, MPI_Win win);
int PMPIX_Accumulate_enqueue(const void* origin_addr, int origin_count, MPI_Datatype origin_datatype,
                             int target_rank, MPI_Aint target_disp, int target_count,
                             MPI_Datatype target_datatype, MPI_Op op, MPI_Win win);
int PMPIX_Put_notify(const void* origin_addr, int origin_count, MPI_Datatype origin_datatype, int target_rank,
                     MPI_Aint target_disp, int target_count, MPI_Datatype target_datatype, MPI_Win win,
                     int notification_idx);
int PMPIX_Get_notify(void* origin_addr, int origin_count, MPI_Datatype origin_datatype, int target_rank,
                     MPI_Aint target_disp, int target_count, MPI_Datatype target_datatype, MPI_Win win,
                     int notification_idx);
int PMPIX_Put_notify_enqueue(const void* origin_addr, int origin_count, MPI_Datatype origin_datatype,
                             int target_rank, MPI_Aint target_disp, int target_count,
                             MPI_Datatype target_datatype, MPI_Win win, int notification_idx);
int PMPIX_Put_enqueue_c(const void* origin_addr, MPI_Count origin_count, MPI_Datatype origin_datatype,
                        int target_rank, MPI_Aint target_disp, MPI_Count target_count,
                        MPI_Datatype target_datatype, MPI_Win win);
int PMPIX_Get_enqueue_c(void* origin_addr, MPI_Count origin_count, MPI_Datatype origin_datatype,
                        int target_rank, MPI_Aint target_disp, MPI_Count target_count,
                        MPI_Datatype target_datatype, MPI_Win win);
int PMPIX_Accumulate_enqueue_c(const void* origin_addr, MPI_Count origin_count, MPI_Datatype origin_datatype,
                               int target_rank, MPI_Aint target_disp, MPI_Count target_count,
                               MPI_Datatype target_datatype, MPI_Op op, MPI_Win win);
int PMPIX_Put_notify_c(const void* origin_addr, MPI_Count origin_count, MPI_Datatype origin_datatype,
                       int target_rank, MPI_Aint target_disp, MPI_Count target_count,
                       MPI_Datatype target_datatype, MPI_Win win, int notification_idx);
int PMPIX_Get_notify_c(void* origin_addr, MPI_Count origin_count, MPI_Datatype origin_datatype,
                       int target_rank, MPI_Aint target_disp, MPI_Count target_count,
                       MPI_Datatype target_datatype, MPI_Win win, int notification_idx);
int PMPIX_Put_notify_enqueue_c(const void* origin_addr, MPI_Count origin_count, MPI_Datatype origin_datatype,
                               int target_rank, MPI_Aint target_disp, MPI_Count target_count,
                               MPI_Datatype target_datatype, MPI_Win win, int notification_idx);

#ifdef __cplusplus
}
#endif

#endif /* WEFT_PROFILING_H */
