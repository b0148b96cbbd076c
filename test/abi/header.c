/* SPDX-License-Identifier: BSD-3-Clause */
/* Compiled by header.py: sizes, independently written values, and constants in constant expressions. */
#include <mpi-ext.h>
#include <mpi.h>
#include <stddef.h>
#include <weft.h>

/* Static assertion for C99, which has no _Static_assert. */
#define JOIN_(a, b) a##b
#define JOIN(a, b) JOIN_(a, b)
#define CHECK(condition) typedef char JOIN(check_, __LINE__)[(condition) ? 1 : -1]

CHECK(sizeof(MPI_Status) == 32);
CHECK(offsetof(MPI_Status, MPI_SOURCE) == 0);
CHECK(offsetof(MPI_Status, MPI_TAG) == 4);
CHECK(offsetof(MPI_Status, MPI_ERROR) == 8);
CHECK(sizeof(MPI_Aint) == sizeof(void*));
CHECK(sizeof(MPI_Offset) == 8 && sizeof(MPI_Count) == 8);
CHECK(sizeof(MPI_Comm) == sizeof(void*) && sizeof(MPI_Request) == sizeof(void*));
CHECK((MPI_Aint)-1 < 0 && (MPI_Count)-1 < 0 && (MPI_Offset)-1 < 0);

CHECK(MPI_VERSION == 5 && MPI_SUBVERSION == 0 && MPI_ABI_VERSION == 1 && MPI_ABI_SUBVERSION == 0);
CHECK(MPI_SUCCESS == 0 && MPI_ERR_BUFFER == 1 && MPI_ERR_RANK == 6 && MPI_ERR_REQUEST == 7 &&
      MPI_ERR_ARG == 13);
CHECK(MPI_ERR_TRUNCATE == 15 && MPI_ERR_PENDING == 18 && MPI_ERR_IN_STATUS == 19 && MPI_ERR_ABI == 62);
CHECK(MPI_ERR_LASTCODE == 0x3fff);
CHECK(MPI_ANY_SOURCE == -1 && MPI_ANY_TAG == -2 && MPI_PROC_NULL == -3 && MPI_ROOT == -4 &&
      MPI_UNDEFINED == -32766);
CHECK(MPI_THREAD_SINGLE < MPI_THREAD_FUNNELED && MPI_THREAD_FUNNELED < MPI_THREAD_SERIALIZED);
CHECK(MPI_THREAD_SERIALIZED < MPI_THREAD_MULTIPLE && MPI_THREAD_MULTIPLE == 4096);
CHECK(MPI_IDENT == 201 && MPI_UNEQUAL == 204 && MPI_COMM_TYPE_SHARED == 221 && MPI_TAG_UB == 501);
CHECK(MPI_COMBINER_NAMED == 101 && MPI_COMBINER_RESIZED == 116 && MPI_ORDER_C == 12 &&
      MPI_ORDER_FORTRAN == 15);
CHECK(MPI_MAX_ERROR_STRING == 512 && MPI_MAX_PROCESSOR_NAME == 256 && MPI_MAX_OBJECT_NAME == 128);
CHECK(MPI_MAX_LIBRARY_VERSION_STRING == 8192 && MPI_MAX_INFO_KEY == 256 && MPI_BSEND_OVERHEAD == 512);
CHECK(MPI_F_STATUS_SIZE == 8 && MPI_F_SOURCE == 0 && MPI_F_TAG == 1 && MPI_F_ERROR == 2);
CHECK(MPIX_CUDA_AWARE_SUPPORT == 1);
#if !defined MPIX_C_FLOAT16 || !defined MPIX_BFLOAT16 || !defined MPIX_C_BF16
#error "programs test for half precision with these macros"
#endif

#define VALUE(handle) ((uintptr_t)(handle))
int handle_values(void);
int handle_values(void) {
  return VALUE(MPI_OP_NULL) == 0x20 && VALUE(MPI_SUM) == 0x21 && VALUE(MPI_NO_OP) == 0x3d &&
         VALUE(MPI_COMM_NULL) == 0x100 && VALUE(MPI_COMM_WORLD) == 0x101 && VALUE(MPI_COMM_SELF) == 0x102 &&
         VALUE(MPI_GROUP_EMPTY) == 0x109 && VALUE(MPI_INFO_ENV) == 0x131 &&
         VALUE(MPI_ERRORS_RETURN) == 0x143 && VALUE(MPI_REQUEST_NULL) == 0x180 &&
         VALUE(MPI_DATATYPE_NULL) == 0x200 && VALUE(MPI_INT) == 0x209 && VALUE(MPI_DOUBLE) == 0x214 &&
         VALUE(MPI_BYTE) == 0x247 && VALUE(MPI_COMPLEX32) == 0x2eb && VALUE(MPI_BOTTOM) == 0 &&
         VALUE(MPI_IN_PLACE) == 1 && VALUE(MPI_UNWEIGHTED) == 10;
}

/* Handles in static initialisers, integer constants as case labels. */
MPI_Comm a_communicator = MPI_COMM_WORLD;
MPI_Datatype a_type = MPI_LONG_LONG_INT;
MPI_Comm_copy_attr_function* a_function = MPI_COMM_DUP_FN;
void* an_address = MPI_IN_PLACE;
int is_error(int code);
int is_error(int code) {
  switch (code) {
    case MPI_SUCCESS:
      return 0;
    case MPI_ERR_LASTCODE:
    default:
      return 1;
  }
}
