# SPDX-License-Identifier: BSD-3-Clause
# Expected failures and tests that are not built: (pattern of test names, reason). Other failures are bugs of Weft.
LATER = "Weft has no %s yet"
OLD = "uses names that MPI 3.0 removed: "
INTERNAL = "tests MPICH itself: "
WRONG = "the test is wrong: "

NOT_PASSED = (
    # not implemented
    (r"datatype/allctypesf(90|08)? ", OLD + "MPI_LB, MPI_UB"),
    (r"init/baseenvf(90)? ", WRONG + "it refuses versions of MPI above 4"),
    (
        r"pt2pt/greqf(90|08)? ",
        WRONG + "it wants callbacks to change the variable given to MPI_Grequest_start, of which they get the value",
    ),
    # specific to MPICH
    (
        r"coll/(op(land|lor|lxor|band|bor|bxor|prod|sum|min|max)) \d+ $",
        INTERNAL + "reductions of MPI_CHAR, which the standard excludes (section 6.9.2); the strict ones pass",
    ),
    (
        r"errors/faults/",
        INTERNAL
        + "MPIEXEC_ALLOW_FAULT, a launcher that takes killed ranks for success; folder ft tests fault tolerance",
    ),
    (r"errors/comm/too_many_", INTERNAL + "expects communicators to run out; Weft's context ids do not"),
    # wrong tests
    (
        r"ft/(agree|bcast) ",
        WRONG + "its last MPI_Reduce is on a communicator with a dead process, and it prints the error",
    ),
    (r"ft/gather ", WRONG + "its receive buffer has a quarter of the size that its counts need"),
    (r"ft/revoke_shrink ", WRONG + "it checks the result of the reduction that has failed"),
    (
        r"mpi_t/cvarwrite ",
        WRONG + "it wants 123 in every enumeration, while MPI runs: a variable may refuse both (section 15.3.6)",
    ),
    (r"coll/nonblocking[23] ", WRONG + "it fills arrays of datatypes as arrays of int, half of a handle"),
    (r"threads/pt2pt/mt_improbe_", WRONG + "it compares messages with MPI_REQUEST_NULL, another handle in this ABI"),
    (r"topo/cartsuball ", WRONG + "MPI_Cart_sub without dimensions gives each process its own (section 8.5.8)"),
    (r"part/nonblocking_pready ", WRONG + "it sends MPI_DATATYPE_NULL, which is no datatype (section 3.2.2)"),
    (
        r"errors/io/fileerrret ",
        WRONG + "it wants an error handler to change the code that the call returns (section 9.3)",
    ),
    (r"errors/attr/keyvalmis ", WRONG + "the window has its default error handler, which aborts (section 9.3)"),
    (
        r"errors/comm/comm_(create|create_group|split|split_type)_nullarg ",
        WRONG + "the error belongs to a communicator that was made when errors were fatal (section 9.3)",
    ),
    (
        r"errors/coll/i?(reduceop|allgatherlength) ",
        WRONG + "each rank expects to see a mismatch of others, which need not be detected (section 2.8)",
    ),
    (r"errors/datatype/type_ub_nullarg ", OLD + "mpi.h has MPI_Type_ub as an inline function, without checks"),
    (r"f08/spawn/spawnargv", WRONG + "it wants a leading space of an argument, which is stripped (section 11.8.2)"),
    (r"pt2pt/p?scancel( |_unmatch )", WRONG + "it wants sends to be cancelled, which may fail (section 3.8.4)"),
)

NOT_BUILT = (
    (r"mpi_t/qmpi_test ", INTERNAL + "its own tool chain (QMPI)"),
    (r"_oldapi |struct_no_real_types ", OLD + "MPI_LB, MPI_UB, ..."),
    (r"f77/datatype/typecntsf ", OLD + "MPI_COMBINER_HVECTOR_INTEGER, ..."),
    (r"datatype/hindex1f(90)? ", OLD + "MPI_Type_hindexed"),
    (r"f90/datatype/get_elem_u ", OLD + "MPI_Type_extent"),
    (
        r"f90/coll/(alltoallvf90|split_typef90|vw_inplacef90|nonblocking_inpf90) ",
        WRONG + "scalars and arrays do not match the interfaces (section 19.1.3)",
    ),
    (r"f90/profile/profile1f90 ", WRONG + "it defines MPI_Send where module mpi declares it"),
    (r"f77/rma/aintf ", WRONG + "it declares MPI_Aint_add again, which mpif.h declares"),
    (r"ext/allocmemf(90)? ", WRONG + "it uses Cray pointers, an extension of compilers"),
    (
        r"f08/spawn/spawnargvf(90|03) ",
        WRONG + "it expects a leading space of an argument, which is stripped in Fortran (section 11.8.2)",
    ),
    (r"f08/io/c2f2ciof90 ", WRONG + "its part in C uses a variable that it does not declare"),
    (r"datatype/pack_external ", WRONG + "it takes handles for integers (switch)"),
    (r"errhan/adderr ", INTERNAL + "MPIX_Delete_error_class, _code, _string"),
)

# Verdicts that differ between the standard ABI and a library of lib/compat (test/conformance/compat.py), by its wrapper.
BOUNDS = OLD + "MPI_LB, MPI_UB, of which the standard ABI has no handles"
MPICH = (
    (r"datatype/(lbub_oldapi|typename_oldapi|struct_no_real_types) ", BOUNDS),
    (r"comm/cmsplit_type ", INTERNAL + "MPIX_COMM_TYPE_NEIGHBORHOOD"),
    (r"mpi_t/qmpi_test ", INTERNAL + "its own tool chain (QMPI), whose names its mpi.h has and the library lacks"),
)
OPENMPI = (
    (
        r"init/version ",
        "it compares MPI_Get_version with mpi.h (3.1): the library publishes 4.0, since it has the functions of MPI 4, "
        "by which mpi4py's binary package chooses its calls",
    ),
    (r"datatype/typename ", "Open MPI's mpi.h has no MPI_INTEGER16, which the test wants"),
    (
        r"(datatype/type|pt2pt/pt2pt|coll/coll)_large ",
        "Open MPI's mpi.h has no functions with MPI_Count (MPI_Send_c, ...)",
    ),
)
THROUGH = {
    "mpich": MPICH,
    "openmpi": OPENMPI,
    "debian-mpich": (
        *MPICH,
        (
            r"init/(version|baseenv) ",
            "it compares MPI_Get_version with mpi.h (4.0): the library publishes 5.0, as MPICH 5 does",
        ),
        (
            r"cxx/coll/redscatblk ",
            WRONG + "in place the result is at the beginning of the buffer (section 6.10.1), where it does not look",
        ),
        (r"cxx/datatype/typenamex ", BOUNDS),
    ),
    "debian-openmpi": (
        *OPENMPI,
        (
            r"part/|comm/(cmsplit_type|idup_with_info) |info/(infogetstring|info_no_init|infocreateenv) |"
            r"init/(mult_)?session|pt2pt/(sendrecv3|isendrecv|isendrecv_replace) |coll/p_",
            "the mpi.h of Open MPI 4 is that of MPI 3.1: no partitioned communication, sessions, MPI_Isendrecv, "
            "persistent collectives, MPI_Info_get_string, ...",
        ),
        (
            r"ft/(anysource|revoke_nofail|shrink|agree|agree_shrink|revoke_shrink|failure_ack) ",
            "Open MPI 4's mpi-ext.h has no names of fault tolerance (MPIX_Comm_revoke, ...)",
        ),
    ),
}
