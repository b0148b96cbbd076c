/* SPDX-License-Identifier: BSD-3-Clause */
/* Beyond the standard ABI, as inline functions only: handles as Fortran integers, and the names that MPI 3.0
   removed. A program that defines WEFT_MPI_ABI_ONLY before it includes mpi.h gets the ABI's names alone. */
#ifndef WEFT_MPI_ABI_ONLY

/* MPI 5.0 section 19.3.4: a Fortran INTEGER of 4 bytes holds a handle as its MPI_*_toint value. */
typedef int MPI_Fint;
static inline MPI_Comm MPI_Comm_f2c(MPI_Fint comm) { return MPI_Comm_fromint(comm); }
static inline MPI_Fint MPI_Comm_c2f(MPI_Comm comm) { return MPI_Comm_toint(comm); }
static inline MPI_Errhandler MPI_Errhandler_f2c(MPI_Fint errhandler) {
  return MPI_Errhandler_fromint(errhandler);
}
static inline MPI_Fint MPI_Errhandler_c2f(MPI_Errhandler errhandler) {
  return MPI_Errhandler_toint(errhandler);
}
static inline MPI_File MPI_File_f2c(MPI_Fint file) { return MPI_File_fromint(file); }
static inline MPI_Fint MPI_File_c2f(MPI_File file) { return MPI_File_toint(file); }
static inline MPI_Group MPI_Group_f2c(MPI_Fint group) { return MPI_Group_fromint(group); }
static inline MPI_Fint MPI_Group_c2f(MPI_Group group) { return MPI_Group_toint(group); }
static inline MPI_Info MPI_Info_f2c(MPI_Fint info) { return MPI_Info_fromint(info); }
static inline MPI_Fint MPI_Info_c2f(MPI_Info info) { return MPI_Info_toint(info); }
static inline MPI_Message MPI_Message_f2c(MPI_Fint message) { return MPI_Message_fromint(message); }
static inline MPI_Fint MPI_Message_c2f(MPI_Message message) { return MPI_Message_toint(message); }
static inline MPI_Op MPI_Op_f2c(MPI_Fint op) { return MPI_Op_fromint(op); }
static inline MPI_Fint MPI_Op_c2f(MPI_Op op) { return MPI_Op_toint(op); }
static inline MPI_Request MPI_Request_f2c(MPI_Fint request) { return MPI_Request_fromint(request); }
static inline MPI_Fint MPI_Request_c2f(MPI_Request request) { return MPI_Request_toint(request); }
static inline MPI_Session MPI_Session_f2c(MPI_Fint session) { return MPI_Session_fromint(session); }
static inline MPI_Fint MPI_Session_c2f(MPI_Session session) { return MPI_Session_toint(session); }
static inline MPI_Datatype MPI_Type_f2c(MPI_Fint datatype) { return MPI_Type_fromint(datatype); }
static inline MPI_Fint MPI_Type_c2f(MPI_Datatype datatype) { return MPI_Type_toint(datatype); }
static inline MPI_Win MPI_Win_f2c(MPI_Fint win) { return MPI_Win_fromint(win); }
static inline MPI_Fint MPI_Win_c2f(MPI_Win win) { return MPI_Win_toint(win); }

/* MPI 5.0 section 19.3.5: a Fortran status is an array of MPI_F_STATUS_SIZE INTEGERs, laid out as MPI_Status.
 */
#define MPI_F_STATUS_IGNORE ((MPI_Fint*)0)
#define MPI_F_STATUSES_IGNORE ((MPI_Fint*)0)
static inline int MPI_Status_f2c(const MPI_Fint* f_status, MPI_Status* c_status) {
  int i;
  c_status->MPI_SOURCE = f_status[0];
  c_status->MPI_TAG = f_status[1];
  c_status->MPI_ERROR = f_status[2];
  for (i = 0; i < MPI_F_STATUS_SIZE - 3; ++i) c_status->MPI_internal[i] = f_status[3 + i];
  return MPI_SUCCESS;
}
static inline int MPI_Status_c2f(const MPI_Status* c_status, MPI_Fint* f_status) {
  int i;
  f_status[0] = c_status->MPI_SOURCE;
  f_status[1] = c_status->MPI_TAG;
  f_status[2] = c_status->MPI_ERROR;
  for (i = 0; i < MPI_F_STATUS_SIZE - 3; ++i) f_status[3 + i] = c_status->MPI_internal[i];
  return MPI_SUCCESS;
}
/* TYPE(MPI_Status) of module mpi_f08 has the same layout. */
typedef MPI_Status MPI_F08_status;
#define MPI_F08_STATUS_IGNORE ((MPI_F08_status*)0)
#define MPI_F08_STATUSES_IGNORE ((MPI_F08_status*)0)
static inline int MPI_Status_c2f08(const MPI_Status* c_status, MPI_F08_status* f08_status) {
  *f08_status = *c_status;
  return MPI_SUCCESS;
}
static inline int MPI_Status_f082c(const MPI_F08_status* f08_status, MPI_Status* c_status) {
  *c_status = *f08_status;
  return MPI_SUCCESS;
}
static inline int MPI_Status_f2f08(const MPI_Fint* f_status, MPI_F08_status* f08_status) {
  return MPI_Status_f2c(f_status, f08_status);
}
static inline int MPI_Status_f082f(const MPI_F08_status* f08_status, MPI_Fint* f_status) {
  return MPI_Status_c2f(f08_status, f_status);
}

