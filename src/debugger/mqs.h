// SPDX-License-Identifier: BSD-3-Clause
// The interface between debuggers and libraries that read message queues (Cownie and Gropp, "A standard
// interface for debugger access to message queue information in MPI", 1999), version 2: names, types and
// values.
#pragma once
#include <cstddef>

extern "C" {

enum { MQS_INTERFACE_COMPATIBILITY = 2 };
enum { mqs_ok = 0, mqs_no_information, mqs_end_of_list, mqs_first_user_code = 100 };
enum { mqs_lang_c = 'c' };
enum { mqs_pending_sends, mqs_pending_receives, mqs_unexpected_messages };
enum { MQS_INVALID_PROCESS = -1 };
enum { mqs_st_pending, mqs_st_matched, mqs_st_complete };

typedef unsigned long mqs_taddr_t;
typedef long mqs_tword_t;
typedef struct mqs_image_ mqs_image;      // of the debugger
typedef struct mqs_process_ mqs_process;  // of the debugger
typedef struct mqs_type_ mqs_type;        // of the debugger
typedef struct mqs_image_info_ mqs_image_info;
typedef struct mqs_process_info_ mqs_process_info;

typedef struct {
  int short_size, int_size, long_size, long_long_size, pointer_size;
} mqs_target_type_sizes;

typedef struct {
  mqs_taddr_t unique_id;
  mqs_tword_t local_rank, size;
  char name[64];
} mqs_communicator;

typedef struct {
  int status;
  mqs_tword_t desired_local_rank, desired_global_rank;
  int tag_wild;
  mqs_tword_t desired_tag, desired_length;
  int system_buffer;
  mqs_taddr_t buffer;
  mqs_tword_t actual_local_rank, actual_global_rank, actual_tag, actual_length;
  char extra_text[5][64];
} mqs_pending_operation;

typedef struct {
  void* (*mqs_malloc_fp)(size_t);
  void (*mqs_free_fp)(void*);
  void (*mqs_dprints_fp)(const char*);
  char* (*mqs_errorstring_fp)(int);
  void (*mqs_put_image_info_fp)(mqs_image*, mqs_image_info*);
  mqs_image_info* (*mqs_get_image_info_fp)(mqs_image*);
  void (*mqs_put_process_info_fp)(mqs_process*, mqs_process_info*);
  mqs_process_info* (*mqs_get_process_info_fp)(mqs_process*);
} mqs_basic_callbacks;

typedef struct {
  void (*mqs_get_type_sizes_fp)(mqs_process*, mqs_target_type_sizes*);
  int (*mqs_find_function_fp)(mqs_image*, char*, int, mqs_taddr_t*);
  int (*mqs_find_symbol_fp)(mqs_image*, char*, mqs_taddr_t*);
  mqs_type* (*mqs_find_type_fp)(mqs_image*, char*, int);
  int (*mqs_field_offset_fp)(mqs_type*, char*);
  int (*mqs_sizeof_fp)(mqs_type*);
} mqs_image_callbacks;

typedef struct {
  int (*mqs_get_global_rank_fp)(mqs_process*);
  mqs_image* (*mqs_get_image_fp)(mqs_process*);
  int (*mqs_fetch_data_fp)(mqs_process*, mqs_taddr_t, int, void*);
  void (*mqs_target_to_host_fp)(mqs_process*, const void*, void*, int);
} mqs_process_callbacks;

#define WEFT_MQS [[gnu::visibility("default")]]
WEFT_MQS void mqs_setup_basic_callbacks(const mqs_basic_callbacks*);
WEFT_MQS const char* mqs_version_string(void);
WEFT_MQS int mqs_version_compatibility(void);
WEFT_MQS int mqs_dll_taddr_width(void);
WEFT_MQS const char* mqs_dll_error_string(int);
WEFT_MQS int mqs_setup_image(mqs_image*, const mqs_image_callbacks*);
WEFT_MQS int mqs_image_has_queues(mqs_image*, const char**);
WEFT_MQS void mqs_destroy_image_info(mqs_image_info*);
WEFT_MQS int mqs_setup_process(mqs_process*, const mqs_process_callbacks*);
WEFT_MQS int mqs_process_has_queues(mqs_process*, char**);
WEFT_MQS void mqs_destroy_process_info(mqs_process_info*);
WEFT_MQS int mqs_update_communicator_list(mqs_process*);
WEFT_MQS int mqs_setup_communicator_iterator(mqs_process*);
WEFT_MQS int mqs_get_communicator(mqs_process*, mqs_communicator*);
WEFT_MQS int mqs_get_comm_group(mqs_process*, int*);
WEFT_MQS int mqs_next_communicator(mqs_process*);
WEFT_MQS int mqs_setup_operation_iterator(mqs_process*, int);
WEFT_MQS int mqs_next_operation(mqs_process*, mqs_pending_operation*);

}  // extern "C"