/* Removed in MPI 3.0 (section 16.1). Their replacements take the same arguments, but for counts as addresses.
 */
#if defined(__GNUC__)
#define WEFT_REMOVED(instead) __attribute__((deprecated("removed in MPI 3.0: use " instead), unused))
#else
#define WEFT_REMOVED(instead)
#endif
typedef MPI_Comm_errhandler_function MPI_Handler_function;
/* Never returned. Other values than those of all combiners, since programs have both in one switch. */
#define MPI_COMBINER_HVECTOR_INTEGER 10001
#define MPI_COMBINER_HINDEXED_INTEGER 10002
#define MPI_COMBINER_STRUCT_INTEGER 10003
WEFT_REMOVED("MPI_Get_address")
static inline int MPI_Address(void* location, MPI_Aint* address) {
  return MPI_Get_address(location, address);
}
WEFT_REMOVED("MPI_Comm_create_errhandler")
static inline int MPI_Errhandler_create(MPI_Handler_function* function, MPI_Errhandler* errhandler) {
  return MPI_Comm_create_errhandler(function, errhandler);
}
WEFT_REMOVED("MPI_Comm_get_errhandler")
static inline int MPI_Errhandler_get(MPI_Comm comm, MPI_Errhandler* errhandler) {
  return MPI_Comm_get_errhandler(comm, errhandler);
}
WEFT_REMOVED("MPI_Comm_set_errhandler")
static inline int MPI_Errhandler_set(MPI_Comm comm, MPI_Errhandler errhandler) {
  return MPI_Comm_set_errhandler(comm, errhandler);
}
WEFT_REMOVED("MPI_Type_get_extent")
static inline int MPI_Type_extent(MPI_Datatype datatype, MPI_Aint* extent) {
  MPI_Aint lb;
  return MPI_Type_get_extent(datatype, &lb, extent);
}
WEFT_REMOVED("MPI_Type_get_extent")
static inline int MPI_Type_lb(MPI_Datatype datatype, MPI_Aint* displacement) {
  MPI_Aint extent;
  return MPI_Type_get_extent(datatype, displacement, &extent);
}
WEFT_REMOVED("MPI_Type_get_extent")
static inline int MPI_Type_ub(MPI_Datatype datatype, MPI_Aint* displacement) {
  MPI_Aint lb = 0, extent = 0;
  const int code = MPI_Type_get_extent(datatype, &lb, &extent);
  *displacement = lb + extent;
  return code;
}
WEFT_REMOVED("MPI_Type_create_hindexed")
static inline int MPI_Type_hindexed(int count, int* blocklengths, MPI_Aint* displacements,
                                    MPI_Datatype oldtype, MPI_Datatype* newtype) {
  return MPI_Type_create_hindexed(count, blocklengths, displacements, oldtype, newtype);
}
WEFT_REMOVED("MPI_Type_create_hvector")
static inline int MPI_Type_hvector(int count, int blocklength, MPI_Aint stride, MPI_Datatype oldtype,
                                   MPI_Datatype* newtype) {
  return MPI_Type_create_hvector(count, blocklength, stride, oldtype, newtype);
}
WEFT_REMOVED("MPI_Type_create_struct")
static inline int MPI_Type_struct(int count, int* blocklengths, MPI_Aint* displacements, MPI_Datatype* types,
                                  MPI_Datatype* newtype) {
  return MPI_Type_create_struct(count, blocklengths, displacements, types, newtype);
}

#endif /* WEFT_MPI_ABI_ONLY */
